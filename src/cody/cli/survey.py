"""What decides a model's predictions in general."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from rich.text import Text

from cody.cli.choices import DEFAULT_EDITS, SEARCH_NAMES, parse_edits
from cody.cli.common import (
    DEFAULT_DATA,
    DEFAULT_MODEL,
    DataOption,
    JsonOption,
    OtherDataOption,
    SortOption,
    UnitOption,
    app,
    is_left_out,
    open_model,
    parse_shares,
    print_json,
    say,
    use_threads,
)
from cody.cli.evaluate import failures_of, finish, named_kinds, records_of, say_failures, way_to_evaluate
from cody.cli.links import named_rows, rows_of_node
from cody.cli.options import (
    AllowOption,
    CandidatesOption,
    CsvOption,
    EventsOption,
    HtmlOption,
    KindsOption,
    NodeOption,
    PeriodOption,
    ProtectOption,
    RayOption,
    SeedOption,
    WorkersOption,
)
from cody.cli.parser import FOLDER, LINES, Argument, Option
from cody.cli.progress import progress
from cody.cli.protect import protected
from cody.cli.show import print_parts, table
from cody.data import load
from cody.engine.named import NamedModel
from cody.errors import CallError, ModelError
from cody.explain.explanation import Explanation
from cody.graph import TemporalGraph
from cody.models.contract import Model
from cody.models.predict import rows_between
from cody.study import ExplainedLink, ModelComparison, Part, Survey, cases, compare, survey_of
from cody.study import run as evaluation
from cody.study.explainers import DEFAULT_SEARCH, explainer, find
from cody.study.instances import TEST_PERIOD
from cody.study.merge import records_of_models
from cody.study.record import REMOVALS
from cody.study.report import LISTED, Decider, Example
from cody.study.shares import Contrast, Share
from cody.utils import words

INSTANCES = 50  # predictions of each kind


class SurveyedModel(NamedTuple):
    """A model that was asked, and what it decided why."""

    model: Model | None  # None: its records were read
    graph: TemporalGraph
    explained: list[ExplainedLink]


@app.command(
    "survey",
    groups={
        "Which predictions": "instances kinds period node events seed",
        "Data and models": "data model sort unit allow_data_mismatch",
        "The work": "explainer_ allow protect candidates evaluations workers ray out_",
        "What comes out": "html pages csv_ json_",
    },
    examples={
        "cody survey --instances 100 --html survey.html": "a page that shows what decides, and where",
        "cody survey --node 1118": "what matters for this node in general",
        "cody survey first.jsonl second.jsonl": "two surveys (--out FILE) as one: nothing is explained anew",
    },
)
def survey_(
    files: Annotated[
        list[Path] | None,
        Argument(help="Records of surveys that were made (--out), to be counted together. Default: explain now."),
    ] = None,
    data: DataOption = DEFAULT_DATA,
    model: Annotated[
        list[str] | None,
        Option(help=f"As in explain; a second one is asked about the same links. Default: {DEFAULT_MODEL}."),
    ] = None,
    instances: Annotated[
        int | None, Option(min=1, help=f"Predictions of each kind. Default: {INSTANCES}; with --events all of them.")
    ] = None,
    kinds: KindsOption = "correct,incorrect",
    period: PeriodOption = None,
    node: NodeOption = None,
    events: EventsOption = None,
    explainer_: Annotated[
        str, Option("--explainer", metavar="NAME", help=f"A search: {SEARCH_NAMES}.")
    ] = DEFAULT_SEARCH,
    allow: AllowOption = None,
    protect: ProtectOption = None,
    candidates: CandidatesOption = None,
    evaluations: Annotated[int | None, Option(min=1, help="Budget of questions for each link. Default: 300.")] = None,
    seed: SeedOption = 0,
    workers: WorkersOption = 1,
    ray: RayOption = None,
    out_: Annotated[
        Path | None,
        Option(
            "--out", writes=LINES, help="File for the records, as cody evaluate writes them. A survey there goes on."
        ),
    ] = None,
    html: HtmlOption = None,
    pages: Annotated[
        Path | None, Option(writes=FOLDER, help="With --html: a page of each explanation too, in this folder, linked.")
    ] = None,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    csv_: CsvOption = False,
    json_: JsonOption = False,
) -> None:
    """Explain many predictions, and say what decides in general."""
    if files:
        _check_nothing_is_asked()
        _check_pages(html, None)
        wanted = None if is_left_out("explainer_") else explainer_
        read = _read(files, data, load(data, sort=sort, unit=unit), wanted)
        _report(read, html, None, None, as_json=json_, as_csv=csv_)
        return
    names = list(model or [DEFAULT_MODEL])
    _check_call(names, explainer_, period, node, events, csv_ and json_)
    _check_pages(html, pages)
    edits = parse_edits(DEFAULT_EDITS if allow is None else allow)
    chosen = explainer(explainer_, size=candidates, evaluations=evaluations, edits=edits)
    use_threads(1)
    asked: list[SurveyedModel] = []
    with tempfile.TemporaryDirectory(prefix="cody-survey-") as scratch:
        for number, name in enumerate(names):
            named = NamedModel(name, partial(load, data, sort=sort, unit=unit))
            sample = _same_links(asked[0]) if asked else _sample(named.graph, instances, kinds, period, node, events)
            chosen = replace(chosen, protect=protected(named.graph, protect or []))
            plan = evaluation.EvaluationPlan(named.data(data), name, (chosen,), seed)
            file = _file(out_ or Path(scratch) / "records.jsonl", number)
            asked.append(
                _explained(file, named, plan, sample, allow_data_mismatch, workers, ray, keeps=out_ is not None)
            )
    _report(asked, html, pages, partial(chosen.explain, seed=seed), as_json=json_, as_csv=csv_)


ASKED = (  # options that say what to explain, and how: records are what they are
    *("model", "instances", "kinds", "period", "node", "events", "allow", "protect", "candidates", "evaluations"),
    *("seed", "workers", "ray", "out_", "pages", "allow_data_mismatch"),
)


def _check_nothing_is_asked() -> None:
    for name in ASKED:
        if not is_left_out(name):
            option = f"--{name.rstrip('_').replace('_', '-')}"
            raise CallError(f"{option} is for a survey that is made now; records in files are counted as they are")


def _read(files: Sequence[Path], data: str, graph: TemporalGraph, wanted: str | None) -> list[SurveyedModel]:
    """What was explained before, of each model."""
    models = records_of_models(files, wanted)
    if len(models) > 2:
        raise CallError(f"a survey compares at most two models, and the files have records of {len(models)}")
    first = models[0][0]
    if first.data_identity != graph.identity:
        raise CallError(
            f"the files are about other data ({words.sanitize(first.data)}) than {data}: give them with --data"
        )
    return [
        SurveyedModel(
            None, graph, cases([replace(each, data=data, model=of_model[0].model) for each in of_model], graph)
        )
        for of_model in models
    ]


def _report(
    asked: Sequence[SurveyedModel],
    html: Path | None,
    pages: Path | None,
    explain: Callable[..., Explanation] | None,
    *,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print what the explained links have in common, and write its page."""
    found = [survey_of(each.explained, each.graph) for each in asked]
    comparison = compare(asked[0].explained, asked[1].explained, asked[0].graph) if len(asked) == 2 else None
    if html is not None:
        _write_page(html, pages, found, comparison, asked, explain)
    _print(found, comparison, as_json=as_json, as_csv=as_csv)


