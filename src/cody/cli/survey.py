"""cody survey: what decides predictions in general."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET

from cody.cli import options as shared
from cody.cli.command import argument, bundled, command, given_by, option_fields, option_name
from cody.cli.running import failures_of, open_others, records_of, run_evaluation, say_failures, way_to_evaluate
from cody.cli.terminal import Prose, progress, say
from cody.cli.types import FILE, FOLDER, LINES
from cody.errors import CallError, ModelError
from cody.explaining.document import ExplanationDocument
from cody.explaining.wording import capital
from cody.graph import TemporalGraph
from cody.models.contract import Model, identity_of
from cody.models.predictions import rows_between
from cody.study import ExplainedLink, ModelComparison, Part, Survey, cases, compare_models, survey_of
from cody.study import run as evaluation
from cody.study.cases import with_survival
from cody.study.comparison import SurveyOutput
from cody.study.explainers import DEFAULT_SEARCH, SEARCHES, explainer, find
from cody.study.instances import TEST_PERIOD
from cody.study.record import REMOVALS, Key
from cody.study.record_file import records_of_models, rewrite
from cody.study.report import LISTED, Decider, Example, with_name
from cody.study.shares import Contrast, Share
from cody.utils import words
from cody.utils.tables import TextTable

INSTANCES = 50  # predictions of each kind
_links, _model = option_fields("Which links"), option_fields("Data and model")
_search, _output = option_fields("The search"), option_fields("Output")


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """Which predictions are explained, how, and by whom."""

    source: shared.DataSource = given_by(shared.data_options)
    decide: shared.DecisionOptions = given_by(shared.decision_options)
    model: Sequence[str] = _model(
        f"As in explain; repeat it to compare a second model on the same links. Default: {shared.DEFAULT_MODEL}."
    )
    allow_data_mismatch: bool = given_by(shared.mismatch_option)
    instances: int | None = _links(
        f"Number of predictions of each kind. Default: {INSTANCES}; with --events, all of them."
    )
    kinds: str = given_by(shared.kinds_option)
    period: str | None = given_by(shared.period_option)
    node: str | None = given_by(shared.node_option)
    events: str | None = given_by(shared.events_option)
    seed: int = given_by(shared.seed_option)
    explainer: str = _search(f"A search: {', '.join(SEARCHES)}.", "NAME", default=DEFAULT_SEARCH)
    allow: str | None = given_by(shared.allow_option)
    protect: Sequence[str] = given_by(shared.protect_option)
    candidates: int | None = given_by(shared.candidates_option)
    evaluations: int | None = _search("Maximum number of model evaluations for each link. Default: 300.")
    also: Sequence[str] = _search("Count the answers that hold in this model, too. Repeatable.", "MODEL")
    noise: bool = _search("Count those that hold a minute later, and with an unrelated event added.")
    work: shared.WorkOptions = given_by(shared.work_options)
    out: Path | None = _output(
        "File for the records, as cody evaluate writes them; resumes an existing file.", type=LINES
    )
    drawing: shared.FigureOptions = given_by(shared.figure_options)
    pages: Path | None = _output(
        "With --html: folder for the pages of the explanations. Default: that of the page, without .html.", type=FOLDER
    )
    output: shared.OutputOptions = given_by(shared.output_options)
    units: shared.UnitOptions = given_by(shared.unit_options)

    @property
    def models(self) -> Sequence[str]:
        return self.model or (shared.DEFAULT_MODEL,)

    def subject(self, model: str) -> shared.ModelSource:
        """One of the models, with the data."""
        return shared.ModelSource(**asdict(self.source), model=model, allow_data_mismatch=self.allow_data_mismatch)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if len(self.models) > 2:
            raise CallError(f"a survey compares at most two models, not {len(self.models)}")
        if len(self.models) > 1 and (self.also or self.noise):
            raise CallError(f"--{'also' if self.also else 'noise'} is about the answers of one model: give one --model")
        if len(set(self.models)) < len(self.models):
            raise CallError(f"--model {self.models[0]!r} is given twice; a comparison needs two different models")
        if find(self.explainer).factual:
            what = f"--explainer {self.explainer!r} does not search for counterfactuals"
            raise CallError(f"{what}; a survey needs a search")
        if self.events is not None and (self.node is not None or self.period is not None):
            raise CallError("--events names the links; leave out --node and --period")

    def check_none_is_given(self) -> None:
        """Options that say what to explain, and how, do not apply to records that were written before."""
        still = {"explainer", "pages", "also", "noise", "allow_data_mismatch", "out"}
        still |= {"source", "decide", "drawing", "output", "units", "work"}  # options of their own
        if self.out is not None and not (self.also or self.noise):
            raise CallError("--out is for a new survey, or for what --also and --noise add to the records of a file")
        kinds = (SurveyOptions, shared.WorkOptions, shared.UnitOptions, shared.DecisionOptions)
        for name in (name for kind in kinds for name in kind.__slots__):
            if name not in still and not shared.is_left_out(name):
                raise CallError(f"{option_name(name)} is for a new survey; records in files are counted as they are")

    def sample(self, graph: TemporalGraph) -> evaluation.Sample:
        """Which links are drawn. Events that are named one by one are all explained, unless --instances limits them."""
        shares = TEST_PERIOD if self.period is None else shared.parse_period(self.period)
        rows: tuple[int, ...] | None = None
        if self.events is not None:
            shares, rows = (0.0, 1.0), tuple(sorted(shared.named_rows(self.events)))
            for row in rows:
                graph.query(row)  # raises an error if there is no such event
        elif self.node is not None:
            chosen = shared.rows_of_node(graph, rows_between(graph, shares), self.node, by_default=self.period is None)
            rows = tuple(chosen.tolist())
        most = INSTANCES if self.events is None or rows is None else len(rows)
        return evaluation.Sample(
            self.instances or most, tuple(dict.fromkeys(shared.names_in(self.kinds))), shares, events=rows
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
@bundled("options", SurveyOptions)
def survey(files: Sequence[Path], options: SurveyOptions) -> None:
    """Explain many predictions and summarize what decides them."""
    shared.check_formats(options.output.as_csv, options.output.as_json)
    options.drawing.check()
    if files:
        options.check_none_is_given()
        pages = _check_pages(options)
        wanted = None if shared.is_left_out("explainer") else options.explainer
        read = _read(files, options.source.data, options.source.load(), wanted)
        if options.also or options.noise:
            read = _tested_later(read, files, options)
        _report(read, pages, options)
        return
    options.check()
    pages = _check_pages(options)
    edits, decision = shared.parse_edits(options.allow), options.decide.decision()
    chosen = explainer(options.explainer, size=options.candidates, evaluations=options.evaluations, edits=edits)
    chosen = replace(chosen, by=options.units.kind, dependants=options.units.rule)
    shared.use_threads(1)
    surveyed: list[SurveyedModel] = []
    with tempfile.TemporaryDirectory(prefix="cody-survey-") as scratch:
        for number, name in enumerate(options.models):
            subject = options.subject(name)
            graph = (named := subject.named()).graph
            sample = _same_links(surveyed[0]) if surveyed else options.sample(graph)
            chosen = replace(chosen, protect=shared.parse_protected(graph, options.protect))
            plan = evaluation.EvaluationPlan(named.data, name, (chosen,), options.seed, decision=decision)
            file = _file(options.out or Path(scratch) / "records.jsonl", number)
            model = subject.open(named)
            way = way_to_evaluate(plan.data, graph, subject, options.work)
            kept, nothing = (file if options.out else None), "nothing was saved (use --out FILE)"
            done, _ = run_evaluation(file, model, graph, plan, sample, way, kept=kept, nothing=nothing)
            of_model = SurveyedModel(graph, _explained(file, graph, plan, done))
            if options.also or options.noise:
                of_model = _tested(of_model, model, options, subject)
                rewrite([file], file, (case.record for case in of_model.explained))
            surveyed.append(of_model)
    _report(surveyed, pages, options)


def _read(files: Sequence[Path], data: str, graph: TemporalGraph, wanted: str | None) -> list[SurveyedModel]:
    """What was explained before, of each model."""
    models = records_of_models(files, wanted)
    if len(models) > 2:
        raise CallError(f"a survey compares at most two models, and the files have records of {len(models)}")
    first = models[0][0]
    if first.data_identity != graph.identity:
        other = words.sanitize(first.data)
        raise CallError(f"the files are about other data ({other}) than {data}: give them with --data")
    return [
        SurveyedModel(graph, cases([replace(each, data=data, model=of_model[0].model) for each in of_model], graph))
        for of_model in models
    ]


def _report(surveyed: Sequence[SurveyedModel], pages: Path | None, options: SurveyOptions) -> None:
    """Print what the explained links have in common, and write its page and its figure."""
    found = [survey_of(each.explained, each.graph) for each in surveyed]
    comparison = None
    if len(surveyed) == 2:
        comparison = compare_models(surveyed[0].explained, surveyed[1].explained, surveyed[0].graph)
    if options.output.html is not None and pages is not None:
        _write_page(options.output.html, pages, found, comparison, surveyed)
    if options.drawing.figure is not None:
        from cody.web.survey_drawing import write_survey_figure

        options.drawing.write(partial(write_survey_figure, found))
    columns = ["data", "model", "kind", "figure", "value", "low", "high", "of"]
    rows = (row for each in found for row in each.rows())
    options.output.print(SurveyOutput(tuple(found), comparison), columns, rows, _parts(found, comparison))


def _parts(found: Sequence[Survey], comparison: ModelComparison | None) -> Iterable[Any]:
    for each in found:
        yield from _shown(each)
    if comparison is not None:
        yield from _compared(comparison, found[0].subject)
    yield from _meanings(found[0])


def _check_pages(options: SurveyOptions) -> Path | None:
    """The folder for the pages of the explanations, if there is to be a page; an error if they could not be written."""
    from cody.web import check_page_file

    html, pages = options.output.html, options.pages
    if html is None:
        if pages is not None:
            raise CallError("--pages are linked from the survey's page: give --html FILE too")
        return None
    check_page_file(html)
    folder = html.with_suffix("") if pages is None else pages
    if folder == html or (folder.exists() and not folder.is_dir()):
        named = words.sanitize(folder, 200)
        raise CallError(f"{named} is not a folder for the pages of the explanations; choose one with --pages FOLDER")
    return folder


def _write_page(
    html: Path,
    folder: Path,
    found: Sequence[Survey],
    compared: ModelComparison | None,
    surveyed: Sequence[SurveyedModel],
) -> None:
    """The survey's page, and the pages of its explanations."""
    from cody.web.file import address, write_html, write_page
    from cody.web.survey_page import survey_page

    folder.mkdir(parents=True, exist_ok=True)
    wanted = [
        (place, case)
        for place, each in enumerate(surveyed)
        for case in each.explained
        if isinstance(case.record.document, ExplanationDocument)  # records of CoDy 0.2 have numbers only
    ]
    with progress("pages", len(wanted)) as move:
        for number, (place, case) in enumerate(wanted):
            why = case.record.explanation
            names = {"data": found[place].data, "model": found[place].model}
            why = replace(why, parameters=why.parameters | names, elsewhere=case.elsewhere)
            write_page(why, _page(folder, place, case.event), back=html)
            move(completed=number + 1)
    there = {(place, case.event): address(_page(folder, place, case.event), html) for place, case in wanted}
    write_html(survey_page(found, compared, page_of=lambda *of: there.get(of)), html)
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
    file: Path, graph: TemporalGraph, plan: evaluation.EvaluationPlan, done: Set[Key]
) -> list[ExplainedLink]:
    """What a run explained; what it could not explain is said."""
    failures = failures_of(file, plan, done)
    say_failures(failures)
    explained = cases(records_of(file, plan, done, documents=True), graph)
    if not explained:
        raise ModelError(f"no prediction could be explained, the first one: {failures[0].reason}")
    return explained


