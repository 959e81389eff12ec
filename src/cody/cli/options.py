"""Options that several commands share. Each decorator adds some to a command, which gets them as one typed object."""

from __future__ import annotations

import csv
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cody.cli.command import Decorator, argument, bundled, given, given_by, option_fields, section
from cody.cli.terminal import ShownPart, print_csv, print_json, print_parts, progress, say
from cody.cli.types import COUNT, FIGURE, PAGE, real, whole
from cody.errors import CallError, CodyError, ModelError
from cody.explaining.what_if import parse_add, parse_alter, parse_move, parse_rows, read_rows
from cody.explaining.without import Removal, without
from cody.graph import Query, TemporalGraph
from cody.graph.dependants import RULES, Rule, named_rule
from cody.graph.edits import Edit
from cody.graph.protected import Protected
from cody.graph.units import KINDS as UNIT_KINDS
from cody.graph.units import UnitKind, named_kind
from cody.models import deciding
from cody.models.contract import Model, subject_of
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.search.proposals import Proposer
from cody.study.explainers import EDITS, NEAR, WHY_NOT, check_learned, find, find_edits
from cody.utils import words

if TYPE_CHECKING:
    from cody.data.tgb import Negatives
    from cody.engine.named import NamedModel

Rows = Iterable[Mapping[str, object]]
DEFAULT_DATA, DEFAULT_MODEL = "collegemsg", "tgn-collegemsg"
LOADING = "Loading the model ..."
LARGEST_SEED = 2**63 - 1  # that a record can hold
REMOVE, ALLOWED_BY_WHY_NOT = "remove", ",".join(WHY_NOT)
SIMULTANEOUS = "simultaneous"


# Data and model.


@dataclass(frozen=True, slots=True)
class DataSource:
    """The data that a command works on."""

    data: str
    sort: bool
    unit: str | None

    def load(self, **columns: Any) -> TemporalGraph:
        from cody.data import load

        return load(self.data, sort=self.sort, unit=self.unit, **columns)


@dataclass(frozen=True, slots=True)
class ModelSource(DataSource):
    """A model and the data that it is applied to."""

    model: str
    allow_data_mismatch: bool

    def named(self) -> NamedModel:
        """The model by its name, with its graph; neither is loaded yet, unless a function makes them."""
        from cody.engine.named import NamedModel, is_factory

        named = NamedModel(self.model, self.load, data=self.data)
        if is_factory(self.model):  # the graph comes with the model: whoever needs one waits for both
            use_threads(1)
            with progress(LOADING, None):
                named.graph  # noqa: B018
        return named

    def open(self, named: NamedModel, *, reference: bool = False) -> Model:
        """Load a model. If the table of its memory has to be built, that shows how far it is."""
        from cody.engine import fast_model, reference_model

        use_threads(1)
        if named.unused_data and not is_left_out("data"):
            say(f"--data {words.sanitize(named.unused_data, 60)} is not used: {self.model} returns a graph of its own")
        with progress(LOADING, None) as move:
            events = named.graph.num_events

            def watch(built: int) -> None:
                move(description="Building the memory table, once", completed=built, total=events)

            engine = reference_model if reference else partial(fast_model, watch=watch)
            with naming_what_was_left_out(named.name, named.graph):
                return named.open(engine=engine, allow_data_mismatch=self.allow_data_mismatch)


_model = section("Data and model")
_data_help = "Name of a data set, file of events, or folder of a saved graph."
_model_help = "Folder of a model, name of a shipped one, or MODULE:FUNCTION that returns a model."
_reading = (
    _model("--sort", is_flag=True, help="Sort the events by time; ties keep their order."),
    _model("--unit", one_of=["s", "ms", "us", "ns"], help="Unit of numeric times in a file. Default: s, seconds."),
)
mismatch_option = _model(
    "--allow-data-mismatch", was="--other-data", is_flag=True, help="Use the model on data it was not trained for."
)
model_options = bundled(
    "source",
    ModelSource,
    _model("--data", default=DEFAULT_DATA, help=_data_help),
    _model("--model", default=DEFAULT_MODEL, help=_model_help),
    *_reading,
    mismatch_option,
)


def _data_source(first: Decorator[Any]) -> Decorator[Any]:
    return bundled("source", DataSource, first, *_reading)


data_options = _data_source(_model("--data", default=DEFAULT_DATA, help=_data_help))
required_data_options = _data_source(_model("--data", required=True, help=_data_help))
data_argument = _data_source(argument("data", _data_help, metavar="NAME"))
_file_help = "Parquet, csv, JODIE csv, ml_X.csv, or a data set's name."
file_argument = _data_source(argument("data", _file_help, metavar="FILE"))


