"""cody evaluate: explainers on the same links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from cody import search
from cody.cli import options as shared
from cody.cli.command import bundled, command, given_by, option_fields
from cody.cli.running import failures_of, records_of, run_evaluation, say_failures, way_to_evaluate
from cody.cli.terminal import Prose, ShownPart, print_json, print_parts, status
from cody.cli.types import LINES
from cody.errors import CallError
from cody.graph.neighbourhood import SIZE
from cody.models.decided import LINK_PREDICTED
from cody.study import metrics
from cody.study import run as evaluation
from cody.study.explainers import COMPARED, EXPLAINERS, NEAR, SEARCHES, Entry, Explainer, explainer, find
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD, TEST_PERIOD, KindWords
from cody.utils.tables import TextTable

ALL = "all"
Summaries = Mapping[metrics.Group, metrics.MetricSummary]
_links, _space = option_fields("Which links"), option_fields("The search space")
_search, _output = option_fields("The search"), option_fields("Output")


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Which links, which explainers with which options, and who does the work."""

    source: shared.ModelSource = given_by(shared.model_options)
    decide: shared.DecisionOptions = given_by(shared.decision_options)
    instances: int = _links("Number of links of each kind.", default=100)
    kinds: str = given_by(shared.kinds_option)
    period: str | None = given_by(shared.period_option)
    margin: float | None = _links("Leave out links whose logit, or margin to the decision, is closer to 0. Default: 0.")
    seed: int = given_by(shared.seed_option)
    paper: bool = _links("As in the published tables: --period 0.2..0.6 --margin 0.2 --near nodes.")
    explainers: str = _search(
        f"{', '.join(f'{name}-POLICY' for name in SEARCHES)}, factual ones, or all.",
        "NAMES",
        default=",".join(COMPARED),
    )
    candidates: int | None = _space("Maximum number of candidate events. Default: 64; T-GNNExplainer: 30.")
    near: str | None = given_by(shared.near_option)
    allow: str | None = given_by(shared.allow_option)
    protect: Sequence[str] = given_by(shared.protect_option)
    iterations: int = _search("Iterations of tree searches.", default=300)
    alpha: float = _search("Tree searches: 0 explores, 1 exploits.", default=search.ALPHA, show_default="2/3")
    evaluations: int | None = _search("Maximum number of model evaluations of each explainer.")
    share_answers: bool = _search("Evaluate a set once for all explainers: faster, but without timings.", was="--share")
    scorer: str | None = given_by(shared.scorer_option)
    work: shared.WorkOptions = given_by(shared.work_options)
    out: Path = _output("File for the records, JSON Lines; resumes an existing file.", type=LINES, required=True)
    units: shared.UnitOptions = given_by(shared.unit_options)
    as_json: bool = given_by(shared.json_option)

    @property
    def sample(self) -> evaluation.Sample:
        usual, margin = (PAPER_PERIOD, PAPER_MARGIN) if self.paper else (TEST_PERIOD, 0.0)
        return evaluation.Sample(
            self.instances,
            tuple(dict.fromkeys(shared.names_in(self.kinds))),
            usual if self.period is None else shared.parse_period(self.period),
            margin if self.margin is None else self.margin,
        )

    @property
    def entries(self) -> list[Entry]:
        """The explainers that are named, in the catalogue."""
        names = shared.names_in(self.explainers)
        named = [find(name) for name in names if name != ALL]
        entries = list(EXPLAINERS.values()) if ALL in names else named
        if self.scorer is not None and not any(entry.needs_scorer for entry in entries):
            learned = ", ".join(entry.name for entry in EXPLAINERS.values() if entry.needs_scorer)
            raise CallError(f"{self.explainers!r} has no option --scorer: only these use one: {learned}")
        return entries

    def chosen(self) -> list[Explainer]:
        edits = shared.parse_edits(self.allow)
        if self.paper and edits != shared.parse_edits(None):
            raise CallError(f"--paper compares removals, as the paper does: leave out --allow {self.allow}")
        return [
            explainer(
                entry.name,
                scorer=(self.scorer or self.source.model) if entry.needs_scorer else None,
                allow_data_mismatch=self.source.allow_data_mismatch,
                size=self.candidates or entry.size or SIZE,  # the same for all, so that their answers can be compared
                near=NEAR[self.near or ("nodes" if self.paper else "ends")],
                evaluations=self.evaluations,
                edits=edits,
                **{name: getattr(self, name) for name in ("iterations", "alpha") if name in entry.options},
            )
            for entry in self.entries
        ]