def _print(found: Sequence[Survey], comparison: ModelComparison | None, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"surveys": [each.to_dict() for each in found]}
        print_json(document | {"comparison": None if comparison is None else comparison.to_dict()})
    elif as_csv:
        _print_csv(found)
    else:
        for each in found:
            print_parts(_shown(each))
        if comparison is not None:
            print_parts(_compared(comparison))
        print_parts(_meanings(found[0]))


def _check_pages(html: Path | None, pages: Path | None) -> None:
    """Refuse to explain what could not be written."""
    from cody.web import check_page_file

    if html is not None:
        check_page_file(html)
    if pages is not None and html is None:
        raise CallError("--pages are linked from the survey's page: give --html FILE too")
    if pages is not None and pages.exists() and not pages.is_dir():
        raise CallError(f"--pages {words.sanitize(pages, 200)} is not a folder")


def _write_page(
    html: Path,
    pages: Path | None,
    found: Sequence[Survey],
    comparison: ModelComparison | None,
    asked: Sequence[SurveyedModel],
    explain: Callable[..., Explanation] | None,
) -> None:
    """The survey's page, and if they are wanted, the pages of its explanations."""
    from cody.web import write_html, write_page
    from cody.web.survey_page import survey_page

    def address(place: int, event: int) -> str:
        return quote(Path(os.path.relpath(_page(folder, place, event), html.absolute().parent)).as_posix())

    if pages is None or explain is None:
        write_html(survey_page(found, comparison), html)
    else:
        folder = pages.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [(place, case, each) for place, each in enumerate(asked) for case in each.explained]
        with progress("pages", len(wanted)) as move:
            for number, (place, case, each) in enumerate(wanted):
                why = explain(each.model, each.graph, case.query)
                names = {"data": found[place].data, "model": found[place].model}
                write_page(replace(why, parameters=why.parameters | names), _page(folder, place, case.event))
                move(completed=number + 1)
        write_html(survey_page(found, comparison, page_of=address), html)
    say(f"Page: {words.sanitize(html, 200)}")


