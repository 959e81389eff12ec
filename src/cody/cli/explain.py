"""Questions about one prediction: the demo, what-ifs, and explanations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cody import words
from cody.adapters.named import NamedModel
from cody.candidates import Protected
from cody.cli.choices import (
    DEFAULT_EDITS,
    EDIT_NAMES,
    FACTUAL_NAMES,
    NEARBY,
    POLICY_NAMES,
    SEARCH_NAMES,
    WHY_NOT,
    Engine,
    NearName,
    Replayed,
    parse_edits,
)
from cody.cli.common import (
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    ScorerOption,
    SortOption,
    app,
    print_json,
    say,
    use_threads,
)
from cody.cli.parser import Option
from cody.cli.progress import progress, status
from cody.data import load
from cody.decision import probability
from cody.edits import Add, Edit, Move
from cody.errors import CallError
from cody.explain import explain as explain_link
from cody.explainers import DEFAULT_SEARCH, check_options, find
from cody.explainers import explainer as choose_explainer
from cody.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.model import Model
from cody.proposals import Proposals, additions
from cody.search.prove import number_of_sets
from cody.what_if import (
    Case,
    answer_cases,
    effects,
    parse_add,
    parse_move,
    parse_rows,
    read_cases,
    read_rows,
)

HINTS = 12  # additions that are asked about where no removal was found


@app.command()
def demo() -> None:
    """See which past event decides a real prediction."""
    with status("Loading 59,835 messages and a trained TGN ..."):
        from cody.demo import demo_page, run_demo

        use_threads(1)
        result = run_demo()
        page = demo_page(result)
    from cody.cli import show

    show.print_parts(show.demo(result, page))


@app.command(
    "what-if",
    groups={
        "The link": "event src dst time cases",
        "What is otherwise": "without add move new_node each most",
        "Data and model": "data model sort other_data engine",
    },
    examples={
        "cody what-if --event 53854 --without 53852": "had this message not been sent",
        'cody what-if --event 53852 --add "1395 1772 2004-07-28 03:54"': "had there been one more",
    },
)
def what_if(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    event: Annotated[int | None, Option(help="Row of the event whose link is scored.")] = None,
    src: Annotated[str | None, Option(help="Source of a link that need not have happened.")] = None,
    dst: Annotated[str | None, Option(help="Destination of that link.")] = None,
    time: Annotated[
        str | None, Option(help="When: a date like '2004-07-28 05:08', a number, or now, the end of the log.")
    ] = None,
    without: Annotated[str, Option(help="Rows of events that did not happen: 3,7,9")] = "",
    add: Annotated[
        list[str] | None, Option(metavar="EVENT", help='An event that did happen: "SRC DST TIME". Repeatable.')
    ] = None,
    move: Annotated[
        list[str] | None, Option(metavar="EVENT", help='An event at another time: "ROW TIME". Repeatable.')
    ] = None,
    new_node: Annotated[
        list[str] | None, Option(metavar="NAME", help="A node that --add may name, and nobody knows. Repeatable.")
    ] = None,
    each: Annotated[bool, Option("--each", help="Leave out past events near the link, one at a time.")] = False,
    most: Annotated[int, Option(min=1, help="With --each: how many of them are shown, strongest first.")] = 10,
    cases: Annotated[
        Path | None, Option(help='A JSON list of {"event": row, "removed": [rows], "added": …, "moved": …}.')
    ] = None,
    engine: Annotated[Engine, Option(help="The fast one, or the slow one that defines right.")] = Engine.fast,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Ask what a model would say were the past otherwise: without some events, with others, at other times."""
    edits: tuple[Edit, ...] = (*map(parse_add, add or []), *map(parse_move, move or []))
    removed, link = frozenset(parse_rows(without)), [src, dst, time]
    if cases is not None and (each or removed or edits or event is not None or any(part is not None for part in link)):
        raise CallError("--cases says everything; leave out --event, --src, --without, --add, --move and --each")
    if each and (removed or edits):
        raise CallError("--each leaves out one event at a time; leave out --without, --add and --move")
    named = NamedModel(model, partial(load, data, sort=sort))
    graph = named.graph
    if cases is not None:
        asked = read_cases(cases, graph)
    else:
        (query,) = _questions(graph, event, None, src, dst, time)
        asked = [Case(query, event)]
        if removed or edits:
            asked.append(Case(query, event, removed, edits))
        _say_what_is_too_late(graph, query, event, removed)
    from cody.inference import fast_model, plain_model

    use_threads(1)
    engines: dict[Engine, Any] = {Engine.fast: fast_model, Engine.replay: plain_model}
    loaded = named.open(engine=engines[engine], other_data=other_data)
    if each:
        found = effects(loaded, graph, asked[0].query)
        asked += [asked[0]._replace(removed=frozenset({row})) for row in found.candidates.tolist()]
        logits = [found.logit, *found.without.tolist()]
    else:
        logits = answer_cases(loaded, graph, asked, new_nodes=new_node or [])
    if json_:
        print_json([_answer(graph, case, logit) for case, logit in zip(asked, logits, strict=True)])
        return
    from cody.cli import show

    show.print_parts(show.effects(graph, found, most) if each else [show.answers(graph, asked, logits)])


