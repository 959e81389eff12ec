"""Compares the explained predictions with the scores of your own loop, and finds the cause of differences.

    memory_then = copy.deepcopy(memory)            # after training, before your test loop
    scores = …                                     # one for each row, from your test loop
    print(cody.adapters.compare(model, rows, scores, memory=memory_then, since=rows[0]))

Each known cause of a difference is tested: the modules are fed again as a loop with that cause would feed them, alone
and together with others, until each of your scores is reproduced.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cody.adapters.history import Feeding, HistoryModel
from cody.adapters.probabilities import to_logits
from cody.errors import CallError, first_line
from cody.graph import FloatArray, TemporalGraph, check_query
from cody.graph.grid import make_grid, usual_splits
from cody.models.contract import Model, graph_of, logits_of_links
from cody.models.margins import flips
from cody.utils.words import count

MOVED = "the memory was built while the weights still changed"
LAZY = "the events before the test were fed in train() mode"
RESTARTS = "batches start at other rows"
OWN_BATCH = "links see earlier events of their own batch, or do not"
LIBRARY = "LastNeighborLoader and the unstable sort of TGNMemory"
CAUSES = (MOVED, LAZY, RESTARTS, OWN_BATCH, LIBRARY)
TOLERANCE = 1e-4


class Loop(NamedTuple):
    """How a loop feeds and scores a model."""

    feeding: Feeding
    since: int = 0  # the row that the test begins with
    memory: Any = None  # as it was then; None: it is built from the first event on
    lazily: bool = False  # in train() mode until then
    library: bool = False  # with the library's own loader and sort


class Effect(NamedTuple):
    """What a cause does on its own to the scores of the model, over all links."""

    cause: str
    changed: int  # links whose score it changes
    decisions: int  # links whose decision it changes
    worst: float  # the largest difference of a logit
    explains: int  # of the scores that differ, those that need it (perhaps with others) to be reproduced


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Your scores and those of the model, and what explains the difference. `print` shows a table."""

    rows: tuple[int, ...]
    given: FloatArray  # [n] your scores, as logits
    ours: FloatArray  # [n]
    # [n] the fewest causes that lead to your score; (): equal; None: unknown
    causes: tuple[tuple[str, ...] | None, ...]
    effects: tuple[Effect, ...]  # of each cause that was tested
    tolerance: float
    remark: str = ""

    @property
    def agree(self) -> int:
        """How many of your scores agree with the model's."""
        return sum(causes == () for causes in self.causes)

    @property
    def unexplained(self) -> tuple[int, ...]:
        """The rows of scores that no cause explains."""
        return tuple(row for row, causes in zip(self.rows, self.causes, strict=True) if causes is None)

    @property
    def decisions(self) -> int:
        """How many decisions differ."""
        return sum(flips(mine, ours) for mine, ours in zip(self.given.tolist(), self.ours.tolist(), strict=True))

    @property
    def worst(self) -> float:
        return float(np.abs(self.given - self.ours).max(initial=0.0))

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def compare(
    model: Model,
    rows: Sequence[int],
    scores: Any,
    *,
    memory: Any = None,
    since: int | None = None,
    splits: Sequence[int] | None = None,
    probabilities: bool = False,
    tolerance: float = TOLERANCE,
) -> ScoreComparison:
    """Which of your scores agree with the model's, and which causes explain the others.

    Args:
        model: from `pyg.wrap`. For other models only the scores are compared, and for `from_steps` also the batches.
        rows: the events whose links you scored.
        scores: one for each row; logits.
        memory: your `TGNMemory` as it was before you scored the first of them (`copy.deepcopy`), to find out whether
            it was built by other weights than it has now. Without it, that cause is not tested.
        since: the row at which it was like that, where training ended; default: the first of `rows`.
        splits: rows at which your loader starts again, if known; default: the usual ones are tested.
        probabilities: whether the scores are probabilities, after a sigmoid.
        tolerance: how much two logits may differ and count as equal; more for logits above 1 in size, in proportion.
    """
    graph = graph_of(model)
    if graph is None:
        raise CallError("compare needs a model that knows its graph, as those of cody.adapters do")
    wanted, given = _checked(graph, rows, scores, probabilities)
    ours = np.array(logits_of_links(model, [graph.query(row) for row in wanted]))
    frame: Any = getattr(model, "frame", model)  # the model that it is built on
    trial = _LoopScores(frame, graph, wanted, given, ours, tolerance)
    if isinstance(frame, HistoryModel) and not trial.close(given, ours).all():
        start = min(wanted, default=0) if since is None else since
        trial.variants = _variants(frame, graph, wanted, memory, start, splits)
    return trial.result()