def _page(folder: Path, place: int, event: int) -> Path:
    """Where the explanation of an event is: those of a second model beside those of the first."""
    return folder / (f"{event}.html" if place == 0 else f"{event}-{place + 1}.html")


def _check_call(
    names: Sequence[str], explainer_: str, period: str | None, node: str | None, events: str | None, both: bool
) -> None:
    if len(names) > 2:
        raise CallError(f"a survey compares at most two models, not {len(names)}")
    if len(set(names)) < len(names):
        raise CallError(f"--model {names[0]!r} is given twice; a comparison needs two different models")
    if find(explainer_).factual:
        raise CallError(f"--explainer {explainer_!r} looks for no counterfactuals; a survey needs a search")
    if events is not None and (node is not None or period is not None):
        raise CallError("--events says which links; leave out --node and --period")
    if both:
        raise CallError("give --csv or --json, not both")


def _sample(
    graph: TemporalGraph, instances: int | None, kinds: str, period: str | None, node: str | None, events: str | None
) -> evaluation.Sample:
    """Which links are drawn. Events that are named one by one are all explained, unless fewer are asked for."""
    shares = TEST_PERIOD if period is None else parse_shares(period)
    rows: tuple[int, ...] | None = None
    if events is not None:
        shares, rows = (0.0, 1.0), tuple(sorted(named_rows(events)))
        for row in rows:
            graph.query(row)  # raises an error if there is no such event
    elif node is not None:
        rows = tuple(rows_of_node(graph, rows_between(graph, shares), node, by_default=period is None).tolist())
    most = INSTANCES if events is None or rows is None else len(rows)
    return evaluation.Sample(instances or most, named_kinds(kinds), shares, events=rows)


def _same_links(other: SurveyedModel) -> evaluation.Sample:
    """The links of another model, whatever this one says about them."""
    rows = tuple(sorted(case.event for case in other.explained))
    return evaluation.Sample(len(rows), period=(0.0, 1.0), events=rows)


def _file(first: Path, number: int) -> Path:
    """Where the records of a model are: those of a second one beside those of the first."""
    return first if number == 0 else first.with_name(f"{first.stem}-{number + 1}{first.suffix}")


def _explained(
    file: Path,
    named: NamedModel,
    plan: evaluation.EvaluationPlan,
    sample: evaluation.Sample,
    allow_data_mismatch: bool,
    workers: int,
    ray: str | None,
    *,
    keeps: bool,
) -> SurveyedModel:
    """Explain the links of a sample, or go on with it."""
    loaded, graph = open_model(named, allow_data_mismatch=allow_data_mismatch), named.graph
    with way_to_evaluate(plan.data, graph, plan.model, allow_data_mismatch, workers, ray) as way:
        steps = evaluation.run(file, loaded, graph, plan, sample, evaluate=way)
        links = finish(steps, sample, kept=file if keeps else None, nothing="nothing was kept (--out keeps it)")
    failures = failures_of(file, plan, links)
    say_failures(failures)
    explained = cases(records_of(file, plan, links), graph)
    if not explained:
        raise ModelError(f"no prediction could be explained, the first one: {failures[0].reason}")
    return SurveyedModel(loaded, graph, explained)


def _print_csv(found: Sequence[Survey]) -> None:
    rows = [row for each in found for row in each.rows()]
    writer = csv.DictWriter(
        sys.stdout, ["data", "model", "kind", "figure", "value", "low", "high", "of"], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)


def _meanings(found: Survey) -> Iterable[Any]:
    """What each figure means, below all of them."""
    rows = table("", "")
    rows.show_header = False
    rows.columns[0].no_wrap = True
    could = "could be removed" if _removes_only(found) else "could be otherwise"
    rows.add_row("decisive", "of the events of a counterfactual, the share that is such")
    rows.add_row("candidates", f"of all events that {could}, the share that is such")
    rows.add_row("", "both are means over the predictions with a counterfactual")
    rows.add_row("ratio", "decisive / candidates; above 1, such events decide more")
    rows.add_row("", "often than their number suggests")
    rows.add_row("interval", "of bootstrap samples of the predictions, 95 %")
    yield rows
    yield Text("A counterfactual that the search did not find counts as none.")


def _removes_only(found: Survey) -> bool:
    return found.allowed == REMOVALS


def _changes(found: Survey) -> str:
    """The heading of what changes a prediction."""
    return "changes without" if _removes_only(found) else "changes with"


