"""cody explain: what would have to change for a prediction to flip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cody.cli import options as shared
from cody.cli.command import bundled, command, given, given_by, option_fields, option_name, refuse, values
from cody.cli.terminal import Prose, ShownPart, print_csv, print_json, print_parts, progress, say, status
from cody.cli.types import BUNDLE, LINES, whole
from cody.errors import BudgetError, CallError
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain as explain_link
from cody.explaining.what_if import later_time
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model, check_attention
from cody.search.further import number_of_sets
from cody.search.oracle import counting
from cody.search.proposals import additions, removals
from cody.search.scout import usual_evaluations
from cody.search.widening import WIDTHS
from cody.study import explainers as known
from cody.study.explainers import Explainer, check_options, explainer, find
from cody.study.request import OtherModels, Request
from cody.utils import words

if TYPE_CHECKING:
    from cody.explaining.even_if import EvenIf
    from cody.explaining.recourse import Plan

_link, _even = option_fields("The link"), option_fields("The question")
_space, _actor = option_fields("The search space"), option_fields("What one node could do")
_search, _own = option_fields("The search"), option_fields("Options of single explainers")
_stability, _output = option_fields("What it survives"), option_fields("Output")
HINTS = 12  # additions that are tried where no removal was found
OWN = ("iterations", "alpha", "children", "stop_at_first", "sparsity", "rollouts")  # options of single explainers


@dataclass(frozen=True, slots=True)
class SearchChoice:
    """What may change, and how the smallest such change is searched for."""

    allow: str | None = given_by(shared.allow_option)
    why_not: bool = _space(f"Why is the link not predicted? Short for --allow {shared.ALLOWED_BY_WHY_NOT}.")
    protect: Sequence[str] = given_by(shared.protect_option)
    candidates: int | None = given_by(shared.candidates_option)
    hops: int | None = _space("Neighbourhood radius in hops. Default: that of the model.")
    near: str | None = given_by(shared.near_option)
    explainer: str = _search(
        f"Searches: {', '.join(known.SEARCHES)}. Factual: {', '.join(entry.name for entry in known.FACTUAL)}.",
        "NAME",
        default=known.DEFAULT_SEARCH,
    )
    policy: str | None = _search(
        f"Order in which a search tries candidates: {', '.join(known.POLICIES)}. Default: {known.DEFAULT_POLICY}.",
        "NAME",
    )
    count: int | None = _search(
        "Number of counterfactuals to search for. Default: report up to 3 of those that one search finds."
    )
    prove: int = _search("Exhaustively test sets smaller than K.", "K", default=1)
    evaluations: int | None = _search(
        "Maximum number of model evaluations. Default: 300, and more where nothing is found."
    )
    seconds: float | None = _search("Time limit for each link, verification included.")
    seed: int = _search("Seed of the random policy.", type=whole(0), default=0)
    attribute: Literal["shapley", "owen", "attention"] | None = _search(
        "Show what each candidate adds, too, as a waterfall; owen: events of two nodes belong together; "
        "attention: its share of the attention.",
        one_of=["shapley", "owen", "attention"],
    )
    verify: str = _search(
        "Verify by replay from the oldest changed event, or from the first event.",
        one_of=["window", "full"],
        default="window",
    )
    iterations: int | None = _own("CoDy: iterations of the tree search. Default: 300.")
    alpha: float | None = _own("CoDy: 0 explores, 1 exploits. Default: 2/3.")
    children: int | None = _own("GreeDy: events tried at each step. Default: 10.")
    stop_at_first: bool | None = _own("CoDy: stop at the first counterfactual.", was="--first")
    sparsity: float | None = _own("Factual explainers that rank: share of the candidates. Default: 0.2.")
    rollouts: int | None = _own("T-GNNExplainer: number of rollouts. Default: 500.")
    scorer: str | None = given_by(shared.scorer_option)

    def chosen(self, source: shared.ModelSource) -> Explainer:
        """The explainer with its options. Those that belong to another are refused."""
        if self.why_not and self.allow is not None:
            raise CallError(f"--why-not is short for --allow {shared.ALLOWED_BY_WHY_NOT}: give one of the two")
        own = values(self, *OWN)
        check_options(self.explainer, [*own, *values(self, "policy", "scorer")], option_name)
        for name in ("alpha", "sparsity"):
            if not 0 <= own.get(name, 0.0) <= 1:
                raise CallError(f"--{name} must lie between 0 and 1, not {own[name]}")
        return explainer(
            self.explainer,
            policy=self.policy,
            scorer=(self.scorer or source.model) if find(self.explainer).needs_scorer else None,
            allow_data_mismatch=source.allow_data_mismatch,
            size=self.candidates,
            hops=self.hops,
            near=known.NEAR[self.near or "ends"],
            evaluations=self.evaluations,
            edits=shared.parse_edits(shared.ALLOWED_BY_WHY_NOT if self.why_not else self.allow),
            **own,
        )

    def check_attribute(self, chosen: Explainer, *, many: bool, even_if: bool) -> None:
        """Refuse what --attribute cannot be about, before anything is searched."""
        edits = self.why_not or self.allow not in (None, shared.REMOVE)
        others = {"--events": many, "--even-if": even_if, "--why-not or --allow": edits}
        others |= {"--by": chosen.by is not None, "--with-dependants": chosen.dependants is not None}
        refuse("--attribute is about removals of single events for one link", others)

    def with_shares(self, why: Explanation, question: ExplainRequest, begun: float) -> Explanation:
        """The explanation with what each candidate adds, if that is computed in the time that is left."""
        from cody.explaining.attributing import with_shares

        left = None if self.seconds is None else max(1e-3, self.seconds - (monotonic() - begun))
        with status("Scoring what each event adds ..."):
            try:
                return with_shares(why, question.model, question.graph, self.attribute or "shapley", seconds=left)
            except BudgetError:
                pass
        say(
            f"--attribute {self.attribute} is left out: what {words.count(len(why.candidates), 'candidate')} add takes "
            f"longer than --seconds {self.seconds:g}; give it more, or fewer --candidates"
        )
        return why

    @property
    def request_options(self) -> dict[str, Any]:
        names = ("count", "prove", "seed", "seconds")
        return {name: getattr(self, name) for name in names} | {"full_replay": self.verify == "full"}


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """Whose events may change, how many a day, and until when."""

    actor: str | None = _actor("Change only what this node could: events that start at it.", "NODE")
    per_day: int | None = _actor("Change at most N events of a calendar day.", "N")
    until: str | None = _actor(
        "With --actor: which events could it add from now on, for the other decision at this time? Also '1 day later'.",
        "TIME",
    )
    keep: bool = _actor("With --until: which events keep the decision as it is now?")

    def check(self, chosen: Explainer, others: Mapping[str, bool]) -> None:
        """Refuse what does not go with these options.

        Args:
            chosen: What explains.
            others: Options that do not go with them, and whether each is given.
        """
        if self.until is not None and self.actor is None:
            raise CallError("--until is about what one node could do until then: name it with --actor NODE")
        if self.keep and self.until is None:
            raise CallError("--keep is about the decision at a later time: give --until TIME")
        if self.until is not None and chosen.edits != (removals,):
            raise CallError("--until is about events that could still be added: leave out --allow and --why-not")
        for option in given(self, "per_day", "until"):
            if find(chosen.name).factual:
                raise CallError(
                    f"{option} needs a search for counterfactuals, and {chosen.name!r} is none: leave out --explainer"
                )
        for option in given(self, "actor", "per_day"):
            refuse(f"{option} chooses single events of one link's past", others)

    def limited(self, chosen: Explainer, graph: TemporalGraph) -> Explainer:
        """The explainer, with only those edits that the actor could make, if there is one.

        Args:
            chosen: What explains.
            graph: The log of events.
        """
        if self.actor is None:
            return chosen
        from cody.search.proposals import done_by

        node = graph.node(self.actor)
        return replace(chosen, edits=tuple(done_by(node, propose) for propose in chosen.edits))

    def plan(self, model: Model, graph: TemporalGraph, query: Query, request: Request) -> Plan | None:
        """What is asked about the time from now on; None: nothing.

        Args:
            model: The model.
            graph: The log of events.
            query: The link, now.
            request: How it is explained.
        """
        if self.until is None:
            return None
        from cody.explaining.recourse import plan_recourse

        until = later_time(self.until, query.time, graph)
        return plan_recourse(model, graph, query, self.actor, until, keep=self.keep, decision=request.decision)


@dataclass(frozen=True, slots=True)
class StabilityOptions:
    """What the answer should survive."""

    also: Sequence[str] = _stability(
        "Does the answer hold in this model, too, such as another seed? Repeatable.", "MODEL"
    )
    robust: bool = _stability("With --also: prefer what flips the decision of all of these models.")
    noise: bool = _stability("Test also a minute later, and with an unrelated event added.")

    def check(self, even_if: bool) -> None:
        """Refuse what does not go with other options."""
        for option in given(self):
            refuse(f"{option} is about counterfactuals", {"--even-if": even_if})
        if self.robust and not self.also:
            raise CallError("--robust prefers what flips other models, too: name them with --also MODEL")

    def others(self, source: shared.ModelSource) -> OtherModels | None:
        """What answers should survive, if anything."""
        if not self.also and not self.noise:
            return None
        names = tuple(dict.fromkeys(self.also))
        return OtherModels(names, self.robust, self.noise, source.allow_data_mismatch, Path.cwd())

    def arguments(self, source: shared.ModelSource, question: ExplainRequest) -> dict[str, Any]:
        """The arguments of `cody.explain`, with the models opened."""
        others = question.request.others
        if others is None:
            return {}
        from cody.cli.running import open_others

        opened = open_others(others.names, source, question.model, question.graph)
        return {"also": opened, "robust": others.robust, "noise": others.noise}


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """Who does the work, and where the result goes."""

    workers: int = given_by(shared.workers_option)
    out: Path | None = _output("With --events: write the lines to this file; rerun to resume.", type=LINES)
    html: Path | None = given_by(shared.html_option)
    drawing: shared.FigureOptions = given_by(shared.figure_options)
    bundle: Path | None = _output(
        "Write a zip file for cody verify: the explanation, its page and the events up to the link.", type=BUNDLE
    )
    with_model: bool = _output("With --bundle: put the folder of the model into it, too.")
    as_csv: bool = given_by(shared.csv_option)
    as_json: bool = given_by(shared.json_option)

    def check(self, events: str | None, model: str) -> None:
        """Refuse options that contradict each other, and to search for what could not be drawn or packed."""
        if events is None and (self.out is not None or self.workers > 1):
            option = "--out" if self.out is not None else "--workers"
            raise CallError(f"{option} is for several links: give --events ROWS, or leave it out")
        shared.check_formats(self.as_csv, self.as_json)
        of_one = [*given(self, "html"), *given(self.drawing, "figure"), *given(self, "bundle")]
        if events is not None and of_one:
            what = f"{of_one[0]} shows one link"
            raise CallError(f"{what}; leave out --events, or make pages of its lines with cody view")
        shared.check_page(self.html)
        self.drawing.check()
        if self.bundle is None:
            if self.with_model:
                raise CallError("--with-model puts the model into a bundle: give --bundle FILE, too")
            return
        from cody.engine.named import is_factory
        from cody.explaining.bundle import check_bundle_file

        check_bundle_file(self.bundle)
        if self.with_model and is_factory(model):
            raise CallError(f"--with-model needs the folder of a model, and {model} is a function: leave it out")

    def write_bundle(self, answer: Explanation | EvenIf, graph: TemporalGraph, model: str) -> None:
        """Write the bundle that is wanted, if one is."""
        if self.bundle is None:
            return
        from cody.explaining.bundle import write_bundle

        write_bundle(answer, graph, self.bundle, model=model if self.with_model else None)
        say(f"Bundle: {words.sanitize(self.bundle, 200)}")


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """Which links are explained, how, and where the result goes."""

    link: shared.LinkOptions = given_by(shared.link_options)
    events: str | None = _link("Several links: rows 10,20,30, or a file of rows; one JSON line each.", "ROWS")
    even_if: bool = _even(
        "What could be missing instead, with the decision still standing, and the fewest events on which it rests."
    )
    alone: bool = _even("With --even-if: all other events are missing too, not only other candidates.")
    decide: shared.DecisionOptions = given_by(shared.decision_options)
    source: shared.ModelSource = given_by(shared.model_options)
    search: SearchChoice = given_by(bundled("search", SearchChoice))
    actor: ActorOptions = given_by(bundled("actor", ActorOptions))
    units: shared.UnitOptions = given_by(shared.unit_options)
    stability: StabilityOptions = given_by(bundled("stability", StabilityOptions))
    result: ResultOptions = given_by(bundled("result", ResultOptions))

    @property
    def many(self) -> bool:
        """Whether several links are explained."""
        return self.events is not None

    def check(self, chosen: Explainer) -> None:
        """Refuse options that do not go together."""
        search, actor, stability, result = self.search, self.actor, self.stability, self.result
        stability.check(self.even_if)
        beside = {"--events": self.many, "--even-if": self.even_if, "--robust": stability.robust}
        beside |= {"--by": self.units.kind is not None, "--with-dependants": self.units.rule is not None}
        if actor.until is not None:
            beside |= {"--attribute": search.attribute is not None}
            beside |= {"--also and --noise": bool(stability.also or stability.noise)}
        actor.check(chosen, beside)
        if self.even_if:
            from cody.cli.even_if import check_even_if

            others = {"--csv": result.as_csv and not self.many, "--figure": result.drawing.figure is not None}
            others |= {"--out": result.out is not None, "--workers": result.workers > 1}
            check_even_if(chosen, others | {"--count": search.count is not None})
        elif self.alone:
            raise CallError("--alone belongs to --even-if: give both")
        if search.attribute is not None:
            search.check_attribute(chosen, many=self.many, even_if=self.even_if)

    def queries(self, graph: TemporalGraph) -> list[Query]:
        """The links that are explained."""
        if self.events is None:
            return [self.link.query(graph)]
        if self.link.is_given:
            raise CallError(
                "give --event ROW, or --src, --dst and --time of a link, or --events ROWS: one of the three"
            )
        return [graph.query(row) for row in shared.named_rows(self.events)]


@command(
    "explain",
    examples={
        "cody explain --event 53854": "why the model expects this message",
        "cody explain --src 1772 --dst 9 --time now --why-not": "why it does not expect that one",
        "cody explain --event 53851 --top 10": "why 105 is among the ten most likely recipients",
        "cody explain --event 53851 --rather-than 942": "why 105 rather than 942",
        "cody explain --event 53007 --by pair": "which conversations decide",
        "cody explain --event 53869 --even-if": "what could be missing without any effect",
        "cody explain --event 53852 --actor 1395 --until '1 day later'": "what 1395 could do for it",
        "cody explain --event 53854 --also FOLDER --robust": "what flips another model, too",
        "cody explain --event 53854 --bundle why.zip": "a file that somebody else can verify",
        "cody explain --events rows.txt --workers 4 --out why.jsonl": "many links; rerun to resume",
    },
)
@bundled("options", ExplainOptions)
def explain(options: ExplainOptions) -> None:
    """Find the smallest change to the history that flips a prediction.

    By default, past events are removed; --allow and --why-not also add, move or alter events.
    """
    source, search, actor, result = options.source, options.search, options.actor, options.result
    result.check(options.events, source.model)
    decision = options.decide.decision()
    with shared.supported([search.explainer], source, decision):
        chosen = search.chosen(source)
    chosen = replace(chosen, by=options.units.kind, dependants=options.units.rule)
    options.check(chosen)
    named = source.named()
    chosen = actor.limited(replace(chosen, protect=shared.parse_protected(named.graph, search.protect)), named.graph)
    queries = options.queries(named.graph)
    names = {"data": named.data, "model": source.model}
    names |= {} if actor.actor is None else {"actor": actor.actor}
    limits = {} if actor.per_day is None else {"per_day": actor.per_day}
    request = Request(chosen, search.request_options | limits, names, decision, options.stability.others(source))
    question = ExplainRequest(source.open(named), named.graph, request)
    options.link.check(question.model)
    if search.attribute == "attention":
        check_attention(question.model)
    plan = actor.plan(question.model, question.graph, queries[0], request)
    if plan is not None:
        chosen = replace(chosen, edits=(plan.edits,))
        about_plan = request._replace(explainer=chosen, decision=plan.decision)
        queries, question = [plan.query], question._replace(request=about_plan)
    if search.prove > 1 and search.seconds is None and search.evaluations is None:
        from cody.cli.proof import check_proof

        check_proof(question.model, question.graph, chosen, queries, search.prove)
    if options.even_if:
        from cody.cli.even_if import answer_even_if, answer_even_if_of_many

        if options.many:
            answer_even_if_of_many(*question, queries, alone=options.alone, as_csv=result.as_csv)
        else:
            found = answer_even_if(*question, queries[0], options.alone, as_json=result.as_json, html=result.html)
            result.write_bundle(found, named.graph, source.model)
        return
    beyond = options.stability.arguments(source, question)
    if options.many:
        from cody.cli.explain_many import explain_many

        remark = _say_if_predicted if search.why_not else None
        mismatch = source.allow_data_mismatch
        explain_many(question, queries, result, remark=remark, allow_data_mismatch=mismatch, beyond=beyond)
        return
    why = _explained(question, queries[0], search, plan, beyond)
    if search.why_not:
        _say_if_predicted(why)
    _show(why, question, result)


class ExplainRequest(NamedTuple):
    """A request, with the model and the graph that it is about."""

    model: Model
    graph: TemporalGraph
    request: Request


def _explained(
    question: ExplainRequest, query: Query, search: SearchChoice, plan: Plan | None, beyond: Mapping[str, Any]
) -> Explanation:
    """The explanation of one link, with a progress bar."""
    size, begun = question.request.explainer.size or SIZE, monotonic()
    sets = search.evaluations or max(search.iterations or 300, number_of_sets(size, search.prove))
    most = sum(map(usual_evaluations, WIDTHS))  # where nothing is found, more candidates are searched
    with progress("sets of events evaluated", sets) as move:
        watch = counting(lambda tried: move(completed=tried, total=sets if tried <= sets else max(tried, most)))
        why = question.request.explain(question.model, question.graph, query, watch, **beyond)
    if plan is not None:
        from cody.explaining.recourse import with_recourse

        why = with_recourse(why, plan)
    return why if search.attribute is None else search.with_shares(why, question, begun)


def _say_if_predicted(why: Explanation) -> None:
    if why.original > 0:
        what = "the model does predict" if why.subject == "link" else f"the model does expect {why.outcome} for"
        say(f"{what} {why.src} → {why.dst}; this is what would have led to the contrary")


def _show(why: Explanation, question: ExplainRequest, result: ResultOptions) -> None:
    """Print an explanation, and write its page, its figure and its bundle."""
    result.write_bundle(why, question.graph, question.request.names["model"])
    shared.write_page(why.to_html, result.html)
    if result.drawing.figure is not None:
        from cody.web import write_figure

        result.drawing.write(partial(write_figure, why))
    if result.as_json:
        print_json(why.to_dict())
        return
    if result.as_csv:
        from cody.study.explanations import COLUMNS, row_of

        print_csv(COLUMNS, [row_of(why)])
        return
    from cody.cli import show

    print_parts(show.explanation(why))
    print_parts(_hint(why, question))


def _hint(why: Explanation, question: ExplainRequest) -> Iterator[ShownPart]:
    """An event whose addition flips the prediction, from a few evaluations, where only removals were searched."""
    of_one = why.parameters.get("actor") is not None  # what everybody could add is not what one node could do
    seconds = question.request.options["seconds"]
    left = None if seconds is None else seconds - why.seconds
    settled = why.is_counterfactual or why.is_unverified or why.factual or why.allows_more or of_one
    if settled or (left is not None and left <= 0):
        return
    try:
        other = explain_link(
            question.model,
            question.graph,
            why.query,
            decision=question.request.decision,
            edits=(additions,),
            size=HINTS,
            evaluations=HINTS + 1,
            seconds=left,
        )
    except CallError:  # a model that supports removals only
        return
    if other.is_counterfactual:
        ((event, _),) = other.steps
        ask = "--allow remove,add" if why.original > 0 else "--why-not"
        what = f"{words.link(event.src, event.dst)}, {words.moment(event.time)}"
        yield from ("", Prose(f"Adding one event would flip it: {what}. {ask} finds the least intrusive one."))
