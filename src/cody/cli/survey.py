"""cody survey: what decides predictions in general."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from cody.cli.command import COUNT, FILE, FOLDER, LINES, argument, bundled, command, section
from cody.cli.messages import print_csv, print_json, say
from cody.cli.options import (
    DEFAULT_MODEL,
    SEARCH_NAMES,
    DataSource,
    ModelSource,
    allow_option,
    candidates_option,
    check_formats,
    csv_option,
    data_options,
    events_option,
    html_option,
    is_left_out,
    json_option,
    kinds_option,
    mismatch_option,
    named_rows,
    names_in,
    node_option,
    parse_edits,
    parse_period,
    parse_protected,
    period_option,
    protect_option,
    ray_option,
    rows_of_node,
    seed_option,
    use_threads,
    workers_option,
)
from cody.cli.progress import progress
from cody.cli.running import failures_of, finish, records_of, say_failures, way_to_evaluate
from cody.cli.show import Prose, print_parts
from cody.errors import CallError, ModelError
from cody.graph import TemporalGraph
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
from cody.utils.tables import TextTable

INSTANCES = 50  # predictions of each kind


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """Which predictions are explained, how, and by whom."""

    model: Sequence[str]
    allow_data_mismatch: bool
    instances: int | None
    kinds: str
    period: str | None
    node: str | None
    events: str | None
    seed: int
    explainer: str
    allow: str | None
    protect: Sequence[str]
    candidates: int | None
    evaluations: int | None
    workers: int
    ray: str | None
    out: Path | None
    pages: Path | None

    @property
    def models(self) -> Sequence[str]:
        return self.model or (DEFAULT_MODEL,)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if len(self.models) > 2:
            raise CallError(f"a survey compares at most two models, not {len(self.models)}")
        if len(set(self.models)) < len(self.models):
            raise CallError(f"--model {self.models[0]!r} is given twice; a comparison needs two different models")
        if find(self.explainer).factual:
            raise CallError(
                f"--explainer {self.explainer!r} does not search for counterfactuals; a survey needs a search"
            )
        if self.events is not None and (self.node is not None or self.period is not None):
            raise CallError("--events names the links; leave out --node and --period")

    def check_none_is_given(self) -> None:
        """Options that say what to explain, and how, do not apply to records that were written before."""
        for name in SurveyOptions.__slots__:
            if name not in ("explainer", "pages") and not is_left_out(name):
                option = f"--{name.replace('_', '-')}"
                raise CallError(f"{option} is for a new survey; records in files are counted as they are")

    def sample(self, graph: TemporalGraph) -> evaluation.Sample:
        """Which links are drawn. Events that are named one by one are all explained, unless --instances limits them."""
        shares = TEST_PERIOD if self.period is None else parse_period(self.period)
        rows: tuple[int, ...] | None = None
        if self.events is not None:
            shares, rows = (0.0, 1.0), tuple(sorted(named_rows(self.events)))
            for row in rows:
                graph.query(row)  # raises an error if there is no such event
        elif self.node is not None:
            chosen = rows_of_node(graph, rows_between(graph, shares), self.node, by_default=self.period is None)
            rows = tuple(chosen.tolist())
        most = INSTANCES if self.events is None or rows is None else len(rows)
        return evaluation.Sample(
            self.instances or most, tuple(dict.fromkeys(names_in(self.kinds))), shares, events=rows
        )


_links, _model = section("Which links"), section("Data and model")
_search, _output = section("The search"), section("Output")
survey_options = bundled(
    "options",
    SurveyOptions,
    _model(
        "--model",
        multiple=True,
        help=f"As in explain; repeat it to compare a second model on the same links. Default: {DEFAULT_MODEL}.",
    ),
    mismatch_option,
    _links(
        "--instances",
        type=COUNT,
        help=f"Number of predictions of each kind. Default: {INSTANCES}; with --events, all of them.",
    ),
    kinds_option,
    period_option,
    node_option,
    events_option,
    seed_option,
    _search("--explainer", metavar="NAME", default=DEFAULT_SEARCH, help=f"A search: {SEARCH_NAMES}."),
    allow_option,
    protect_option,
    candidates_option,
    _search("--evaluations", type=COUNT, help="Maximum number of model evaluations for each link. Default: 300."),
    workers_option,
    ray_option,
    _output("--out", type=LINES, help="File for the records, as cody evaluate writes them; resumes an existing file."),
    _output("--pages", type=FOLDER, help="With --html: a page of each explanation in this folder, linked."),
)


class SurveyedModel(NamedTuple):
    """The explained links of a model."""

    graph: TemporalGraph
    explained: list[ExplainedLink]


@command(
    "survey",
    examples={
        "cody survey --instances 100 --html survey.html": "a page that shows what decides, and where",
        "cody survey --node 1118": "what matters for this node in general",
        "cody survey first.jsonl second.jsonl": "two surveys (--out FILE) counted together, without a new search",
    },
)
@argument("files", "Records of earlier surveys (--out), counted together. Default: explain now.", nargs=-1, type=FILE)
@data_options
@survey_options
@html_option
@csv_option
@json_option
def survey(
    files: Sequence[Path], source: DataSource, options: SurveyOptions, html: Path | None, as_csv: bool, as_json: bool
) -> None:
    """Explain many predictions and summarize what decides them."""
    check_formats(as_csv, as_json)
    if files:
        options.check_none_is_given()
        _check_pages(html, options.pages)
        wanted = None if is_left_out("explainer") else options.explainer
        read = _read(files, source.data, source.load(), wanted)
        _report(read, html, options.pages, as_json=as_json, as_csv=as_csv)
        return
    options.check()
    _check_pages(html, options.pages)
    edits = parse_edits(options.allow)
    chosen = explainer(options.explainer, size=options.candidates, evaluations=options.evaluations, edits=edits)
    use_threads(1)
    surveyed: list[SurveyedModel] = []
    with tempfile.TemporaryDirectory(prefix="cody-survey-") as scratch:
        for number, name in enumerate(options.models):
            subject = ModelSource(**asdict(source), model=name, allow_data_mismatch=options.allow_data_mismatch)
            graph = (named := subject.named()).graph
            sample = _same_links(surveyed[0]) if surveyed else options.sample(graph)
            chosen = replace(chosen, protect=parse_protected(graph, options.protect))
            plan = evaluation.EvaluationPlan(named.data(source.data), name, (chosen,), options.seed)
            file = _file(options.out or Path(scratch) / "records.jsonl", number)
            model = subject.open(named)
            with way_to_evaluate(plan.data, graph, subject, options.workers, options.ray) as way:
                steps = evaluation.run(file, model, graph, plan, sample, evaluate=way)
                kept, nothing = (file if options.out else None), "nothing was saved (use --out FILE)"
                links = finish(steps, sample, kept=kept, nothing=nothing)
            surveyed.append(SurveyedModel(graph, _explained(file, graph, plan, links)))
    _report(surveyed, html, options.pages, as_json=as_json, as_csv=as_csv)


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
        SurveyedModel(graph, cases([replace(each, data=data, model=of_model[0].model) for each in of_model], graph))
        for of_model in models
    ]


def _report(
    asked: Sequence[SurveyedModel],
    html: Path | None,
    pages: Path | None,
    *,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print what the explained links have in common, and write its page."""
    found = [survey_of(each.explained, each.graph) for each in asked]
    comparison = compare(asked[0].explained, asked[1].explained, asked[0].graph) if len(asked) == 2 else None
    if html is not None:
        _write_page(html, pages, found, comparison, asked)
    _print(found, comparison, as_json=as_json, as_csv=as_csv)