def _tested(of_model: SurveyedModel, model: Model, options: SurveyOptions, source: shared.ModelSource) -> SurveyedModel:
    """The links with what other models say about their answers, and this one under noise, as far as that is wanted."""
    graph, explained = of_model
    also = open_others(options.also, source, model, graph)
    tested: list[ExplainedLink] = []
    with progress("answers tested in other models", len(explained)) as move:
        for case in explained:
            tested.append(with_survival(case, model, graph, also, noise=options.noise))
            move(completed=len(tested))
    return SurveyedModel(graph, tested)


def _tested_later(read: Sequence[SurveyedModel], files: Sequence[Path], options: SurveyOptions) -> list[SurveyedModel]:
    """What was explained before, with what other models say about it; written to a file if one is named."""
    if len(read) > 1:
        which = "also" if options.also else "noise"
        raise CallError(f"--{which} is about the answers of one model: give its file alone")
    if options.out is not None and (options.out.suffix == ".gz" or options.out.exists()) and options.out not in files:
        raise CallError(f"--out {options.out} must be a new file, not a compressed one, or one of those that are read")
    (of_model,) = read
    first = of_model.explained[0].record
    subject = options.subject(first.model)
    model = subject.open(subject.named())
    if identity_of(model) != first.model_identity:
        raise CallError(f"{words.sanitize(first.model)} is not the model of these records any more")
    tested = _tested(of_model, model, options, subject)
    if options.out is not None:
        rewrite(files, options.out, (case.record for case in tested.explained))
        say(f"Records: {words.sanitize(options.out, 200)}")
    return [tested]


