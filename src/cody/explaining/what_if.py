"""What if: score links under changed histories."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError, did_you_mean, first_line
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, warn_if_long_after
from cody.graph.dependants import Rule
from cody.graph.edits import Add, Alter, Edit, Move
from cody.graph.neighbourhood import SIZE, candidates, ends_first
from cody.graph.units import Unit, UnitKind
from cody.models import contract
from cody.models.contract import Change, Model
from cody.models.decided import decide, decision_in, decision_of, states_of
from cody.models.deciding import ByLabel, above
from cody.models.decision import Decision, State
from cody.search.space import NearUnits
from cody.utils.words import count, is_date, moment_and_zone, parse_moment

MANY_EVENTS = 2_000  # that one scenario changes


class Scenario(NamedTuple):
    """A link, and what is changed: rows that did not happen, and edits."""

    query: Query
    event: int | None  # the row of the event, if the link is one that happened
    removed: Change = frozenset()
    edits: tuple[Edit, ...] = ()
    names: tuple[str, ...] = ()  # what is removed, in words, where it is more than a few rows
    dependants: Change = frozenset()  # those of the removed rows that went along by a rule


def each_unit(model: Model, graph: TemporalGraph, query: Query, by: UnitKind | None, rule: Rule | None) -> list[Unit]:
    """The units near a link, each with all its events before it and what goes along with them, the nearest first.

    Args:
        model: On that graph.
        graph: The log.
        query: The link.
        by: What changes together; None: single events.
        rule: Which events go along; None: none.
    """
    near = NearUnits(graph, contract.as_seen(model, graph, query), contract.reach(model), ends_first, None, by, rule)
    return list(near.of_size(SIZE).values())


class Effects(NamedTuple):
    """The effect of single past events on the score of a link."""

    query: Query
    logit: float  # with nothing changed
    candidates: IntArray  # [m] past events near the link
    without: FloatArray  # [m] the logit without each of them


def near(model: Model, graph: TemporalGraph, query: Query) -> IntArray:
    """The past events near a link that its model can see, in the order of time.

    Args:
        model: On that graph.
        graph: The log.
        query: The link.
    """
    return candidates(graph, contract.as_seen(model, graph, query))


def effects(model: Model, graph: TemporalGraph, query: Query) -> Effects:
    """The scores of a link without each of its candidates, one at a time.

    Args:
        model: On that graph.
        graph: The log.
        query: The link.
    """
    rows = near(model, graph, query)
    changes: list[Change] = [frozenset(), *(frozenset({row}) for row in rows.tolist())]
    session = contract.open_session(model, query, rows.tolist())
    original, *without = contract.checked_logits(query, changes, session.logits(changes))
    return Effects(query, original, rows, np.array(without))


class DecidedCase(NamedTuple):
    """What is decided in a scenario."""

    decision: Decision
    state: State

    @property
    def margin(self) -> float:
        assert self.state.margin is not None  # there is no budget that could run out
        return self.state.margin


def answer_cases(
    model: Model, graph: TemporalGraph, cases: Sequence[Scenario], *, new_nodes: Sequence[Any] = ()
) -> list[float]:
    """The logit of each case, in their order. Cases of the same link are scored together.

    Args:
        model: A model of the graph; it must support longer logs if a case has edits.
        graph: The log.
        cases: Links with changes.
        new_nodes: Names of nodes that edits may add.
    """
    return [case.margin for case in decide_cases(model, graph, cases, above(), new_nodes=new_nodes)]


def decide_cases(
    model: Model,
    graph: TemporalGraph,
    cases: Sequence[Scenario],
    decision: Decision | ByLabel | None = None,
    *,
    new_nodes: Sequence[Any] = (),
) -> list[DecidedCase]:
    """What is decided in each case, in their order. Cases of the same link are scored together.

    Args:
        model: A model of the graph; it must support longer logs if a case has edits.
        graph: The log.
        cases: Links with changes.
        decision: As in `cody.explain`.
        new_nodes: Names of nodes that edits may add.
    """
    contract.check_changes(graph, [case.removed for case in cases])
    numbered = [_numbered(case) for case in cases]
    edits = list(dict.fromkeys(edit for some in numbered for edit in some))
    if edits or new_nodes:
        graph = graph.imagine([edit for edit, _ in edits], new_nodes=new_nodes)
        model = contract.model_on(model, graph)
    row_of = {edit: graph.num_events + place for place, edit in enumerate(edits)}
    places = defaultdict(list)
    for place, case in enumerate(cases):
        places[case.query].append(place)
    decided: dict[int, DecidedCase] = {}
    for query, same in places.items():
        changes = [cases[place].removed.union(row_of[edit] for edit in numbered[place]) for place in same]
        chosen = decision_of(model, query, decision)
        margins = decide(model, graph, query, chosen)
        states = zip(same, _states(margins, query, changes, chosen), strict=True)
        decided |= {place: DecidedCase(decision_in(margins) or chosen, state) for place, state in states}
    return [decided[place] for place in range(len(cases))]


def _states(model: Model, query: Query, changes: Sequence[Change], decision: Decision) -> list[State]:
    """The decision under some changes. Without thousands of events, a replay of the others takes least."""
    many = {change for change in changes if len(change) > MANY_EVENTS and not decision.has_standing}
    few = [change for change in changes if change not in many]
    known = dict(zip(few, states_of(model, query, few), strict=True)) if few else {}
    for change in many:
        reference, _ = contract.verifier_for(model, query, change)
        known[change] = State(contract.checked_logits(query, [change], reference.logits(query, [change]))[0])
    return [known[change] for change in changes]


def _numbered(case: Scenario) -> list[tuple[Edit, int]]:
    """The edits of a case; each with how many equal ones come before it, since an event may be added twice."""
    once = set(case.removed)
    for edit in case.edits:
        if isinstance(edit, Add):
            continue
        if edit.row in once:
            raise CallError(f"event {edit.row} is changed twice; it can be left out, moved or altered, and only once")
        once.add(edit.row)
    return [(edit, case.edits[:place].count(edit)) for place, edit in enumerate(case.edits)]


def parse_rows(text: str) -> list[int]:
    """The rows in a list separated by commas or white space.

    >>> parse_rows("9, 3,7")
    [9, 3, 7]
    """
    words = text.replace(",", " ").split()
    for word in words:
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            where = "" if word == text else f" (in {text[:40]!r})"
            raise CallError(f"{word[:40]!r} is not an event row{where}; rows are whole numbers, separated by commas")
    return [int(word) for word in words]


def read_rows(text: str) -> list[int]:
    """The rows in a list, or in the file of that name if it is not a list."""
    if not text.strip(" ,0123456789"):
        return parse_rows(text)
    try:
        return parse_rows(Path(text).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        if isinstance(error, CallError):
            raise
        neither = f"{text[:60]!r} is neither a list of event rows nor a file that can be read"
        raise CallError(f"{neither}: {first_line(error)}") from None


def parse_add(text: str, graph: TemporalGraph | None = None) -> Add:
    """An event that did not happen, as a person types it: source, destination, and when.

    With a graph, the time may also be now or end, that of its last event.

    >>> parse_add("1395 1772 2004-07-28 04:00")
    Add(src='1395', dst='1772', time=1090987200.0, features=None)
    """
    src, dst, *when = _words("--add", text, 3)
    try:
        return Add(src, dst, parse_moment(" ".join(when)) if graph is None else graph.when(" ".join(when)))
    except CallError as error:
        hint = f"--add {text[:60]!r}: {error}; a name with spaces needs quotes of its own"
        raise CallError(hint if len(when) > 1 else str(error)) from None


def parse_move(text: str, graph: TemporalGraph | None = None) -> Move:
    """An event at another time, as a person types it: its row, and when.

    With a graph, the time may also be now or end, or how much earlier or later than it was.

    >>> parse_move("53159 2004-07-28 04:00")
    Move(row=53159, time=1090987200.0)
    >>> graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1090987200, 1090990800])
    >>> parse_move("1 1 day earlier", graph)
    Move(row=1, time=1090904400.0)
    """
    row, when = _row_and_words("--move", text)
    time = " ".join(when)
    if graph is None:
        return Move(row, parse_moment(time))
    if SHIFT.fullmatch(time.strip()) is None:
        return Move(row, graph.when(time))
    try:
        return Move(row, later_time(time, graph.query(row).time, graph))
    except CallError as error:
        raise CallError(f"--move {text[:60]!r}: {error}") from None


def later_time(text: str, was: float, graph: TemporalGraph) -> float:
    """A time as a person types it, or how much earlier or later than another.

    Args:
        text: Such as "2004-07-28 04:00" or "1 day later".
        was: The other time.
        graph: The log of events.

    >>> later_time("1 day later", 1090904400.0, TemporalGraph.from_arrays([0], [1], [1090904400.0]))
    1090990800.0
    """
    found = SHIFT.fullmatch(text.strip())
    if found is None:
        return graph.when(text)
    unit, sign = (found[2] or "").lower(), -1 if found[3].lower() == "earlier" else 1
    if unit and not is_date(was):
        raise CallError(f"the times of these events are not dates, and have no {unit}s")
    return was + sign * float(found[1]) * UNITS.get(unit, 1.0)


def parse_alter(text: str, graph: TemporalGraph) -> Alter:
    """An event with other features, as a person types it: its row, and what is different.

    >>> graph = TemporalGraph.from_arrays([0], [1], [5.0], features=[[-10, 2]], feature_names=["rating", "weight"])
    >>> parse_alter("0 rating=10", graph)
    Alter(row=0, features=(10.0, 2.0))
    """
    row, changes = _row_and_words("--alter", text)
    given = dict(_feature_and_value(change, text) for change in changes)
    if len(given) < len(changes):
        raise CallError(f"--alter {text[:60]!r} names a feature twice")
    return altered(graph, row, given)


def altered(graph: TemporalGraph, row: int, given: dict[str, float]) -> Alter:
    """An event with other values of some features.

    Args:
        graph: The log.
        row: Of the event.
        given: Names of features, and their new values.
    """
    names, query = graph.names_of_features(), graph.query(row)
    if graph.features is None:
        advice = "cody data import --features stores columns"
        raise CallError(f"the events of these data have no features to alter; {advice}")
    unknown = [name for name in given if name not in names]
    if unknown:
        raise CallError(f"events have no feature {unknown[0][:60]!r}{did_you_mean(unknown[0], names)}")
    values = zip(names, graph.features[query.before].tolist(), strict=True)
    return Alter(row, tuple(given.get(name, value) for name, value in values))


def _feature_and_value(text: str, whole: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        number = float(value.replace("−", "-"))
    except ValueError:
        number = math.nan
    if not equals or not name or not math.isfinite(number):
        raise CallError(f"--alter {whole[:60]!r}: {text[:40]!r} is not FEATURE=NUMBER, for example rating=10")
    return name, number


UNITS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
SHIFT = re.compile(rf"(\d+(?:\.\d+)?)(?: +({'|'.join(UNITS)})s?)? +(earlier|later)", re.IGNORECASE)


def unseen(
    graph: TemporalGraph, query: Query, edit: Edit, new_nodes: Sequence[Any] = (), what: str = "the link"
) -> str:
    """A remark about an edit that has no effect because it does not lie before the link; else empty.

    Args:
        graph: The log.
        query: The link.
        edit: Of an event.
        new_nodes: Names of nodes that the edit may add.
        what: How the remark names the link.
    """
    if isinstance(edit, Alter):
        after = edit.row >= query.before
        return f"event {edit.row} does not lie before {what}: altering it changes nothing" if after else ""
    longer = graph.imagine([edit], new_nodes=new_nodes)
    if longer.num_events in longer.imagined_before(query):
        return ""
    when = moment_and_zone(float(longer.time[longer.num_events]))
    if isinstance(edit, Add):
        return f"{edit.src} → {edit.dst} at {when} does not lie before {what}: adding it changes nothing"
    if edit.row >= query.before:
        return f"event {edit.row} does not lie before {what}, nor does {when}: moving it changes nothing"
    return f"{when} does not lie before {what}: moving event {edit.row} there removes it"


def without_effect(
    graph: TemporalGraph, case: Scenario, new_nodes: Sequence[Any] = (), about: str = "the link"
) -> Iterator[str]:
    """Remarks about changes that the prediction does not see, because they do not lie before it.

    Args:
        graph: The log.
        case: The link and the changes.
        new_nodes: Names of nodes that edits may add.
        about: How a remark names a link that is no event.
    """
    later = sorted(row for row in case.removed if case.query.before <= row < graph.num_events)
    if own := case.event in case.removed and len(case.removed) > 1:
        yield f"event {case.event} itself is one of them: it is what is scored, whether it happens or not"
    what = about if case.event is None else f"event {case.event}"
    if len(later) == 1 and not own:
        yield f"event {later[0]} does not lie before {what}: leaving it out changes nothing"
    elif len(later) > 1:
        some = f"{len(later):,} of {count(len(case.removed), graph.name_of_event())}, from {later[0]} on,"
        yield f"{some} do not lie before {what}: leaving them out changes nothing"
    yield from filter(None, (unseen(graph, case.query, edit, new_nodes, what) for edit in case.edits))


def _words(option: str, text: str, least: int) -> list[str]:
    try:
        words = shlex.split(text)  # a name with spaces may be in quotes
    except ValueError:
        words = []
    if len(words) < least:
        form = {"--add": '"SRC DST TIME"', "--move": '"ROW TIME"', "--alter": '"ROW FEATURE=NUMBER"'}[option]
        raise CallError(f"{option} {text[:60]!r} is not understood; write {option} {form}")
    return words


def _row_and_words(option: str, text: str) -> tuple[int, list[str]]:
    """The row with which the words of an option begin, and the other words."""
    first, *others = _words(option, text, 2)
    if not first.strip(", "):
        raise CallError(f"{option} {text[:60]!r} does not start with the row of an event")
    return parse_rows(first)[0], others


def read_cases(path: Path, graph: TemporalGraph) -> list[Scenario]:
    """The cases in a JSON file, a list of objects; keys other than these are ignored.

    `"event": row`, or `"src"`, `"dst"` and `"time"`; `"removed": [rows]`; `"added": [[src, dst, time], …]`; `"moved":
    [[row, time], …]`; `"altered": [[row, {feature: number}], …]`.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CallError(f"{path} is not JSON: {first_line(error)}") from None
    if isinstance(document, dict):
        document = document.get("cases")
    if not isinstance(document, list):
        raise CallError(f'{path} must hold a list of {{"event": row, "removed": [rows]}}')
    cases = [_case(entry, f"{path}, case {number}", graph) for number, entry in enumerate(document)]
    if cases:
        warn_if_long_after(graph, max(case.query.time for case in cases))  # once for all of them
    return cases


