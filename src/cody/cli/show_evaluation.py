"""The means of an evaluation in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from cody.cli.show import Prose, ShownPart, print_parts
from cody.study.decisions import KindWords
from cody.study.metrics import Group, MetricSummary
from cody.utils.tables import TextTable


def print_evaluation(summaries: Mapping[Group, MetricSummary], words: Mapping[str, KindWords]) -> None:
    """Print means for each explainer, one table for each kind of prediction; `words` say what each kind is called."""
    print_parts(_parts(summaries, words))


def _parts(summaries: Mapping[Group, MetricSummary], words: Mapping[str, KindWords]) -> Iterable[ShownPart]:
    kinds: dict[str, TextTable] = {}
    ranked = any(row.rank is not None for row in summaries.values())
    for group, row in summaries.items():
        title = words[group.kind].counted(row.links)
        if title not in kinds:
            names = ["explainer", "#fid+", "#fid-", "#sparsity", "#AUFSC+", "#sets", "#seconds"]
            names += ["#rank", "#after", "#RR lost"] if ranked else []
            kinds[title] = TextTable(*names, title="\n" * bool(kinds) + click.style(title, bold=True), whole=[0])
        shares = (row.fidelity_plus, row.fidelity_minus, row.sparsity, row.aufsc_plus)
        mean = row.evaluations or 0.0
        sets = f"{mean:,.{1 if mean < 1000 else 0}f}"
        seconds = "–" if row.seconds is None else f"{row.seconds:.3f}"
        kinds[title].add_row(
            group.explainer, *(f"{share:.3f}" for share in shares), sets, seconds, *_ranks(row, ranked)
        )
    yield from kinds.values()
    if kinds:
        yield ""
        subject = next(iter(words.values())).subject
        yield Prose(
            f"fid+: share of {subject}s whose decision changes without the events named; fid-: share whose decision "
            "stays with these events alone; sparsity: mean share of the candidates that is named; AUFSC+: area under "
            "fid+ over sparsity; sets: mean number of sets that were evaluated."
        )
    if ranked:
        yield Prose(
            "rank, after: median rank, and that without the events named; RR lost: mean of 1/rank less that of 1/rank "
            "without them; negative where they keep the destination down."
        )


def _ranks(row: MetricSummary, ranked: bool) -> list[str]:
    if not ranked:
        return []
    if row.rank is None or row.rank_after is None or row.reciprocal_rank_lost is None:
        return ["–"] * 3
    return [f"{row.rank:,.0f}", f"{row.rank_after:,.0f}", f"{row.reciprocal_rank_lost:.3f}"]
