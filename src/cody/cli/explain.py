"""Questions about one prediction: the demo, and explanations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cody.cli.choices import DEFAULT_EDITS, NEARBY, WHY_NOT, NearName, Replayed, parse_edits
from cody.cli.common import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    ScorerOption,
    SortOption,
    UnitOption,
    app,
    open_model,
    print_json,
    say,
    use_threads,
)
from cody.cli.links import asked_links
from cody.cli.options import (
    AllowOption,
    CandidatesOption,
    CsvOption,
    DstOption,
    EventOption,
    ExplainerOption,
    HtmlOption,
    NearOption,
    PolicyOption,
    ProtectOption,
    SrcOption,
    TimeOption,
    WorkersOption,
)
from cody.cli.parser import LINES, Option
from cody.cli.progress import progress, status
from cody.cli.proof import check_proof
from cody.cli.protect import protected
from cody.data import load
from cody.engine.named import NamedModel
from cody.errors import CallError
from cody.explain.explanation import Explanation
from cody.explain.pipeline import explain as explain_link
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Model
from cody.search.exhaustive import number_of_sets
from cody.search.oracle import Oracle, counting
from cody.search.proposals import Proposer, additions
from cody.search.scout import usual_evaluations
from cody.search.widening import WIDTHS
from cody.study.explainers import DEFAULT_SEARCH, check_options, find
from cody.study.explainers import explainer as choose_explainer
from cody.study.request import Request
from cody.utils import words

HINTS = 12  # additions that are asked about where no removal was found


@app.command()
def demo() -> None:
    """See which past event decides a real prediction."""
    with status("Loading 59,835 messages and a trained TGN ..."):
        from cody.cli.demo import demo_page, run_demo

        use_threads(1)
        result = run_demo()
        page = demo_page(result)
    from cody.cli import show

    show.print_parts(show.demo(result, page))


@app.command(
    groups={
        "The link": "event events src dst time",
        "Data and model": "data model sort unit allow_data_mismatch",
        "What could be otherwise": "allow why_not protect candidates hops near",
        "The search": "explainer policy count prove evaluations seconds seed",
        "Options of single explainers": "iterations alpha children first sparsity rollouts scorer",
        "The work": "workers out_",
        "What comes out": "html csv_ json_",
    },
    examples={
        "cody explain --event 53854": "why the model expects this message",
        "cody explain --src 1772 --dst 9 --time now --why-not": "why it does not expect that one",
        "cody explain --events rows.txt --workers 4 --out why.jsonl": "many of them; rerun to resume",
    },
)
def explain(
    data: DataOption = DEFAULT_DATA,
    model: ModelOption = DEFAULT_MODEL,
    event: EventOption = None,
    events: Annotated[str | None, Option(help="Several rows, 10,20,30, or a file of rows: one JSON line each.")] = None,
    src: SrcOption = None,
    dst: DstOption = None,
    time: TimeOption = None,
    explainer: ExplainerOption = DEFAULT_SEARCH,
    policy: PolicyOption = None,
    candidates: CandidatesOption = None,
    hops: Annotated[
        int | None, Option(min=1, help="Neighbourhood radius in hops. Default: as far as the model looks.")
    ] = None,
    near: NearOption = NearName.ends,
    protect: ProtectOption = None,
    allow: AllowOption = None,
    why_not: Annotated[
        bool, Option("--why-not", help=f"Why is it not predicted? Short for --allow {WHY_NOT}.")
    ] = False,
    iterations: Annotated[int | None, Option(min=1, help="Budget of CoDy's tree search. Default: 300.")] = None,
    alpha: Annotated[float | None, Option(help="CoDy: 0 explores, 1 exploits. Default: 2/3.")] = None,
    children: Annotated[int | None, Option(min=1, help="GreeDy: events tried at each step. Default: 10.")] = None,
    first: Annotated[bool, Option("--first", help="CoDy: stop at the first counterfactual.")] = False,
    sparsity: Annotated[
        float | None, Option(help="Factual explainers that rank: share of the candidates. Default: 0.2.")
    ] = None,
    rollouts: Annotated[int | None, Option(min=1, help="T-GNNExplainer. Default: 500.")] = None,
    scorer: ScorerOption = None,
    count: Annotated[
        int | None,
        Option(min=1, help="Number of counterfactuals to search for. Default: up to 3 of those that one search finds."),
    ] = None,
    prove: Annotated[int, Option(min=1, metavar="K", help="Exhaustively test all sets of fewer than K events.")] = 1,
    evaluations: Annotated[
        int | None,
        Option(min=1, help="Budget of evaluations. Default: 300, and more where nothing is found."),
    ] = None,
    seconds: Annotated[float | None, Option(help="Budget of time for each link, confirmation included.")] = None,
    seed: Annotated[int, Option(min=0, help="For the random policy.")] = 0,
    verify: Annotated[
        Replayed, Option(help="Confirm by replay since the oldest removed event, or of everything.")
    ] = Replayed.window,
    workers: WorkersOption = 1,
    out_: Annotated[
        Path | None,
        Option("--out", writes=LINES, help="With --events: write the lines to this file; rerun to resume it."),
    ] = None,
    html: HtmlOption = None,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    csv_: CsvOption = False,
    json_: JsonOption = False,
) -> None:
    """Find what would have had to be otherwise for a model to decide otherwise: past events missing, or others."""
    _check_call(events, workers, out_, csv_ and json_)
    options = {"iterations": iterations, "alpha": alpha, "children": children, "stop_at_first": first or None}
    options |= {"sparsity": sparsity, "rollouts": rollouts}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    _check_options(explainer, given | {"policy": policy, "scorer": scorer})
    chosen = choose_explainer(
        explainer,
        policy=policy,
        scorer=(scorer or model) if find(explainer).needs_scorer else None,
        allow_data_mismatch=allow_data_mismatch,
        size=candidates,
        hops=hops,
        near=NEARBY[near],
        evaluations=evaluations,
        edits=_edits(allow, why_not),
        **given,
    )
    if html is not None:
        _check_page(html, events)
    named = NamedModel(model, partial(load, data, sort=sort, unit=unit))
    wanted: dict[str, Any] = {
        "count": count,
        "prove": prove,
        "seed": seed,
        "seconds": seconds,
        "full_replay": verify is Replayed.full,
    }
    chosen = replace(chosen, protect=protected(named.graph, protect or []))
    queries = asked_links(named.graph, event, events, src, dst, time)
    request = Request(chosen, wanted, {"data": named.data(data), "model": model})
    question = ExplainRequest(open_model(named, allow_data_mismatch=allow_data_mismatch), named.graph, request)
    if prove > 1 and seconds is None and evaluations is None:
        check_proof(question.model, question.graph, chosen, queries, prove)
    if events is not None:
        from cody.cli.explain_many import explain_many

        remark = _say_if_predicted if why_not else None
        explain_many(
            *question, queries, remark, out=out_, workers=workers, as_csv=csv_, allow_data_mismatch=allow_data_mismatch
        )
        return
    sets = evaluations or max(iterations or 300, number_of_sets(chosen.size or SIZE, prove))
    most = sum(map(usual_evaluations, WIDTHS))  # where nothing is found, more candidates are searched
    with progress("sets of events tried", sets) as move:
        tell = counting(lambda tried: move(completed=tried, total=sets if tried <= sets else max(tried, most)))
        why = question.about(queries[0], tell)
    if why_not:
        _say_if_predicted(why)
    _show(why, question, html, as_json=json_, as_csv=csv_)


class ExplainRequest(NamedTuple):
    """What is asked, and of whom."""

    model: Model
    graph: TemporalGraph
    request: Request

    def about(self, query: Query, watch: Callable[[Oracle], None] | None = None) -> Explanation:
        return self.request.explain(self.model, self.graph, query, watch)


def _say_if_predicted(why: Explanation) -> None:
    if why.original > 0:
        say(f"the model does predict {why.src} → {why.dst}; this is what would have led to the contrary")


def _show(why: Explanation, question: ExplainRequest, html: Path | None, *, as_json: bool, as_csv: bool) -> None:
    """Print an explanation, and write its page."""
    if html is not None:
        from cody.web import write_page

        write_page(why, html)
        say(f"Page: {words.sanitize(html, 200)}")
    if as_json:
        print_json(why.to_dict())
        return
    if as_csv:
        from cody.cli.explain_many import print_rows
        from cody.study.explanations import row_of

        print_rows([row_of(why)])
        return
    from cody.cli import show

    show.print_parts(show.explanation(why))
    if _wants_hint(why):
        seconds = question.request.options["seconds"]
        left = None if seconds is None else seconds - why.seconds
        show.print_parts(show.addition(why, _addition(question.model, question.graph, why.query, left)))


def _edits(allow: str | None, why_not: bool) -> tuple[Proposer, ...]:
    """What `--allow` or `--why-not` names."""
    if why_not and allow is not None:
        raise CallError(f"--why-not is short for --allow {WHY_NOT}: give one of the two")
    return parse_edits(WHY_NOT if why_not else DEFAULT_EDITS if allow is None else allow)


def _wants_hint(why: Explanation) -> bool:
    """Whether removals were looked for, alone and in vain."""
    return not (why.is_counterfactual or why.is_unverified or why.factual or why.allows_more)


def _addition(model: Model, graph: TemporalGraph, query: Query, seconds: float | None) -> Explanation | None:
    """What one event more would do, from a few questions. None: no time is left, or the model cannot be asked."""
    if seconds is not None and seconds <= 0:
        return None
    try:
        return explain_link(model, graph, query, edits=(additions,), size=HINTS, evaluations=HINTS + 1, seconds=seconds)
    except CallError:  # a model that cannot be asked about other logs
        return None


def _check_call(events: str | None, workers: int, out: Path | None, both: bool) -> None:
    """Refuse options that contradict each other."""
    if events is None and (out is not None or workers > 1):
        option = "--out" if out is not None else "--workers"
        raise CallError(f"{option} is for several links: give --events ROWS, or leave it out")
    if both:
        raise CallError("give --csv or --json, not both")


def _check_page(html: Path, events: str | None) -> None:
    """Refuse to search for what could not be written."""
    from cody.web import check_page_file

    if events is not None:
        raise CallError("--html shows one link; leave out --events, or make pages of its lines with cody view --line")
    check_page_file(html)


def _check_options(explainer: str, options: dict[str, Any]) -> None:
    """Refuse options that make no sense, or belong to another explainer."""
    given = {name: value for name, value in options.items() if value is not None}
    check_options(explainer, given, lambda name: {"stop_at_first": "--first"}.get(name, f"--{name}"))
    for name in ("alpha", "sparsity"):
        if not 0 <= given.get(name, 0.0) <= 1:
            raise CallError(f"--{name} must lie between 0 and 1, not {given[name]}")