def use_threads(count: int) -> None:
    """For torch, now or when it is imported: the matrices of one query are small, a second thread only costs."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


@contextmanager
def naming_what_was_left_out(model: str, graph: TemporalGraph) -> Iterator[None]:
    """Where a model does not belong to the data, and one of both is a default, the error says which option is missing.

    Identities, which the error of the library compares, say nothing to somebody who forgot an option.
    """
    try:
        yield
    except ModelError:
        if not _belongs(model, graph) and is_left_out("data"):
            raise CallError(
                f"--data is missing: the default is {DEFAULT_DATA}, and the model {model!r} was trained on other data; "
                "name them, or override this check with --allow-data-mismatch"
            ) from None
        if not _belongs(model, graph) and is_left_out("model"):
            raise CallError(
                f"--model is missing: the default is {DEFAULT_MODEL}, which was not trained on these data; name yours "
                "(cody train makes one), or override this check with --allow-data-mismatch"
            ) from None
        raise


def _belongs(model: str, graph: TemporalGraph) -> bool:
    """Whether a model was trained on these events; a folder that is no model says nothing against it."""
    from cody.models.folder import read_model

    try:
        return read_model(model).data == graph.identity
    except CodyError:
        return True


def is_left_out(option: str) -> bool:
    """Whether the command that is running has its own default for an option."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is ParameterSource.DEFAULT


# Which links.


_link = option_fields("The link")


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """One link: that of an event, or any other."""

    event: int | None = _link("Row of the event whose link is scored.", "ROW", type=int)
    src: str | None = _link("Source of a link that need not have happened.", "NODE")
    dst: str | None = _link("Destination of that link.", "NODE")
    node: str | None = _link("Node whose state is predicted, by a model that labels nodes.", "NODE")
    time: str | None = _link(
        "When: a date like '2004-07-28 05:08' (UTC unless CODY_TIMEZONE names a zone), a number, or now, the end "
        "of the log."
    )

    @property
    def is_given(self) -> bool:
        return bool(given(self))

    def query(self, graph: TemporalGraph) -> Query:
        """The query that is meant; parts that do not make one are refused."""
        if given(self) not in (["--event"], ["--src", "--dst", "--time"], ["--node", "--time"]):
            raise CallError(
                "give --event ROW, or --src, --dst and --time of a link, or --node and --time (explain also: --events "
                "ROWS)"
            )
        if self.event is not None:
            return graph.query(self.event)
        time = str(self.time)
        query = graph.link(self.src, self.dst, time) if self.node is None else graph.state(self.node, time)
        if not query.before:
            began = words.moment_and_zone(float(graph.time[0]))
            raise CallError(f"--time {self.time!r} is before the first event ({began}): there is no history")
        return query

    def check(self, model: Model) -> None:
        """Refuse the state of a node where links or events are predicted, and a link where nodes are labelled."""
        subject = subject_of(model)
        if self.node is not None and subject != "node":
            what = "links" if subject == "link" else f"labels of {subject}s"
            raise CallError(f"the model predicts {what}, not the state of a node: give --src and --dst, not --node")
        if self.src is not None and subject == "node":
            raise CallError("the model predicts the state of a node: give --node, not --src and --dst")


link_options = bundled("link", LinkOptions)

_links = section("Which links")
node_option = _links("--node", help="Only links of this node.")
period_option = _links(
    "--period", metavar="FROM..TO", help="Part of the log, as shares of the events. Default: 0.85..1, the test period."
)
events_option = _links("--events", metavar="ROWS", help="Only these events: rows 10,20,30, or a file of rows.")
kinds_option = _links("--kinds", default="correct,incorrect", help="Kinds of predictions to explain.")
seed_option = _links(
    "--seed", type=whole(0, LARGEST_SEED), default=0, help="Seed for drawing links and for random policies."
)


def parse_period(text: str) -> tuple[float, float]:
    """What `--period` names: two shares of the events."""
    try:
        first, last = (float(share) for share in text.split(".."))
    except ValueError:
        raise CallError(f"--period {text!r} is not understood; write two shares of the events: 0.85..1") from None
    if not 0 <= first < last <= 1:
        raise CallError(f"--period {text!r}: a period is two increasing shares of the events, between 0 and 1")
    return first, last


def names_in(text: str) -> list[str]:
    """The names in a list with commas, or in lines; one that has a comma itself is in quotes."""
    lines = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    return [name.strip() for names in lines for name in names if name.strip()]