def _meanings(found: Survey) -> Iterable[Any]:
    """What each figure means, below all of them."""
    thing, could = words.sanitize(found.event_name, 24), "be removed" if _removes_only(found) else "change"
    meanings = (
        ("decisive", f"of the {thing}s of a counterfactual, the share that is such"),
        ("candidates", f"of all {thing}s that could {could}, the share that is such"),
        ("", "both are means over the predictions with a counterfactual"),
        ("ratio", f"decisive / candidates; above 1, such {thing}s decide more"),
        ("", "often than their number suggests"),
        ("interval", "of bootstrap samples of the predictions, 95 %"),
    )
    yield TextTable("", "", rows=meanings, whole=[0])
    yield Prose("A counterfactual that the search did not find counts as none.")


def _removes_only(found: Survey) -> bool:
    return found.allowed == REMOVALS


def _changes(found: Survey) -> str:
    """The heading of what changes a prediction."""
    return "changes without" if _removes_only(found) else "changes with"


def _shown(found: Survey) -> Iterable[Any]:
    """A survey for a person, one kind of prediction after the other."""
    thing = words.sanitize(found.event_name, 24)
    for part in found.parts:
        name = words.applied_to(found.model, found.data)
        which = words.count(part.links, f"{part.kind} prediction")
        if found.decision is not UNSET:
            which = f"{part.links:,} {words.sanitize(part.title, 60)}"
        yield Prose(f"{name}: {which}, {part.explained} with a counterfactual")
        yield from ([found.protected] if found.protected else [])
        yield ""
        yield from _fragility(part, found)
        if part.relations:
            yield from _decisive(part, found)
        yield from _survival(part)
        if part.simultaneous.advice:
            yield from (Prose(part.simultaneous.advice), "")
        yield from _deciders(f"Nodes that decide for {with_name(found.subject, thing)}s of others", "node", part.nodes)
        yield from _deciders(f"{capital(thing)}s that decide more than once", "event", part.events)
        fragile = [each for each in part.most_fragile if each.rows]
        robust = [*part.most_robust, *(each for each in reversed(part.most_fragile) if not each.rows)]
        yield from _examples("The most fragile predictions", fragile, found)
        yield from _examples("The most robust ones", robust[:LISTED], found)