def _checked(
    graph: TemporalGraph, rows: Sequence[int], scores: Any, probabilities: bool
) -> tuple[list[int], FloatArray]:
    wanted = [int(row) for row in rows]
    for row in wanted:
        check_query(graph, graph.query(row))
    numbers = scores.detach().cpu().double().numpy() if hasattr(scores, "detach") else scores
    try:
        given = np.asarray(numbers, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise CallError(f"scores must be numbers: {first_line(error)}") from None
    if len(given) != len(wanted):
        raise CallError(f"compare needs one score per row: there are {len(wanted)} rows and {len(given)} scores")
    if not np.isfinite(given).all():
        place = int(np.flatnonzero(~np.isfinite(given))[0])
        raise CallError(f"the score of event {wanted[place]} is {given[place]}; scores must be finite")
    return wanted, to_logits(given) if probabilities else given


def _variants(
    frame: HistoryModel, graph: TemporalGraph, rows: list[int], memory: Any, since: int, splits: Sequence[int] | None
) -> dict[str, list[dict[str, Any]]]:
    """For each cause that can be tested, the forms it may take in a loop."""
    modules, usual = frame.modules, usual_splits(graph)
    guesses = [splits] if splits is not None else [(), usual, (since,), (usual[0], since), (min(rows),)]
    others = dict.fromkeys(make_grid(frame.grid.size, guess) for guess in guesses)  # where a loop's batches may start
    found: dict[str, list[dict[str, Any]]] = {
        RESTARTS: [{"grid": grid} for grid in others if grid != frame.grid],
        OWN_BATCH: [{"sees_own_batch": not frame.feeding.sees_own_batch}],
    }
    if modules is not None and modules.memory is not None:
        found[LAZY] = [{"lazily": True, "since": since}]
        found[MOVED] = [{"memory": memory, "since": since}] if memory is not None else []
    if modules is not None and modules.options.hops == 1:
        found[LIBRARY] = [{"library": True}]
    return {cause: found[cause] for cause in CAUSES if found.get(cause)}


Way = tuple[tuple[str, int], ...]  # causes, and which form of each


@dataclass(slots=True)
class _LoopScores:
    """The scores to reproduce, and those of loops with various causes."""

    frame: HistoryModel
    graph: TemporalGraph
    rows: list[int]
    given: FloatArray
    ours: FloatArray
    tolerance: float
    variants: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    played: dict[Way, FloatArray] = field(default_factory=dict)

    def close(self, one: FloatArray, other: FloatArray) -> Any:
        return np.abs(one - other) <= self.tolerance * np.maximum(1.0, np.abs(other))

    def result(self) -> ScoreComparison:
        """Test loops with more and more causes until one reproduces all scores; otherwise, keep the best."""
        variants, self.played = self.variants, {(): self.ours}
        singles: list[Way] = [((cause, which),) for cause, forms in variants.items() for which in range(len(forms))]
        for single in singles:
            self._play(single)
        for number in range(2, len(variants) + 1):
            for way in self._most_promising(singles, number):
                if self._met(self._best(self.played)).all():
                    break
                self._play(way)
        best = self._best(self.played)
        within = [way for number in range(len(best) + 1) for way in itertools.combinations(best, number)]
        for way in within:
            self._play(way)
        causes = [
            next((_named(way) for way in within if self._met(way)[place]), None) for place in range(len(self.rows))
        ]
        alone = {cause: {way: self.played[way] for way in singles if _named(way) == (cause,)} for cause in variants}
        alone |= {cause: {((cause, which),): self.played[((cause, which),)]} for cause, which in best}
        effects = tuple(self._effect(cause, some[self._best(some)], causes) for cause, some in alone.items())
        return ScoreComparison(tuple(self.rows), self.given, self.ours, tuple(causes), effects, self.tolerance)

    def _most_promising(self, singles: list[Way], number: int) -> list[Way]:
        """Combinations of a number of causes, those first whose parts reproduce most of the scores."""
        ways = [tuple(part for single in some for part in single) for some in itertools.combinations(singles, number)]
        possible = [way for way in ways if len(set(_named(way))) == number and not {MOVED, LAZY} <= set(_named(way))]
        return sorted(possible, key=lambda way: -sum(int(self._met((part,)).sum()) for part in way))

    def _met(self, way: Way) -> Any:
        """Which of the scores a loop reproduces. [n]"""
        return self.close(self.given, self.played[way])

    def _best(self, played: dict[Way, FloatArray]) -> Way:
        """The combination that reproduces most of the scores; among equals the first, which has the fewest causes."""
        return max(played, key=lambda way: int(self.close(self.given, played[way]).sum()))

    def _effect(self, cause: str, scores: FloatArray, causes: Sequence[tuple[str, ...] | None]) -> Effect:
        changed = ~self.close(scores, self.ours)
        pairs = zip(scores[changed].tolist(), self.ours[changed].tolist(), strict=True)
        decided = sum(flips(one, other) for one, other in pairs)
        worst = float(np.abs(scores - self.ours).max(initial=0.0))
        return Effect(cause, int(changed.sum()), decided, worst, sum(cause in (some or ()) for some in causes))

    def _play(self, way: Way) -> None:
        """Compute the scores of a loop with some causes, if that was not done yet."""
        if way in self.played:
            return
        frame, parts = self.frame, [self.variants[cause][which] for cause, which in way]
        options: dict[str, Any] = {name: value for part in parts for name, value in part.items()}
        grid, sees = options.pop("grid", frame.grid), options.pop("sees_own_batch", frame.feeding.sees_own_batch)
        loop = Loop(Feeding(grid, sees), **options)
        if frame.modules is None:
            other = frame.fed(loop.feeding)
            self.played[way] = np.array(logits_of_links(other, [self.graph.query(row) for row in self.rows]))
        else:
            from cody.adapters.loops import play

            self.played[way] = play(frame, self.graph, loop, self.rows)


def _named(way: Way) -> tuple[str, ...]:
    return tuple(cause for cause, _ in way)


def _lines(comparison: ScoreComparison) -> Iterator[str]:
    total = len(comparison.rows)
    equal = f"within {comparison.tolerance:g}, worst difference {comparison.worst:.2g}"
    if comparison.agree == total:
        yield f"All {count(total, 'score')} agree ({equal})."
        return
    yield (
        f"{comparison.agree} of {count(total, 'score')} agree ({equal}); {comparison.decisions} decisions differ; "
        f"{len(comparison.unexplained)} unexplained."
    )
    yield ""
    width = max(len(effect.cause) for effect in comparison.effects) if comparison.effects else 0
    if comparison.effects:
        yield f"{'cause':<{width}}  alone it changes  decisions  worst logit  explains"
    for effect in comparison.effects:
        changed = f"{effect.changed} of {total}"
        figures = f"{changed:>16}  {effect.decisions:>9}  {effect.worst:>11.3g}  {effect.explains:>8}"
        yield f"{effect.cause:<{width}}  {figures}"
    if comparison.unexplained:
        shown = ", ".join(map(str, comparison.unexplained[:8]))
        tried = {effect.cause for effect in comparison.effects}
        hint = "" if MOVED in tried else f" Give memory= to test whether {MOVED}."
        yield ""
        yield f"Unexplained: event {shown}{', …' if len(comparison.unexplained) > 8 else ''}.{hint}"
