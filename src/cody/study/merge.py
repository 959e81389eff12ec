"""Records of several files as one survey, for example of halves that were made on two machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cody.errors import CallError
from cody.study.decisions import in_words, same_decision
from cody.study.record import Record
from cody.study.record_file import read_runs


def records_of_models(files: Sequence[Path], explainer: str | None = None) -> list[list[Record]]:
    """The records in the files, those of each model apart, the first model first.

    Each model is known by its weights, so it may have another name in each file. All records must be of one explainer,
    with the same options; `explainer` chooses one if the files have several.
    """
    records = read_runs(files, documents=True)
    names = sorted({record.explainer for record in records})
    if explainer is None and len(names) > 1:
        raise CallError(
            f"the files have records of {len(names)} explainers: choose with --explainer {' or '.join(names)}"
        )
    chosen = [record for record in records if explainer in (None, record.explainer)]
    if not chosen:
        has = f"only of {', '.join(names)}" if names else "none at all"
        raise CallError(f"the files have no records{'' if explainer is None else f' of {explainer}'}: {has}")
    _check_one_run(chosen)
    models = dict.fromkeys(record.model_identity for record in chosen)
    return [[record for record in chosen if record.model_identity == model] for model in models]


def _check_one_run(records: Sequence[Record]) -> None:
    """Reject records that cannot be counted together."""
    first = records[0]
    of_model: dict[str, Record] = {}  # models of labels may each have their own threshold
    for record in records:
        if record.data_identity != first.data_identity:
            raise CallError(f"the files are about different data: {first.data} and {record.data}")
        like = of_model.setdefault(record.model_identity, record) if record.subject != "link" else first
        if not same_decision(record, like):
            both = f"{in_words(like.decision)!r} and {in_words(record.decision)!r}"
            raise CallError(f"the files are about different decisions: {both}")
        there, here = ({"search": each.search, "policy": each.policy, **each.options} for each in (record, first))
        for option in sorted(there.keys() | here.keys()):
            one, other = (json.dumps(each.get(option), sort_keys=True) for each in (here, there))
            if one != other:
                raise CallError(
                    f"the files cannot be counted together: {option} is {one} in one and {other} in another"
                )