def _fragility(part: Part, found: Survey) -> Iterable[Any]:
    shares = (
        (f"at most {words.count(each.edits, found.edit_name)}", *_interval(each.share)) for each in part.fragility
    )
    yield from (TextTable(_changes(found), "#predictions", "#95 % interval", rows=shares), "")


def _survival(part: Part) -> Iterable[Any]:
    """In which other models the answers hold, and whether they do under noise."""
    if not part.survival:
        return
    rows = ((words.sanitize(each.what, 40), f"{each.tested}", *_interval(each.holds)) for each in part.survival)
    yield TextTable("the answer also flips", "#tested", "#holds", "#95 % interval", rows=rows)
    yield Prose("Tested are answers where that model decides the same with nothing changed.")
    yield ""


def _decisive(part: Part, found: Survey) -> Iterable[Any]:
    """What the decisive events are, beside all candidates."""
    thing = words.sanitize(found.event_name, 24)
    assert part.repetition is not None
    assert part.age is not None
    rows = TextTable(f"{thing}s", "#decisive", "#candidates", "#ratio", "#95 % interval")
    for contrast in (*part.relations, *part.latest, part.repetition):
        shares = _interval(contrast.decisive)[0], _interval(contrast.candidates)[0]
        rows.add_row(with_name(contrast.what, thing), *shares, *_ratio(contrast))
    yield rows
    now = part.most_fragile[0].time
    old, usual = (words.earlier(now - age, now) for age in (part.age.decisive, part.age.candidates))
    yield Prose(f"Half of the decisive {thing}s are at most {old} old; of all candidates, {usual}.")
    if part.caution:
        yield Prose(part.caution)
    if found.units_note:
        yield Prose(found.units_note)
    yield ""


