"""Records prepared for comparison: what belongs together gets one name, what must not be mixed is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from cody.errors import DataError
from cody.study.explainers import EXPLAINERS, NEAR
from cody.study.instances import in_words, same_decision
from cody.study.metrics import groups
from cody.study.record import REMOVALS, Record
from cody.utils.words import sanitize

# In the paper's order. Others follow by name.
DATA = ("collegemsg", "uci-messages", "uci-forums", "wikipedia")
MODELS = ("tgn", "tgat")
NEAR_WORDS = {function.__name__: f"near {name}" for name, function in NEAR.items()}  # as the command line calls them

ONE_AT_A_TIME = "pass their files one at a time"

Parts = tuple[str, str]  # search and policy, as a record names them


def arrange(records: Sequence[Record]) -> list[Record]:
    """The records with short names for data and models, and one name for each setting of an explainer.

    A model's name loses its folder and the name of its data: runs/tgn-wikipedia and runs/tgn-uci-forums are both tgn.
    An explainer that was run with several settings becomes one explainer for each: cody-temporal (alpha=0.5). A record
    that is in several files counts once.
    """
    if not records:
        raise DataError("there are no records to compare; cody evaluate writes them")
    short = [replace(record, data=_data(record), model=_family(record)) for record in records]
    _check_identities(records, short)
    return _once(_name_settings(short))


def in_order(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Distinct names: the known ones in their order, then the others by name.

    >>> in_order(["zebra", "tgat", "ant", "tgn", "tgat"], MODELS)
    ['tgn', 'tgat', 'ant', 'zebra']
    """
    places = {name: place for place, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (places.get(name, len(places)), name))


def explainers_in_order(records: Iterable[Record]) -> dict[str, Parts]:
    """The explainers of records and what each is made of: in the order of the catalogue, then the others by name."""
    found = {record.explainer: (record.search, record.policy) for record in records}
    places = {entry.parts: place for place, entry in enumerate(EXPLAINERS.values())}

    def place(name: str) -> tuple[int, bool, str]:
        return places.get(found[name], len(places)), name not in EXPLAINERS, name  # settings follow their explainer

    return {name: found[name] for name in sorted(found, key=place)}


def setting(search: Any, policy: Any, options: Any) -> dict[str, str]:
    """An explainer's search, policy and options in one flat dictionary of texts.

    >>> setting("cody", "temporal", {"search": {"alpha": 0.5}, "candidates": {"size": 64}})
    {'search': 'cody', 'policy': 'temporal', 'edits': '["removals"]', 'search.alpha': '0.5', 'candidates.size': '64'}
    """
    parts = _flat({"search": search, "policy": policy})
    options = {"edits": list(REMOVALS), **(options if isinstance(options, Mapping) else {})}
    return parts | _flat(options) | parts


def setting_of(record: Record) -> dict[str, str]:
    return setting(record.search, record.policy, record.options)


def _flat(values: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": text for inner, text in _flat(value).items()}
        else:
            flat[name] = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return flat


def _data(record: Record) -> str:
    return sanitize(PurePath(record.data).name.removesuffix(".csv").removesuffix(".parquet").removeprefix("ml_"), 40)


def _family(record: Record) -> str:
    name = PurePath(record.model).name
    return sanitize(name.removesuffix(f"-{_data(record)}") or name, 40)


def _check_identities(records: Sequence[Record], short: Sequence[Record]) -> None:
    """Reject records of two models, two data sets or two decisions that would end up in the same column."""
    models: dict[tuple[str, str], Record] = {}
    for record, renamed in zip(records, short, strict=True):
        first = models.setdefault((renamed.data, renamed.model), record)
        for what, mine, other in (
            ("model", (record.model, record.model_identity), (first.model, first.model_identity)),
            ("data set", (record.data, record.data_identity), (first.data, first.data_identity)),
        ):
            if mine[1] != other[1]:
                raise DataError(
                    f"the records mix two different {what}s, {other[0]!r} ({other[1][:12]}) and {mine[0]!r} "
                    f"({mine[1][:12]}); {ONE_AT_A_TIME}"
                )
        if not same_decision(record, first):
            both = f"{in_words(first.decision)!r} and {in_words(record.decision)!r}"
            raise DataError(f"the records mix two different decisions, {both}; {ONE_AT_A_TIME}")


def _name_settings(records: Sequence[Record]) -> list[Record]:
    """The records, with an explainer for each setting that an explainer was run with on the same links."""
    varied = _varied_options(records)
    forms = [_forms(record.explainer, setting_of(record), varied[record.explainer]) for record in records]
    meanings: dict[str, set[str]] = {}  # of each form: the exact ones that it could stand for
    for every in forms:
        for form in every:
            meanings.setdefault(form, set()).add(every[-1])
    named = [next((form for form in every if len(meanings[form]) == 1), every[-1]) for every in forms]
    return [replace(record, explainer=name) for record, name in zip(records, named, strict=True)]


def _varied_options(records: Sequence[Record]) -> dict[str, list[str]]:
    """For each explainer, the options in which records of the same group differ."""
    varied: dict[str, dict[str, None]] = {}  # a dictionary keeps the order in which options are met
    for group, members in groups(records).items():
        settings = [setting_of(record) for record in members]
        options = dict.fromkeys(option for values in settings for option in values)
        differing = (option for option in options if len({values.get(option) for values in settings}) > 1)
        varied.setdefault(group.explainer, {}).update(dict.fromkeys(differing))
    return {explainer: list(options) for explainer, options in varied.items()}


def _forms(explainer: str, values: Mapping[str, str], varied: Sequence[str]) -> tuple[str, str, str]:
    """Names for a setting of an explainer, from the shortest to the exact one: no other setting has that."""
    pairs = [(key.rpartition(".")[2], _rounded(values.get(key, "–"))) for key in varied]
    readable = ", ".join(NEAR_WORDS.get(value, f"{name}={value}") for name, value in pairs)
    exact = ", ".join(f"{key}={values.get(key)}" for key in varied)
    readable, exact = (f"{explainer} ({shown})" if varied else explainer for shown in (readable, exact))
    return sanitize(readable, 60), sanitize(readable, 1000), sanitize(exact, 10_000)


def _rounded(value: str) -> str:
    """A number rounded to four digits; any other text unchanged."""
    try:
        return f"{float(value):.4g}" if "." in value else value
    except ValueError:
        return value


def _once(records: Sequence[Record]) -> list[Record]:
    """Each record once: files may overlap, as long as they agree."""
    known: dict[tuple[object, ...], Record] = {}
    for record in records:
        key = (record.data, record.model, record.kind, record.explainer, record.event, record.seed)
        first = known.setdefault(key, record)
        if replace(record, seconds=first.seconds, version=first.version) != first:
            raise DataError(
                f"{record.explainer} explains event {record.event} of {record.data} twice with seed {record.seed}, "
                "differently: these files do not belong together"
            )
    return list(known.values())
