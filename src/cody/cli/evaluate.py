"""cody evaluate: explainers on the same links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cody import search
from cody.cli.command import COUNT, LINES, bundled, command, section
from cody.cli.messages import print_json
from cody.cli.options import (
    ModelSource,
    allow_option,
    json_option,
    kinds_option,
    model_options,
    names_in,
    near_option,
    parse_edits,
    parse_period,
    parse_protected,
    period_option,
    protect_option,
    ray_option,
    scorer_option,
    seed_option,
    workers_option,
)
from cody.cli.progress import status
from cody.cli.running import failures_of, finish, records_of, say_failures, way_to_evaluate
from cody.errors import CallError
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model
from cody.search.proposals import Proposer
from cody.study import metrics
from cody.study import run as evaluation
from cody.study.explainers import COMPARED, EXPLAINERS, NEAR, SEARCHES, Entry, Explainer, explainer, find
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD, TEST_PERIOD

ALL = "all"


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Which links, which explainers with which options, and who does the work."""

    instances: int
    kinds: str
    period: str | None
    margin: float | None
    seed: int
    paper: bool
    explainers: str
    candidates: int | None
    near: str | None
    allow: str | None
    protect: Sequence[str]
    iterations: int
    alpha: float
    evaluations: int | None
    share_answers: bool
    scorer: str | None
    workers: int
    ray: str | None
    out: Path

    @property
    def sample(self) -> evaluation.Sample:
        return evaluation.Sample(
            self.instances,
            tuple(dict.fromkeys(names_in(self.kinds))),
            parse_period(self.period) if self.period is not None else PAPER_PERIOD if self.paper else TEST_PERIOD,
            self.margin if self.margin is not None else PAPER_MARGIN if self.paper else 0.0,
        )

    @property
    def edits(self) -> tuple[Proposer, ...]:
        edits = parse_edits(self.allow)
        if self.paper and edits != parse_edits(None):
            raise CallError(f"--paper compares removals, as the paper does: leave out --allow {self.allow}")
        return edits

    @property
    def entries(self) -> list[Entry]:
        """The explainers that are named, in the catalogue."""
        names = names_in(self.explainers)
        named = [find(name) for name in names if name != ALL]
        entries = list(EXPLAINERS.values()) if ALL in names else named
        if self.scorer is not None and not any(entry.needs_scorer for entry in entries):
            learned = ", ".join(entry.name for entry in EXPLAINERS.values() if entry.needs_scorer)
            raise CallError(f"{self.explainers!r} has no option --scorer: only these use one: {learned}")
        return entries

    def chosen(self, source: ModelSource) -> list[Explainer]:
        edits = self.edits
        return [
            explainer(
                entry.name,
                scorer=(self.scorer or source.model) if entry.needs_scorer else None,
                allow_data_mismatch=source.allow_data_mismatch,
                size=self.candidates or entry.size or SIZE,  # the same for all, so that their answers can be compared
                near=NEAR[self.near or ("nodes" if self.paper else "ends")],
                evaluations=self.evaluations,
                edits=edits,
                **{name: getattr(self, name) for name in ("iterations", "alpha") if name in entry.options},
            )
            for entry in self.entries
        ]


_links, _space = section("Which links"), section("The search space")
_search, _output = section("The search"), section("Output")
evaluation_options = bundled(
    "options",
    EvaluationOptions,
    _links("--instances", type=COUNT, default=100, help="Number of links of each kind."),
    kinds_option,
    period_option,
    _links("--margin", type=float, help="Leave out links whose logit is closer to 0. Default: 0."),
    seed_option,
    _links("--paper", is_flag=True, help="As in the published tables: --period 0.2..0.6 --margin 0.2 --near nodes."),
    _search(
        "--explainers",
        default=",".join(COMPARED),
        metavar="NAMES",
        help=f"{', '.join(f'{name}-POLICY' for name in SEARCHES)}, factual ones, or all.",
    ),
    _space("--candidates", type=COUNT, help="Maximum number of candidate events. Default: 64; T-GNNExplainer: 30."),
    near_option,
    allow_option,
    protect_option,
    _search("--iterations", type=COUNT, default=300, help="Iterations of tree searches."),
    _search(
        "--alpha", type=float, default=search.ALPHA, show_default="2/3", help="Tree searches: 0 explores, 1 exploits."
    ),
    _search("--evaluations", type=COUNT, help="Maximum number of model evaluations of each explainer."),
    _search(
        "--share-answers",
        was="--share",
        is_flag=True,
        help="Evaluate a set once for all explainers: faster, but without timings.",
    ),
    scorer_option,
    workers_option,
    ray_option,
    _output("--out", type=LINES, required=True, help="File for the records, JSON Lines; resumes an existing file."),
)


@command(
    "evaluate",
    examples={
        "cody evaluate --instances 100 --out run.jsonl": "CoDy and GreeDy; rerun to resume",
        "cody evaluate --explainers all --workers 4 --out run.jsonl": "all explainers, in four processes",
    },
)
@model_options
@evaluation_options
@json_option
def evaluate(source: ModelSource, options: EvaluationOptions, as_json: bool) -> None:
    """Run explainers on the same links and record every answer. Rerun a command that was stopped to resume it."""
    if not 0 <= options.alpha <= 1:
        raise CallError(f"--alpha must lie between 0 and 1, not {options.alpha}")
    chosen, sample = options.chosen(source), options.sample
    with status("Loading the data ..."):
        named = source.named()
        protect = parse_protected(named.graph, options.protect)
        chosen = [replace(each, protect=protect) for each in chosen]
        data = named.data(source.data)
        plan = evaluation.EvaluationPlan(data, source.model, tuple(chosen), options.seed, options.share_answers)
    model = source.open(named)
    for learned in dict.fromkeys(entry.learned for entry in options.entries if entry.needs_scorer):
        _check_scorer(learned, options.scorer or source.model, model, source.allow_data_mismatch)
    with way_to_evaluate(data, named.graph, source, options.workers, options.ray) as way:
        steps = evaluation.run(options.out, model, named.graph, plan, sample, evaluate=way)
        links = finish(steps, sample, kept=options.out, nothing="nothing was done yet")
    failures = failures_of(options.out, plan, links)
    _print(metrics.summaries(records_of(options.out, plan, links), failures), as_json=as_json)
    say_failures(failures)
    if not as_json and options.edits != parse_edits(None):
        print(f"--allow {options.allow}: do not compare this with explainers that only remove events.")


def _print(summaries: dict[metrics.Group, metrics.MetricSummary], *, as_json: bool) -> None:
    if as_json:
        print_json([group._asdict() | asdict(summary) for group, summary in summaries.items()])
        return
    from cody.cli import show

    show.print_parts(show.evaluation(summaries))


def _check_scorer(policy: str, scorer: str, model: Model, allow_data_mismatch: bool) -> None:
    """A scorer that was not trained for this model is refused before anything is run."""
    from cody.baselines import load_trained

    load_trained(policy, scorer, model, allow_data_mismatch=allow_data_mismatch)