def _print(found: Sequence[Survey], comparison: ModelComparison | None, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"surveys": [each.to_dict() for each in found]}
        print_json(document | {"comparison": None if comparison is None else comparison.to_dict()})
    elif as_csv:
        columns = ["data", "model", "kind", "figure", "value", "low", "high", "of"]
        print_csv(columns, (row for each in found for row in each.rows()))
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
) -> None:
    """The survey's page, and if they are wanted, the pages of its explanations."""
    from cody.web import write_html, write_page
    from cody.web.survey_page import survey_page

    def address(place: int, event: int) -> str:
        return quote(Path(os.path.relpath(_page(folder, place, event), html.absolute().parent)).as_posix())

    if pages is None:
        write_html(survey_page(found, comparison), html)
    else:
        folder = pages.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [(place, case) for place, each in enumerate(asked) for case in each.explained]
        with progress("pages", len(wanted)) as move:
            for number, (place, case) in enumerate(wanted):
                why = case.record.explanation
                names = {"data": found[place].data, "model": found[place].model}
                write_page(replace(why, parameters=why.parameters | names), _page(folder, place, case.event))
                move(completed=number + 1)
        write_html(survey_page(found, comparison, page_of=address), html)
    say(f"Page: {words.sanitize(html, 200)}")


def _page(folder: Path, place: int, event: int) -> Path:
    """Where the explanation of an event is: those of a second model beside those of the first."""
    return folder / (f"{event}.html" if place == 0 else f"{event}-{place + 1}.html")