def rivals_in(text: str) -> Sequence[str] | Negatives:
    """The rivals that `--among` names, or those that TGB has for each link of a data set."""
    from cody.data.tgb import is_tgb, negatives

    return negatives(text) if is_tgb(text) else names_in(text)


@contextmanager
def supported(names: Iterable[str], source: ModelSource, decision: Decision | ByLabel | None) -> Iterator[None]:
    """Where a trained explainer is missing, whether it would support this decision at all is said first."""
    try:
        yield
    except CodyError:
        from cody.study.instances import settled  # msgspec, which other commands do without

        for name in names:
            if find(name).needs_scorer:
                check_learned(name, settled(source.open(source.named()), decision))
        raise


def named_rows(events: str) -> list[int]:
    """The rows that `--events` names, each once, in their order."""
    named = read_rows(events)
    if not named:
        raise CallError(f"--events {events!r} names no event")
    rows = list(dict.fromkeys(named))
    if len(rows) < len(named):
        say(f"{words.count(len(named), 'row')} named, {len(rows):,} of them different: each is used once")
    return rows


def rows_of_node(graph: TemporalGraph, rows: Any, node: str, *, by_default: bool) -> Any:
    """Those of the rows that are events of a node. `by_default`: the period is the default one, so it is named."""
    from cody.models.predictions import of_node

    chosen = of_node(graph, rows, node)
    if not len(chosen):
        raise CallError(f"there are no events of node {node!r} in this period")
    every = len(graph.history(graph.node(node), graph.num_events))
    if by_default and len(chosen) < every:
        these = f"{len(chosen):,} of the {words.count(every, 'event')} of {words.sanitize(node)}"
        say(f"{these}: those of the test period, the last 15 % of the log (--period 0..1 takes all)")
    return chosen


# The decision.


_decision = option_fields("The decision")


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """What is to flip. At most one of them is given, but --label may have a threshold."""

    threshold: float | None = _decision("Predicted above this probability. Default: the model's, else 0.5.", "P")
    top: int | None = _decision("Is the destination among the K best for the source?", "K")
    among: str | None = _decision(
        "With --top: the rivals, names with a comma in quotes, or a data set of TGB (tgbl-wiki) for its negatives. "
        "Default: all that have been a destination by then.",
        "NODES",
    )
    rather_than: str | None = _decision("Is the destination ranked above this one?", "NODE")
    label: str | None = _decision("Is this the predicted label? For models of labels.", "NAME")
    between: str | None = _decision("Is the predicted number within this range?", "LOW..HIGH")

    @property
    def given(self) -> list[str]:
        """Names of the options that are given, each a decision."""
        return given(self, "threshold", "top", "rather_than", "label", "between")

    @property
    def again(self) -> str:
        """The options that a further command needs for the same decision."""
        names = [*self.given, *given(self, "among")]
        values = (str(getattr(self, name[2:].replace("-", "_"))) for name in names)
        pairs = zip(names, values, strict=True)
        return "".join(f" {name} {shlex.quote(words.sanitize(value))}" for name, value in pairs)

    def decision(self) -> Decision | ByLabel | None:
        """The decision that the options name; None: the one that the model makes by itself."""
        if len(self.given) > 1 and set(self.given) != {"--threshold", "--label"}:
            raise CallError(f"{' and '.join(self.given)} are different decisions: give one of them")
        if self.among is not None and self.top is None:
            raise CallError("--among names the rivals of --top K: give both")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise CallError(f"--threshold {self.threshold:g}: a threshold is a probability between 0 and 1")
        if self.label is not None:
            return deciding.labelled(self.label, threshold=self.threshold)
        if self.threshold is not None:
            return deciding.above(self.threshold)
        if self.top is not None:
            return deciding.in_top(self.top, None if self.among is None else rivals_in(self.among))
        if self.rather_than is not None:
            return deciding.rather_than(self.rather_than)
        if self.between is None:
            return None
        try:
            return deciding.between(*deciding.parse_range(self.between))
        except CallError as error:
            raise CallError(f"--between {self.between}: {error}") from None


decision_options = bundled("decide", DecisionOptions)


# A modified history.


_edit = option_fields("Changes to the history")