def _deciders(title: str, heading: str, deciders: Sequence[Decider]) -> Iterable[Any]:
    rows = TextTable(heading, "#decides", "#could")
    for each in deciders:
        row = "" if each.row is None else f"{each.row}, "
        rows.add_row(f"{row}{words.sanitize(each.name, 50)}", f"{each.decides}", f"{each.could}")
    yield from _titled(title, rows)


def _examples(title: str, examples: Sequence[Example], found: Survey) -> Iterable[Any]:
    rows = TextTable("#event", _heading(found.subject), f"#{found.figure}", _changes(found))
    for each in examples:
        link = words.link(each.src, each.dst, 20)
        shown = words.sanitize(each.figure, 24) if each.score is None else f"{each.score:.2f}"
        rows.add_row(str(each.event), link, shown, _rows(each.rows if _removes_only(found) else _edits(each.rows)))
    yield from _titled(title, rows)


def _titled(title: str, table: TextTable) -> Iterable[Any]:
    if table.rows:
        yield from (f"{title}:", table, "")


def _heading(subject: str) -> str:
    """Of the column that names the two nodes."""
    return "link" if subject == "link" else "nodes"


def _compared(found: ModelComparison, subject: str) -> Iterable[Any]:
    """Two surveys side by side."""
    one, other = (words.sanitize(name, 30) for name in found.models)
    yield f"{one} and {other} on {words.count(found.links, subject)}:"
    yield "the same decision on {} ({})".format(*_interval(found.same_decision))
    if found.overlap is not None and found.same_reason is not None:
        yield Prose(
            "the same reason for {} ({}) of the ".format(*_interval(found.same_reason))
            + f"{found.both_explained} that both explain; mean overlap |X ∩ Y| / |X ∪ Y| {found.overlap.value:.2f}"
        )
        yield ""
        for title, pairs in (("They agree most on", found.agree), ("They differ most on", found.differ)):
            rows = (
                (str(pair.event), words.link(pair.src, pair.dst, 20), _rows(pair.rows), _rows(pair.others))
                for pair in pairs
            )
            yield from _titled(title, TextTable("#event", _heading(subject), one, other, rows=rows))


def _edits(rows: Sequence[int | str]) -> list[str]:
    """Where events can be added and moved, too, a row alone does not say what becomes of it."""
    return [f"{row} removed" if isinstance(row, int) else row for row in rows]


def _rows(rows: Sequence[int | str]) -> str:
    listed = ", ".join(words.sanitize(row, 40) for row in rows[:4]) + (f", … ({len(rows)})" if len(rows) > 4 else "")
    return listed or "(none found)"


def _interval(share: Share | None) -> tuple[str, str]:
    """A share, and the interval of it."""
    if share is None:
        return "–", "–"
    return f"{100 * share.value:.0f} %", f"{100 * share.low:.0f} to {100 * share.high:.0f} %"


def _ratio(contrast: Contrast) -> tuple[str, str]:
    if contrast.ratio is None:
        return "–", "–"
    return f"{contrast.ratio.value:.1f}", f"{contrast.ratio.low:.1f} to {contrast.ratio.high:.1f}"