def _case(entry: object, where: str, graph: TemporalGraph) -> Scenario:
    is_link = isinstance(entry, dict) and {"src", "dst", "time"} <= entry.keys()
    changes_something = isinstance(entry, dict) and {"removed", "added", "moved", "altered"} & entry.keys()
    if not isinstance(entry, dict) or not changes_something or not (is_link or "event" in entry):
        raise CallError(f'{where}: expected {{"event": row, "removed": [rows]}}, not {json.dumps(entry)[:80]}')
    removed, added, moved = (_list(entry.get(key, []), key, where) for key in ("removed", "added", "moved"))
    if not (is_link or type(entry["event"]) is int) or not all(type(row) is int for row in removed):
        raise CallError(f"{where}: event and removed must be whole numbers, not {json.dumps(entry)[:80]}")
    edits: list[Edit] = []
    for parts, kind, length in ((added, Add, 3), (moved, Move, 2)):
        for part in parts:
            if not isinstance(part, list) or len(part) != length:
                form = "[src, dst, time]" if kind is Add else "[row, time]"
                raise CallError(f"{where}: expected {form}, not {json.dumps(part)[:80]}")
            edits.append(kind(*part))
    edits += [_altered(part, where, graph) for part in _list(entry.get("altered", []), "altered", where)]
    event = None if is_link else entry["event"]
    query = graph.query_at(entry["src"], entry["dst"], entry["time"]) if event is None else graph.query(event)
    return Scenario(query, event, frozenset(removed), tuple(edits))


def _altered(part: Any, where: str, graph: TemporalGraph) -> Alter:
    fits = isinstance(part, list) and len(part) == 2 and type(part[0]) is int and isinstance(part[1], dict)
    if not fits or not all(type(value) in (int, float) for value in part[1].values()):
        raise CallError(f"{where}: expected [row, {{feature: number}}], not {json.dumps(part)[:80]}")
    return altered(graph, part[0], part[1])


def _list(value: object, key: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise CallError(f"{where}: {key} must be a list, not {json.dumps(value)[:80]}")
    return value
