"""Generated logs in which the causes of links are known: ten mechanisms, each with the true causes of its links.

A log consists of episodes, hidden among random events. In each episode a few events lead to a link, by a rule:

- `reply`: somebody who was called within the last hour calls back.
- `triadic-closure`: two who both met a third one within a day meet.
- `periodicity`: a visit is repeated a day later, at the same time.
- `contagion`: a friend visited a place, then called; so the called one visits it, too.
- `burst`: whoever has sent three events within ten minutes sends another one.
- `popularity`: a place with three different visitors within the last hour gets another one.
- `redundant`: any call within half an hour makes somebody visit a place, and there were two.
- `joint`: both a call and an invitation by the host are needed.
- `masked`: only the last caller is called back, and a call before it is hidden.
- `confounded`: the host invites two; both visit the place. The first visit precedes the second one, and does not
  cause it: the invitation does.

`cody.models.oracles` has for each mechanism a model that decides by its rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from cody.data.campus import check_sizes, in_order_of_time, numbered
from cody.errors import CallError, did_you_mean
from cody.graph import IntArray, TemporalGraph

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
PERSON, PLACE, HOST = range(3)  # columns of the node features
TOLERANCE = 10 * MINUTE  # of a period
ENOUGH = 3  # events of a burst, visitors of a popular place
BESIDE = 2 * HOUR  # noise beside an episode happens so long before its link
MOST_WAYS = 20  # links with more ways are not asked about

Change = frozenset[int]
Event = tuple[int, int, float]  # source, destination, time


@dataclass(frozen=True, slots=True)
class PlantedCauses:
    """A graph, and the ways in which each link of interest was caused.

    A way is a set of events that together suffice for the link, and of which none can be spared. The link happens as
    long as one way is complete.
    """

    name: str  # of the mechanism, with the options that `planted` reads
    graph: TemporalGraph
    ways: dict[int, tuple[Change, ...]]  # row of the link → its ways

    @property
    def causes(self) -> tuple[Change, ...]:
        """For each event of the graph the rows that caused it; none where that is not known."""
        return tuple(map(self.causes_of, range(self.graph.num_events)))

    def causes_of(self, row: int) -> Change:
        """All events of all ways of a link; none where they are not known."""
        return frozenset[int]().union(*self.ways.get(row, ()))

    def counterfactuals(self, row: int) -> tuple[Change, ...]:
        """The smallest sets, none contained in another, without which a link would not have happened."""
        found: list[Change] = []
        causes = sorted(self.causes_of(row))
        for size in range(1, len(causes) + 1):
            for some in map(frozenset, combinations(causes, size)):
                if all(some & way for way in self.ways[row]) and not any(known <= some for known in found):
                    found.append(some)
        return tuple(found)


def mechanism(
    name: str, *, people: int = 40, places: int = 8, episodes: int = 100, noise: float = 1.0, seed: int = 0
) -> PlantedCauses:
    """A generated log in which links are caused by one mechanism.

    Args:
        name: One of `MECHANISMS`.
        people: At least 6.
        places: At least 2.
        episodes: How many times the mechanism causes a link; at least 1.
        noise: Random events, as a share of those of the episodes. Half of them happen beside the episodes, to the two
            nodes of the link shortly before it.
        seed: The same seed gives the same log.

    >>> made = mechanism("redundant", episodes=20)
    >>> row = next(iter(made.ways))
    >>> [len(way) for way in made.ways[row]], [len(change) for change in made.counterfactuals(row)]
    ([1, 1], [2])
    """
    if name not in MECHANISMS:
        raise CallError(f"there is no mechanism {name!r}{did_you_mean(name, MECHANISMS)}")
    check_sizes(noise, people=(people, 6), places=(places, 2), episodes=(episodes, 1))
    rng = np.random.default_rng([seed, MECHANISMS.index(name)])
    episode, span = _RULES[name].episode, episodes * DAY / 8
    log: list[Event] = []
    links: list[int] = []  # their positions
    for _ in range(episodes):
        persons = rng.permutation(people)[:5].tolist()
        place = people + int(rng.integers(places))
        events = list(episode(rng, float(rng.uniform(2 * DAY, 2 * DAY + span)), persons, place, people + places))
        log += [*_beside(rng, events[-1], people, noise * len(events) / 2), *events]
        links.append(len(log) - 1)
    count = round(noise * len(log) / 2)
    src, time = rng.integers(people, size=count), rng.uniform(0, 2 * DAY + span, count)
    dst = (src + rng.integers(1, people + places - 1, size=count)) % (people + places)
    log += zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)
    text = _named(name, people=people, places=places, episodes=episodes, noise=noise, seed=seed)
    return replace(_finish(name, log, links, people, places), name=text)


def planted(text: str) -> PlantedCauses:
    """The log that a text names: a mechanism and, where they differ from the defaults, sizes, noise and seed.

    >>> planted("reply people=20 noise=0.5").name
    'reply people=20 noise=0.5'
    """
    name, *given = text.split()
    usual = inspect.signature(mechanism).parameters
    options: dict[str, Any] = {}
    for option, _, value in (each.partition("=") for each in given):
        try:
            options[option] = type(usual[option].default)(value)
        except (KeyError, ValueError, TypeError):
            known = ", ".join(each for each in usual if each != "name")
            raise CallError(f"{text!r}: {option}={value} is no option of a mechanism; there are {known}") from None
    return mechanism(name, **options)


def _named(name: str, **options: float) -> str:
    """The text of which `planted` makes the same log."""
    usual = inspect.signature(mechanism).parameters
    changed = (f" {option}={value}" for option, value in options.items() if value != usual[option].default)
    return name + "".join(changed)


def _beside(rng: np.random.Generator, link: Event, people: int, expected: float) -> Iterator[Event]:
    """Random events of the two nodes of a link, shortly before it."""
    src, dst, time = link
    for _ in range(rng.poisson(expected)):
        other, when = int(rng.integers(people)), time - rng.uniform(0, BESIDE)
        if other not in (src, dst):
            yield (src, other, when) if src < people and rng.random() < 0.5 else (other, dst, when)


def _finish(name: str, log: list[Event], links: list[int], people: int, places: int) -> PlantedCauses:
    src, dst, time = (np.array(column) for column in zip(*log, strict=True))
    order, row_of, seconds = in_order_of_time(time)
    kinds = {"person": people, "place": places, "host": 1}
    features = np.eye(3)[np.repeat([PERSON, PLACE, HOST], [*kinds.values()])]
    graph = TemporalGraph.from_arrays(src[order], dst[order], seconds, node_features=features, names=numbered(kinds))
    known = {row: ways_of(name, graph, row) for row in sorted(row_of[links].tolist())}
    return PlantedCauses(name, graph, {row: ways for row, ways in known.items() if 0 < len(ways) <= MOST_WAYS})


def ways_of(name: str, graph: TemporalGraph, row: int) -> tuple[Change, ...]:
    """The ways in which a mechanism causes an event of a log.

    Args:
        name: The mechanism.
        graph: A log that `mechanism` made.
        row: The event.
    """
    rows = np.arange(row)
    rows = rows[graph.time[row] - graph.time[:row] <= _RULES[name].window]
    return tuple(dict.fromkeys(map(frozenset, _RULES[name].ways(PastOfLink(graph, row, rows)))))


@dataclass(frozen=True, slots=True)
class PastOfLink:
    """The events of the window before a link."""

    graph: TemporalGraph
    row: int
    rows: IntArray

    @property
    def src(self) -> int:
        return int(self.graph.src[self.row])

    @property
    def dst(self) -> int:
        return int(self.graph.dst[self.row])

    def between(self, src: int | None = None, dst: int | None = None, kind: int | None = None) -> list[int]:
        """The rows of some of these events.

        Args:
            src: The source; None: any.
            dst: The destination; None: any.
            kind: What the source is: `PERSON` or `HOST`; None: anything.
        """
        graph, rows = self.graph, self.rows
        assert graph.node_features is not None
        fits = np.ones(len(rows), dtype=bool) if src is None else graph.src[rows] == src
        fits = fits if dst is None else fits & (graph.dst[rows] == dst)
        fits = fits if kind is None else fits & (graph.node_features[graph.src[rows], kind] > 0)
        return rows[fits].tolist()


Ways = Iterable[Iterable[int]]


def _called_back(past: PastOfLink) -> Ways:
    return ([row] for row in past.between(past.dst, past.src))


def _met_a_third(past: PastOfLink) -> Ways:
    ends: list[dict[int, list[int]]] = [{}, {}]  # of each end: whom it met, and when
    for row in past.rows.tolist():
        for met, node, other in zip(ends, (past.src, past.dst), (past.dst, past.src), strict=True):
            pair = {int(past.graph.src[row]), int(past.graph.dst[row])}
            if node in pair and other not in pair:
                met.setdefault((pair - {node}).pop(), []).append(row)
    return (way for third in ends[0].keys() & ends[1].keys() for way in product(ends[0][third], ends[1][third]))


def _a_day_ago(past: PastOfLink) -> Ways:
    elapsed = {row: past.graph.time[past.row] - past.graph.time[row] for row in past.between(past.src, past.dst)}
    return ([row] for row, seconds in elapsed.items() if abs(seconds - DAY) <= TOLERANCE)


def _friend_was_there(past: PastOfLink) -> Ways:
    for call in past.between(dst=past.src, kind=PERSON):
        friend = int(past.graph.src[call])
        yield from ((visit, call) for visit in past.between(friend, past.dst) if visit < call)


def _three_sent(past: PastOfLink) -> Ways:
    return combinations(past.between(past.src), ENOUGH)


def _three_visitors(past: PastOfLink) -> Ways:
    visits = combinations(past.between(dst=past.dst, kind=PERSON), ENOUGH)
    return (some for some in visits if len(set(past.graph.src[list(some)].tolist())) == ENOUGH)


def _called(past: PastOfLink) -> Ways:
    return ([row] for row in past.between(dst=past.src, kind=PERSON))


def _called_and_invited(past: PastOfLink) -> Ways:
    return product(past.between(dst=past.src, kind=PERSON), past.between(dst=past.src, kind=HOST))


def _called_last(past: PastOfLink) -> Ways:
    """Nothing if the same one has called twice: which of the calls counts depends on the others."""
    calls = past.between(dst=past.src, kind=PERSON)
    own = [row for row in calls if past.graph.src[row] == past.dst]
    return [own] if len(own) == 1 and own == calls[-1:] else []


def _invited(past: PastOfLink) -> Ways:
    return ([row] for row in past.between(dst=past.src, kind=HOST))


# An episode: random generator, time, five persons, a place, the host → its events, the link last.
Episode = Callable[[np.random.Generator, float, list[int], int, int], Iterable[Event]]


def _reply(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    caller, called, *_ = persons
    return [(caller, called, time), (called, caller, time + rng.uniform(5, 55) * MINUTE)]


def _closure(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    one, other, third, *_ = persons
    first, second = rng.uniform(1, 10, 2) * HOUR
    return [(third, one, time + first), (other, third, time + second), (one, other, time + rng.uniform(11, 20) * HOUR)]


def _repeated(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    another = time + rng.uniform(2, 20) * HOUR  # at another time of the day
    again = time + DAY + rng.uniform(-8, 8) * MINUTE
    return [(persons[0], place, time), (persons[0], place, another), (persons[0], place, again)]


def _spread(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    friend, person, *_ = persons
    call, visit = np.cumsum(rng.uniform(0.5, 2.5, 2)) * HOUR
    return [(friend, place, time), (friend, person, time + call), (person, place, time + visit)]


def _sent(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    times = time + np.sort(rng.uniform(0, 9, int(rng.integers(ENOUGH, ENOUGH + 2)) + 1)) * MINUTE
    return [(persons[0], persons[1 + number % 4], when) for number, when in enumerate(times.tolist())]


def _crowd(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    times = time + np.sort(rng.uniform(0, 55, int(rng.integers(ENOUGH, ENOUGH + 2)) + 1)) * MINUTE
    return [(person, place, when) for person, when in zip(persons, times.tolist(), strict=False)]


def _twice(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    person, one, other, *_ = persons
    first, second = rng.uniform(0, 20, 2) * MINUTE
    return [(one, person, time + first), (other, person, time + second), (person, place, time + 25 * MINUTE)]


def _both(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    person, friend, *_ = persons
    first, second = rng.uniform(0, 45, 2) * MINUTE
    return [(friend, person, time + first), (host, person, time + second), (person, place, time + 50 * MINUTE)]


def _hidden(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    called, hidden, last, *_ = persons
    call, answer = np.cumsum(rng.uniform(2, 25, 2)) * MINUTE
    return [(hidden, called, time), (last, called, time + call), (called, last, time + answer)]


def _side_effect(rng: np.random.Generator, time: float, persons: list[int], place: int, host: int) -> Iterable[Event]:
    person, other, *_ = persons
    second, first_visit, visit = np.cumsum(rng.uniform(1, 15, 3)) * MINUTE
    invited = [(host, person, time), (host, other, time + second)]
    return [*invited, (other, place, time + first_visit), (person, place, time + visit)]


class _Mechanism(NamedTuple):
    """A rule, and how events that follow it are made."""

    window: float  # seconds: how far back the rule looks
    ways: Callable[[PastOfLink], Ways]
    episode: Episode


_RULES = {
    "reply": _Mechanism(HOUR, _called_back, _reply),
    "triadic-closure": _Mechanism(DAY, _met_a_third, _closure),
    "periodicity": _Mechanism(DAY + TOLERANCE, _a_day_ago, _repeated),
    "contagion": _Mechanism(6 * HOUR, _friend_was_there, _spread),
    "burst": _Mechanism(10 * MINUTE, _three_sent, _sent),
    "popularity": _Mechanism(HOUR, _three_visitors, _crowd),
    "redundant": _Mechanism(HOUR / 2, _called, _twice),
    "joint": _Mechanism(HOUR, _called_and_invited, _both),
    "masked": _Mechanism(HOUR, _called_last, _hidden),
    "confounded": _Mechanism(HOUR, _invited, _side_effect),
}
MECHANISMS = tuple(_RULES)
