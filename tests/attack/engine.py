"""The fast engine answers as plain replay does, whatever is asked, in whatever order, as often as one likes."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from attack.finding import expect
from attack.things import Generator, double_engine, odd_changes, odd_edits, odd_graph, odd_network, odd_query
from cody.engine import FastTGAT, FastTGN, Replay, fast, fast_model
from cody.engine.weights import Weights
from cody.graph import FloatArray, Query, TemporalGraph
from cody.models.contract import Change, Session

Questions = list[tuple[Query, list[Change]]]
ROUNDING = 1e-9  # of double precision
SINGLE_ROUNDING = 1e-4  # of a table in single precision


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    happened = odd_graph(rng)
    network = Weights.of(odd_network(rng, happened))
    graph = happened.imagine(odd_edits(rng, happened)) if rng.random() < 0.5 else happened
    queries = [odd_query(rng, graph) for _ in range(3)]
    questions = [(query, odd_changes(rng, graph, query)) for query in queries]
    plain = Replay(network, graph, dtype=np.float64)
    expected = [plain.logits(query, changes) for query, changes in questions]
    _compare_to_what_happened(network, graph, questions, expected)
    model = double_engine(network, happened).on(graph)
    for (query, changes), right in zip(questions, expected, strict=True):
        _compare("differs from replay", query, changes, model.logits(query, changes), right)
    small = int(rng.choice([fast.NUMBERS_KEPT, 1000, 1]))  # what is remembered is dropped all the time
    with patch.object(fast, "NUMBERS_KEPT", small):
        _interleaved(rng, [model.session(query) for query in queries], questions, expected)
    _some_rows(rng, model, plain, queries)
    _usual_precision(network, graph, questions, expected)
    _only(network, graph, questions, expected)


def _compare(
    fault: str, query: Query, changes: list[Change], answers: FloatArray, right: FloatArray, rounding: float = ROUNDING
) -> None:
    for change, answer, expected in zip(changes, answers, right, strict=True):
        same = abs(answer - expected) <= rounding * max(1.0, abs(expected))  # no NaN is
        expect(same, f"engine: an answer {fault}", f"{query} with {sorted(change)}: {answer}, not {expected}")


def _interleaved(rng: Generator, sessions: list[Session], questions: Questions, expected: list[FloatArray]) -> None:
    """Sessions in turn, their sets in another order and in smaller parts, some of them twice."""
    for number in rng.integers(0, len(questions), 6):
        query, changes = questions[number]
        places = rng.integers(0, len(changes), rng.integers(1, 5))
        asked = [changes[place] for place in places]
        again = sessions[number].logits(asked)
        _compare("depends on what was asked before", query, asked, again, expected[number][places])


def _some_rows(rng: Generator, model: FastTGN | FastTGAT, plain: Replay, queries: list[Query]) -> None:
    """A session opened on a few rows, that are all that changes: what they cannot reach is not looked at."""
    for query in queries:
        past = [*range(query.before), *model.graph.imagined_before(query).tolist()]
        rows = rng.choice(past, min(len(past), int(rng.integers(1, 6))), replace=False).tolist() if past else []
        changes = [frozenset(rows), *(frozenset({row}) for row in rows)]
        answers = model.session(query, rows).logits(changes)
        _compare(
            "of a session about some rows differs from replay", query, changes, answers, plain.logits(query, changes)
        )


def _usual_precision(network: Weights, graph: TemporalGraph, questions: Questions, expected: list[FloatArray]) -> None:
    """As users have it: in double precision but for the table. A fresh engine, and the last question first."""
    model = fast_model(network, graph)
    for (query, changes), right in zip(questions[::-1], expected[::-1], strict=True):
        answers = model.logits(query, changes)
        _compare("in usual precision differs from replay", query, changes, answers, right, SINGLE_ROUNDING)


def _only(network: Weights, graph: TemporalGraph, questions: Questions, expected: list[FloatArray]) -> None:
    """A past that consists of a few events, asked for in the short way, is all others removed."""
    model = double_engine(network, graph)
    for (query, changes), right in zip(questions, expected, strict=True):
        for change, answer in [(change, answer) for change, answer in zip(changes, right, strict=True)][:3]:
            if max(change, default=0) < graph.num_events:
                only = np.array([model.only(query, frozenset(range(query.before)) - change)])
                _compare("with only some events differs from replay", query, [change], only, answer[None])


def _compare_to_what_happened(
    network: Weights, graph: TemporalGraph, questions: Questions, expected: list[FloatArray]
) -> None:
    """Imagined events count as if they had happened: the same question of a log that says so has the same answer.

    Only where the grid of batches does not matter: a log with another number of rows has another grid.
    """
    if graph.imagined is None:
        return
    for (query, changes), right in zip(questions, expected, strict=True):
        for change, answer in zip(changes, right, strict=True):
            rows = _happening(graph, query, change)
            one_batch = network.sizes.batch > query.before and network.sizes.batch >= len(rows)
            if rows and (one_batch or not network.has_memory):
                real = _log_of(graph, rows, query)
                asked = query._replace(before=len(rows))
                again = Replay(network, real, dtype=np.float64).logits(asked, [frozenset()])
                _compare("is not that of the log in which it happened", query, [change], again, answer[None])


def _happening(graph: TemporalGraph, query: Query, change: Change) -> list[int]:
    """What a query sees, in order; nothing if two imagined rows of the change stand for the same event."""
    assert graph.imagined is not None
    wanted = [row - graph.num_events for row in sorted(change) if row >= graph.num_events]
    replaced = [int(graph.imagined.replaces[number]) for number in wanted if graph.imagined.replaces[number] >= 0]
    if len(set(replaced)) < len(replaced):
        return []
    order = {(row, 1, 0.0, 0): row for row in range(query.before) if row not in change and row not in replaced}
    for number in wanted:
        place, time = int(graph.imagined.next_real[number]), float(graph.imagined.time[number])
        takes_its_place = place == graph.imagined.replaces[number]  # an altered event is where it was
        if place + takes_its_place <= query.before and time <= query.time:
            order[(place, 0, time, number)] = graph.num_events + number
    return [order[key] for key in sorted(order)]


def _log_of(graph: TemporalGraph, rows: list[int], query: Query) -> TemporalGraph:
    """A log of these rows, and the query's own link, which it does not see."""
    features = graph.features_of(np.array(rows))
    return TemporalGraph.from_arrays(
        [*graph.src[rows], query.src],
        [*graph.dst[rows], query.dst],
        [*graph.time[rows], query.time],
        features=None if features is None else np.concatenate([features, np.zeros_like(features[:1])]),
        node_features=graph.node_features,
        num_nodes=graph.num_nodes,
    )