@dataclass(frozen=True, slots=True)
class EditOptions:
    """Changes to the history."""

    without: str = _edit("Remove these events: 3,7,9", "ROWS", default="", show_default=False)
    without_node: Sequence[str] = _edit("Remove all events of a node. Repeatable.", "NODE")
    without_pair: Sequence[str] = _edit('Remove all events between two nodes: "A B". Repeatable.', "NODES")
    without_day: Sequence[str] = _edit("Remove all events of a day: 2004-07-27. Repeatable.", "DATE")
    without_after: str | None = _edit("Remove all events after this time.", "TIME")
    without_before: str | None = _edit("Remove all events before this time.", "TIME")
    add: Sequence[str] = _edit('Add an event: "SRC DST TIME", with a date, a number or now. Repeatable.', "EVENT")
    move: Sequence[str] = _edit(
        'Move an event to another time: "ROW TIME", or "ROW 1 day earlier". Repeatable.', "EVENT"
    )
    alter: Sequence[str] = _edit(
        'Change features of an event: "ROW FEATURE=NUMBER", with one feature or several. Repeatable.', "EVENT"
    )
    new_node: Sequence[str] = _edit("A node without history, for --add. Repeatable.", "NAME")

    @property
    def are_given(self) -> bool:
        return bool(self.without or {*given(self)} - {"--without", "--new-node"})

    def removed(self, graph: TemporalGraph) -> Removal:
        """The events that are removed."""
        units = {"nodes": self.without_node, "pairs": self.without_pair, "days": self.without_day}
        rows, after, before = parse_rows(self.without), self.without_after, self.without_before
        return without(graph, events=rows, after=after, before=before, **units)

    def edits(self, graph: TemporalGraph) -> tuple[Edit, ...]:
        parsed = ((parse_add, self.add), (parse_move, self.move), (parse_alter, self.alter))
        return tuple(parse(text, graph) for parse, texts in parsed for text in texts)


edit_options = bundled("edits", EditOptions)


# The search space.

_space = section("The search space")
allow_option = _space(
    "--allow", metavar="KINDS", help=f"Kinds of edits, preferred first: {', '.join(EDITS)}. Default: {REMOVE}."
)
protect_option = _space(
    "--protect",
    multiple=True,
    metavar="WHAT",
    help="Events that may not be removed: events=3,7 or nodes=105 or times=2004-07-01..2004-07-28, or simultaneous, "
    "those at the very time of the prediction. Repeatable.",
)
candidates_option = _space(
    "--candidates", type=COUNT, help="Number of candidate events. Default: 64, up to 256 where nothing is found."
)
near_option = _space(
    "--near",
    one_of=NEAR,
    help="Candidates: ends, the latest of each end first (default); the paper's: events on paths, or all among nodes.",
)


def parse_edits(text: str | None) -> tuple[Proposer, ...]:
    """What `--allow` names."""
    try:
        return find_edits(names_in(REMOVE if text is None else text))
    except CallError as error:
        raise CallError(f"--allow {text!r}: {error}") from None


def parse_protected(graph: TemporalGraph, texts: Sequence[str]) -> Protected | None:
    """What `--protect` names, each as kind=values or `simultaneous`. A comma may be part of a node's name."""
    found: dict[str, list[Any]] = {"events": [], "nodes": [], "times": []}
    for text in (text for text in texts if text.strip() != SIMULTANEOUS):
        kind, _, values = text.partition("=")
        if kind not in found or not values.strip(", "):
            forms = f"events=3,7 or nodes=105,9 or times=2004-07-01..2004-07-28 or {SIMULTANEOUS}"
            raise CallError(f"--protect {text!r} is not understood; write {forms}")
        if kind == "events":
            found[kind] += parse_rows(values)
        elif kind == "nodes":
            whole_name = graph.names is not None and values in graph.names.astype(str)
            found[kind] += [values] if whole_name else names_in(values)
        else:
            found[kind].append(_time_range(text, values))
    simultaneous = any(text.strip() == SIMULTANEOUS for text in texts)
    return Protected(**found, simultaneous=simultaneous) if texts else None


def _time_range(text: str, values: str) -> tuple[float, float]:
    """Both ends included; a day as the end is the whole day."""
    begin, dots, end = (part.strip() for part in values.partition(".."))
    if not (begin and dots and end):
        raise CallError(f"--protect {text!r} is not a time range; write times=BEGIN..END")
    first, last = words.parse_moment(begin), words.end_of(end)
    if last < first:
        raise CallError(f"--protect {text!r} ends before it begins")
    return first, last


# What changes together.