def _same_links(other: SurveyedModel) -> evaluation.Sample:
    """The links of another model, whatever this one says about them."""
    rows = tuple(sorted(case.event for case in other.explained))
    return evaluation.Sample(len(rows), period=(0.0, 1.0), events=rows)


def _file(first: Path, number: int) -> Path:
    """Where the records of a model are: those of a second one beside those of the first."""
    return first if number == 0 else first.with_name(f"{first.stem}-{number + 1}{first.suffix}")


def _explained(
    file: Path, graph: TemporalGraph, plan: evaluation.EvaluationPlan, links: Sequence[evaluation.Link]
) -> list[ExplainedLink]:
    """What a run explained; what it could not explain is said."""
    failures = failures_of(file, plan, links)
    say_failures(failures)
    explained = cases(records_of(file, plan, links, documents=True), graph)
    if not explained:
        raise ModelError(f"no prediction could be explained, the first one: {failures[0].reason}")
    return explained


def _meanings(found: Survey) -> Iterable[Any]:
    """What each figure means, below all of them."""
    rows = TextTable("", "", whole=[0])
    could = "could be removed" if _removes_only(found) else "could change"
    rows.add_row("decisive", "of the events of a counterfactual, the share that is such")
    rows.add_row("candidates", f"of all events that {could}, the share that is such")
    rows.add_row("", "both are means over the predictions with a counterfactual")
    rows.add_row("ratio", "decisive / candidates; above 1, such events decide more")
    rows.add_row("", "often than their number suggests")
    rows.add_row("interval", "of bootstrap samples of the predictions, 95 %")
    yield rows
    yield Prose("A counterfactual that the search did not find counts as none.")


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
            yield from (Prose(part.simultaneous.advice), "")
        yield from _deciders("Nodes that decide for links of others", "node", part.nodes)
        yield from _deciders("Events that decide more than once", "event", part.events)
        fragile = [each for each in part.most_fragile if each.rows]
        robust = [*part.most_robust, *(each for each in reversed(part.most_fragile) if not each.rows)]
        yield from _examples("The most fragile predictions", fragile, found)
        yield from _examples("The most robust ones", robust[:LISTED], found)


def _fragility(part: Part, found: Survey) -> Iterable[Any]:
    thing = "event" if _removes_only(found) else "edit"
    rows = TextTable(_changes(found), "#predictions", "#95 % interval")
    for each in part.fragility:
        rows.add_row(f"at most {words.count(each.edits, thing)}", _percent(each.share), _between(each.share))
    yield rows
    yield ""


def _decisive(part: Part) -> Iterable[Any]:
    """What the decisive events are, beside all candidates."""
    assert part.repetition is not None
    assert part.age is not None
    rows = TextTable("events", "#decisive", "#candidates", "#ratio", "#95 % interval")
    for contrast in (*part.relations, *part.latest, part.repetition):
        rows.add_row(contrast.what, _percent(contrast.decisive), _percent(contrast.candidates), *_ratio(contrast))
    yield rows
    now = part.most_fragile[0].time
    old, usual = (words.earlier(now - age, now) for age in part.age)
    yield Prose(f"Half of the decisive events are at most {old} old; of all candidates, {usual}.")
    if part.caution:
        yield Prose(part.caution)
    yield ""


def _deciders(title: str, heading: str, deciders: Sequence[Decider]) -> Iterable[Any]:
    if not deciders:
        return
    rows = TextTable(heading, "#decides", "#could")
    for each in deciders:
        row = "" if each.row is None else f"{each.row}, "
        rows.add_row(f"{row}{words.sanitize(each.name, 50)}", f"{each.decides}", f"{each.could}")
    yield from (f"{title}:", rows, "")


def _examples(title: str, examples: Sequence[Example], found: Survey) -> Iterable[Any]:
    if not examples:
        return
    rows = TextTable("#event", "link", "#score", _changes(found))
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
            rows = TextTable("#event", "link", one, other)
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