def _shown(found: Survey) -> Iterable[Any]:
    """A survey for a person, one kind of prediction after the other."""
    for part in found.parts:
        name = f"{words.sanitize(found.model, 30)} on {words.sanitize(found.data, 30)}"
        yield f"{name}: {words.count(part.links, f'{part.kind} prediction')}, {part.explained} with a counterfactual"
        yield from ([found.protected] if found.protected else [])
        yield ""
        yield from _fragility(part, found)
        if part.relations:
            yield from _decisive(part)
        if part.simultaneous.advice:
            yield from (Text(part.simultaneous.advice), "")
        yield from _deciders("Nodes that decide for links of others", "node", part.nodes)
        yield from _deciders("Events that decide more than once", "event", part.events)
        fragile = [each for each in part.most_fragile if each.rows]
        robust = [*part.most_robust, *(each for each in reversed(part.most_fragile) if not each.rows)]
        yield from _examples("The most fragile predictions", fragile, found)
        yield from _examples("The most robust ones", robust[:LISTED], found)


def _fragility(part: Part, found: Survey) -> Iterable[Any]:
    thing = "event" if _removes_only(found) else "edit"
    rows = table(_changes(found), "#predictions", "#95 % interval")
    for each in part.fragility:
        rows.add_row(f"at most {words.count(each.edits, thing)}", _percent(each.share), _between(each.share))
    yield rows
    yield ""


def _decisive(part: Part) -> Iterable[Any]:
    """What the decisive events are, beside all candidates."""
    assert part.repetition is not None
    assert part.age is not None
    rows = table("events", "#decisive", "#candidates", "#ratio", "#95 % interval")
    for contrast in (*part.relations, *part.latest, part.repetition):
        rows.add_row(contrast.what, _percent(contrast.decisive), _percent(contrast.candidates), *_ratio(contrast))
    yield rows
    now = part.most_fragile[0].time
    old, usual = (words.earlier(now - age, now) for age in part.age)
    yield Text(f"Half of the decisive events are at most {old} old; of all candidates, {usual}.")
    if part.caution:
        yield Text(part.caution)
    yield ""


def _deciders(title: str, heading: str, deciders: Sequence[Decider]) -> Iterable[Any]:
    if not deciders:
        return
    rows = table(heading, "#decides", "#could")
    for each in deciders:
        row = "" if each.row is None else f"{each.row}, "
        rows.add_row(f"{row}{words.sanitize(each.name, 50)}", f"{each.decides}", f"{each.could}")
    yield from (f"{title}:", rows, "")


def _examples(title: str, examples: Sequence[Example], found: Survey) -> Iterable[Any]:
    if not examples:
        return
    rows = table("#event", "link", "#score", _changes(found))
    for each in examples:
        link = f"{words.sanitize(each.src, 20)} → {words.sanitize(each.dst, 20)}"
        rows.add_row(str(each.event), link, f"{each.score:.2f}", _rows(each.rows))
    yield from (f"{title}:", rows, "")


def _compared(found: ModelComparison) -> Iterable[Any]:
    """Two surveys side by side."""
    one, other = (words.sanitize(name, 30) for name in found.models)
    yield f"{one} and {other} on {words.count(found.links, 'link')}:"
    yield f"the same decision on {_percent(found.same_decision)} ({_between(found.same_decision)})"
    if found.overlap is not None and found.same_reason is not None:
        yield (
            f"the same reason for {_percent(found.same_reason)} ({_between(found.same_reason)}) of the "
            f"{found.both_explained} that both explain; mean overlap |X ∩ Y| / |X ∪ Y| {found.overlap.value:.2f}\n"
        )
        for title, pairs in (("They agree most on", found.agree), ("They differ most on", found.differ)):
            rows = table("#event", "link", one, other)
            for pair in pairs:
                link = f"{words.sanitize(pair.src, 20)} → {words.sanitize(pair.dst, 20)}"
                rows.add_row(str(pair.event), link, _rows(pair.rows), _rows(pair.others))
            if pairs:
                yield from (f"{title}:", rows, "")


def _rows(rows: Sequence[int | str]) -> str:
    listed = ", ".join(words.sanitize(row, 40) for row in rows[:4]) + (f", … ({len(rows)})" if len(rows) > 4 else "")
    return listed or "(none found)"


def _percent(share: Share) -> str:
    return f"{100 * share.value:.0f} %"


def _between(share: Share) -> str:
    return f"{100 * share.low:.0f} to {100 * share.high:.0f} %"


def _ratio(contrast: Contrast) -> tuple[str, str]:
    if contrast.ratio is None:
        return "–", "–"
    return f"{contrast.ratio.value:.1f}", f"{contrast.ratio.low:.1f} to {contrast.ratio.high:.1f}"