_unit = option_fields("The search space")
HELP_OF_RULE = (
    f"Removed events take along those that depend on them: {' or '.join(RULES)}, with a time if it is not one day, "
    'like "reply 1h".'
)


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """What changes together, and what goes along with it."""

    by: str = _unit(
        "What is removed at a time: single events, all events of a pair of nodes, of a neighbour (node), of a "
        "day or an hour, or a session of a source.",
        one_of=UNIT_KINDS,
        default=UNIT_KINDS[0],
    )
    gap: str | None = _unit("With --by session: the pause that ends one, like 30min. Default: 1h.", "TIME")
    with_ends: bool = _unit("With --by node: the two ends of the link are candidates, too.")
    with_dependants: str | None = _unit(HELP_OF_RULE, "RULE")

    @property
    def kind(self) -> UnitKind | None:
        """What is removed at a time; None: single events."""
        try:
            return named_kind(self.by, gap=self.gap, ends=self.with_ends)
        except CallError as error:
            option = "--with-ends" if self.with_ends else f"--gap {self.gap}"
            raise CallError(f"{option}: {error}") from None

    @property
    def rule(self) -> Rule | None:
        """Which events go along; None: none."""
        return None if self.with_dependants is None else rule_in(self.with_dependants)


def rule_in(text: str) -> Rule:
    """The rule that `--with-dependants` names."""
    name, _, within = text.strip().partition(" ")
    try:
        return named_rule(name, within or None)
    except CallError as error:
        raise CallError(f"--with-dependants {text!r}: {error}") from None


unit_options = bundled("units", UnitOptions)


# The search.


_search = section("The search")
scorer_option = _search(
    "--scorer", metavar="FOLDER", help="Folder that cody train-explainer wrote. Default: that of the shipped model."
)


# The work, and the output.

_output = section("Output")
workers_option = _output("--workers", type=whole(1, 1024), default=1, help="Number of processes.")
html_option = _output("--html", type=PAGE, help="Write a page that shows the result to this file.")
csv_option = _output("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
json_option = _output("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """In which forms a result is shown."""

    html: Path | None = given_by(html_option)
    as_csv: bool = given_by(csv_option)
    as_json: bool = given_by(json_option)

    def check(self) -> None:
        """Refuse two forms, and to search for what could not be shown."""
        check_formats(self.as_csv, self.as_json)
        check_page(self.html)

    def print(self, found: Any, columns: Sequence[str], rows: Rows, parts: Iterable[ShownPart]) -> None:
        """Print a result.

        Args:
            found: The result, which makes a document.
            columns: The columns of its csv.
            rows: Its csv.
            parts: What a person sees.
        """
        if self.as_json:
            print_json(found.to_dict())
        elif self.as_csv:
            print_csv(columns, rows)
        else:
            print_parts(parts)


output_options = bundled("output", OutputOptions)

_work = option_fields("Output")


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """Who does the work."""

    workers: int = given_by(workers_option)
    ray: str | None = _work("Run on a Ray cluster: its address, or local.", "ADDRESS")

    def check(self) -> None:
        """Refuse two ways to share the work."""
        if self.ray is not None and self.workers > 1:
            raise CallError("give --workers or --ray, not both")


work_options = bundled("work", WorkOptions)


def check_formats(as_csv: bool, as_json: bool) -> None:
    if as_csv and as_json:
        raise CallError("give --csv or --json, not both")


def check_page(html: Path | None) -> None:
    if html is not None:
        from cody.web import check_page_file

        check_page_file(html)


def write_page(as_html: Callable[[], str], html: Path | None) -> None:
    """Write a page where one is wanted, and say where it is.

    Args:
        as_html: Makes the page.
        html: Its file; None: no page.
    """
    if html is not None:
        from cody.web import write_html

        write_html(as_html(), html)
        say(f"Page: {words.sanitize(html, 200)}")


_figure = option_fields("Output")


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """A figure for a paper."""

    figure: Path | None = _figure("Write a figure for a paper: .pdf, .svg or .png.", type=FIGURE)
    figure_width: float = _figure("Its width in inches: 3.3 for one column, 7 for two.", type=real(1, 40), default=3.3)

    def check(self) -> None:
        """Refuse to search for what could not be drawn."""
        if self.figure is not None:
            from cody.web import check_figure_file

            check_figure_file(self.figure)
        elif not is_left_out("figure_width"):
            raise CallError(f"--figure-width {self.figure_width:g} is the width of a figure: give --figure FILE, too")

    def write(self, draw: Callable[[Path, float], object]) -> None:
        """Draw the figure if one is wanted, and say where it is."""
        if self.figure is not None:
            draw(self.figure, self.figure_width)
            say(f"Figure: {words.sanitize(self.figure, 200)}")


figure_options = bundled("drawing", FigureOptions)