@command(
    "evaluate",
    examples={
        "cody evaluate --instances 100 --out run.jsonl": "CoDy and GreeDy; rerun to resume",
        "cody evaluate --explainers all --workers 4 --out run.jsonl": "all explainers, in four processes",
        "cody evaluate --top 10 --out ranks.jsonl": "what keeps links among the ten best",
    },
)
@bundled("options", EvaluationOptions)
def evaluate(options: EvaluationOptions) -> None:
    """Run explainers on the same links and record every answer. Rerun a command that was stopped to resume it."""
    source, decision = options.source, options.decide.decision()
    if not 0 <= options.alpha <= 1:
        raise CallError(f"--alpha must lie between 0 and 1, not {options.alpha}")
    if options.paper and decision not in (None, LINK_PREDICTED):
        raise CallError("--paper compares predicted links, as the paper does: leave out the decision")
    sample = options.sample
    with shared.supported([entry.name for entry in options.entries], source, decision):
        chosen = options.chosen()
    with status("Loading the data ..."):
        named = source.named()
        protect, by, rule = shared.parse_protected(named.graph, options.protect), options.units.kind, options.units.rule
        explainers = tuple(replace(each, protect=protect, by=by, dependants=rule) for each in chosen)
    plan = evaluation.EvaluationPlan(
        named.data, source.model, explainers, options.seed, options.share_answers, decision
    )
    model = source.open(named)
    evaluation.check_plan(model, named.graph, plan)
    for learned in dict.fromkeys(entry.learned for entry in options.entries if entry.needs_scorer):
        from cody.baselines import load_trained  # a scorer that was not trained for this model is refused first

        load_trained(learned, options.scorer or source.model, model, allow_data_mismatch=source.allow_data_mismatch)
    way = way_to_evaluate(named.data, named.graph, source, options.work)
    done, words = run_evaluation(options.out, model, named.graph, plan, sample, way, kept=options.out)
    failures = failures_of(options.out, plan, done)
    print_evaluation(metrics.summaries(records_of(options.out, plan, done), failures), words, as_json=options.as_json)
    say_failures(failures)
    if not options.as_json and shared.parse_edits(options.allow) != shared.parse_edits(None):
        print(f"--allow {options.allow}: do not compare this with explainers that only remove events.")


def print_evaluation(summaries: Summaries, words: Mapping[str, KindWords], *, as_json: bool = False) -> None:
    """Print means for each explainer, one table for each kind of prediction; `words` say what each kind is called."""
    if as_json:
        print_json([group._asdict() | asdict(summary) for group, summary in summaries.items()])
    else:
        print_parts(_parts(summaries, words))


def _parts(summaries: Summaries, words: Mapping[str, KindWords]) -> Iterable[ShownPart]:
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
            group.explainer, *(f"{share:.3f}" for share in shares), sets, seconds, *(_ranks(row) if ranked else [])
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


def _ranks(row: metrics.MetricSummary) -> list[str]:
    if row.rank is None or row.rank_after is None or row.reciprocal_rank_lost is None:
        return ["–"] * 3
    return [f"{row.rank:,.0f}", f"{row.rank_after:,.0f}", f"{row.reciprocal_rank_lost:.3f}"]