def _say_what_is_too_late(graph: TemporalGraph, query: Query, event: int | None, removed: frozenset[int]) -> None:
    later = [row for row in removed if query.before <= row < graph.num_events]
    if later:
        what = f"event {event}" if event is not None else "the link"
        say(f"event {min(later)} does not lie before {what}: leaving it out changes nothing")


def _answer(graph: TemporalGraph, case: Case, logit: float) -> dict[str, Any]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    answer: dict[str, Any] = {"event": case.event}
    if case.event is None:
        answer |= {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}
    answer["removed"] = sorted(case.removed)
    for name, kind in (("added", Add), ("moved", Move)):
        if any(isinstance(edit, kind) for edit in case.edits):
            answer[name] = [edit._asdict() for edit in case.edits if isinstance(edit, kind)]
    return answer | {
        "logit": round(logit, 6),
        "score": round(probability(logit), 6),
        "predicted": logit > 0,
    }


@app.command(
    groups={
        "The link": "event events src dst time",
        "Data and model": "data model sort other_data",
        "What could be otherwise": "allow why_not protect candidates hops near",
        "The search": "explainer policy count prove evaluations seconds seed",
        "Options of single explainers": "iterations alpha children first sparsity rollouts scorer",
    },
    examples={
        "cody explain --event 53854": "why the model expects this message",
        "cody explain --src 1772 --dst 9 --time now --why-not": "why it does not expect that one",
    },
)
def explain(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    event: Annotated[int | None, Option(help="Row of the event whose link is explained.")] = None,
    events: Annotated[str | None, Option(help="Several rows, 10,20,30 or a file: one JSON line each.")] = None,
    src: Annotated[str | None, Option(help="Source of a link that need not have happened.")] = None,
    dst: Annotated[str | None, Option(help="Destination of that link.")] = None,
    time: Annotated[
        str | None, Option(help="When: a date like '2004-07-28 05:08', a number, or now, the end of the log.")
    ] = None,
    explainer: Annotated[
        str, Option(metavar="NAME", help=f"Searches: {SEARCH_NAMES}. Factual: {FACTUAL_NAMES}.")
    ] = DEFAULT_SEARCH,
    policy: Annotated[str | None, Option(metavar="NAME", help=f"What a search tries first: {POLICY_NAMES}.")] = None,
    candidates: Annotated[
        int | None, Option(min=1, help="At most so many recent events may be removed. Default: 64.")
    ] = None,
    hops: Annotated[int | None, Option(min=1, help="How near. Default: as far as the model looks.")] = None,
    near: Annotated[NearName, Option(help="On paths of that length, or among nodes.")] = NearName.events,
    protect: Annotated[
        list[str] | None,
        Option(help="May not be removed: events=3,7 or nodes=105 or times=2004-07-01..2004-07-28. Repeatable."),
    ] = None,
    allow: Annotated[
        str | None,
        Option(metavar="KINDS", help=f"What could be otherwise, preferred first: {EDIT_NAMES}. Default: remove."),
    ] = None,
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
    count: Annotated[int, Option(min=1, help="Ways out to look for, the best one included.")] = 3,
    prove: Annotated[
        int, Option(min=1, metavar="K", help="Ask about every set of fewer than K events: none is overlooked.")
    ] = 1,
    evaluations: Annotated[
        int | None, Option(min=1, help="Budget of questions to the model. Default: 300, and what --prove needs.")
    ] = None,
    seconds: Annotated[float | None, Option(help="Budget of time for each link, confirmation included.")] = None,
    seed: Annotated[int, Option(min=0, help="For the random policy.")] = 0,
    verify: Annotated[
        Replayed, Option(help="Confirm by replay since the oldest removed event, or of everything.")
    ] = Replayed.window,
    html: Annotated[Path | None, Option(help="Write a page that shows the explanation to this file.")] = None,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Find what would have had to be otherwise for a model to decide otherwise: past events missing, or others."""
    options = {"iterations": iterations, "alpha": alpha, "children": children, "stop_at_first": first or None}
    options |= {"sparsity": sparsity, "rollouts": rollouts}
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(explainer, given | {"policy": policy, "scorer": scorer})
    chosen = choose_explainer(
        explainer,
        policy=policy,
        scorer=(scorer or model) if find(explainer).needs_scorer else None,
        other_data=other_data,
        size=candidates,
        hops=hops,
        near=NEARBY[near],
        evaluations=evaluations,
        edits=_edits(allow, why_not),
        **given,
    )
    if html is not None:
        _check_page(html, events)
    named = NamedModel(model, partial(load, data, sort=sort))
    graph = named.graph
    protected = _protected(graph, protect or [])
    queries = _questions(graph, event, events, src, dst, time)
    with status("Loading the model ..."):
        use_threads(1)
        loaded = named.open(other_data=other_data)
    many = events is not None
    sets = evaluations or max(iterations or 300, number_of_sets(candidates or 64, prove))
    with progress("links" if many else "sets of events tried", len(queries) if many else sets) as move:
        for number, query in enumerate(queries):
            why = chosen.explain(
                loaded,
                graph,
                query,
                protect=protected,
                count=count,
                prove=prove,
                seed=seed,
                seconds=seconds,
                full_replay=verify is Replayed.full,
                watch=None if many else lambda oracle: move(completed=len(oracle.asked)),
            )
            why = replace(why, parameters=why.parameters | {"data": named.data(data), "model": model})
            if why_not and why.original > 0:
                say(f"the model does predict {why.src} → {why.dst}; this is what would have led to the contrary")
            if many:
                move(completed=number + 1)
                print_json(why.to_dict())
    if many:
        return
    if html is not None:
        from cody.view import write_page

        write_page(why, html)
        say(f"Page: {words.plain(html, 200)}")
    if json_:
        print_json(why.to_dict())
        return
    from cody.cli import show

    show.print_parts(show.explanation(why))
    if _wants_hint(why):
        left = None if seconds is None else seconds - why.seconds
        show.print_parts(show.addition(why, _addition(loaded, graph, query, left)))


def _edits(allow: str | None, why_not: bool) -> tuple[Proposals, ...]:
    """What `--allow` or `--why-not` names."""
    if why_not and allow is not None:
        raise CallError(f"--why-not is short for --allow {WHY_NOT}: give one of the two")
    return parse_edits(WHY_NOT if why_not else DEFAULT_EDITS if allow is None else allow)


def _wants_hint(why: Explanation) -> bool:
    """Whether removals were looked for, alone and in vain."""
    return not (why.is_counterfactual or why.is_unconfirmed or why.factual or why.allows_more)


def _addition(model: Model, graph: TemporalGraph, query: Query, seconds: float | None) -> Explanation | None:
    """What one event more would do, from a few questions. None: no time is left, or the model cannot be asked."""
    if seconds is not None and seconds <= 0:
        return None
    try:
        return explain_link(model, graph, query, edits=(additions,), size=HINTS, evaluations=HINTS + 1, seconds=seconds)
    except CallError:  # a model that cannot be asked about other logs
        return None


def _check_page(html: Path, events: str | None) -> None:
    """Refuse to search for what could not be written."""
    from cody.view import check_page_file

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


def _protected(graph: TemporalGraph, texts: list[str]) -> Protected | None:
    """What `--protect` names, each as kind=values. A comma may be part of a node's name."""
    found: dict[str, list[Any]] = {"events": [], "nodes": [], "times": []}
    for text in texts:
        kind, _, values = text.partition("=")
        if kind not in found or not values.strip(", "):
            raise CallError(
                f"--protect {text!r} is not understood; write events=3,7 or nodes=105,9 or times=2004-07-01..2004-07-28"
            )
        if kind == "events":
            found[kind] += parse_rows(values)
        elif kind == "nodes":
            whole = graph.names is not None and values in graph.names.astype(str)
            found[kind] += [values] if whole else [name.strip() for name in values.split(",") if name.strip()]
        else:
            found[kind].append(_time_range(text, values))
    return Protected(**found) if texts else None


def _time_range(text: str, values: str) -> tuple[float, float]:
    """Both ends included; a day as the end is the whole day."""
    begin, dots, end = (part.strip() for part in values.partition(".."))
    if not (begin and dots and end):
        raise CallError(f"--protect {text!r} is no time range; write times=BEGIN..END")
    first, last = words.parse_moment(begin), words.end_of(end)
    if last < first:
        raise CallError(f"--protect {text!r} ends before it begins")
    return first, last


def _questions(
    graph: TemporalGraph, event: int | None, events: str | None, src: str | None, dst: str | None, time: str | None
) -> list[Query]:
    """The links that were asked about, in one of three ways."""
    link = [src, dst, time]
    if (event is not None) + (events is not None) + any(part is not None for part in link) != 1 or (
        any(part is None for part in link) and event is None and events is None
    ):
        raise CallError("give --event ROW, or --src, --dst and --time of a link (explain also: --events ROWS)")
    if event is not None:
        return [graph.query(event)]
    if events is not None:
        rows = read_rows(events)
        if not rows:
            raise CallError(f"--events {events!r} names no event")
        return [graph.query(row) for row in rows]
    query = graph.link(src, dst, str(time))
    if not query.before:
        began = words.moment(float(graph.time[0]))
        raise CallError(f"--time {time!r} is before the first event ({began}): there is no past to explain it by")
    return [query]
