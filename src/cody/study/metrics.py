"""How good explanations are: plain functions of records, one number each, None where there is nothing to measure.

N records, each about one link; X is the explanation of a link, C its candidates. A metric takes records,
or their `columns`; given the columns of S bootstrap samples it gives an array of S numbers instead of one.

Some projects call fidelity- what is fidelity+ here, and the fidelity- of PyTorch Geometric is one minus ours: go by the
formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, TypeVar, cast

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray
from cody.models.margins import shift
from cody.study.record import Failure, Record

AT_ONCE = 2_000_000  # counts of a bootstrap held at the same time


@dataclass(frozen=True, slots=True)
class MetricInputs:
    """What the metrics need to know about N records."""

    sparsity: FloatArray  # [N] |X| / |C|
    necessary: FloatArray  # [N] 1 where the decision changes without X, else 0
    sufficient: FloatArray  # [N] 1 where the decision stays with X only, else 0
    found: FloatArray  # [N] 1 where the explainer found a set that changes the decision, else 0
    logit_gain: FloatArray  # [N] how far the logit with X only lies beyond the original one, on the decision's side
    probability_gain: FloatArray  # [N] the same of the probability; nan where a margin stands for none
    rank: FloatArray  # [N] of the destination, 1 is the best; nan where nothing is ranked
    rank_after: FloatArray  # [N] the same without X
    evaluations: FloatArray  # [N]
    seconds: FloatArray  # [N] nan where no time was measured
    link: IntArray  # [N] the same number for records about the same link
    counts: FloatArray  # [N] how often each record counts; [S, N] for S samples


Key = TypeVar("Key")
Value = TypeVar("Value")
Records = Sequence[Record] | MetricInputs
Metric = Callable[[Records], float | None]


def columns(records: Records) -> MetricInputs:
    """The records as columns, each counted once."""
    if isinstance(records, MetricInputs):
        return records
    numbers: dict[Hashable, int] = {}
    link = [numbers.setdefault(link_of(record), len(numbers)) for record in records]

    def each(value_of: Callable[[Record], float | None]) -> FloatArray:
        return np.array([value_of(record) for record in records], dtype=np.float64)  # None becomes nan

    return MetricInputs(
        sparsity=each(lambda record: record.sparsity),
        necessary=each(lambda record: record.is_necessary),
        sufficient=each(lambda record: record.is_sufficient),
        found=each(lambda record: record.first is not None),
        logit_gain=each(lambda record: -shift(record.original, record.only)),
        probability_gain=each(_probability_gain),
        rank=each(lambda record: record.rank),
        rank_after=each(lambda record: record.rank_after),
        evaluations=each(lambda record: record.evaluations),
        seconds=each(lambda record: record.seconds),
        link=np.array(link, dtype=np.int64),
        counts=np.ones(len(records)),
    )


def _probability_gain(record: Record) -> float | None:
    before, after = record.score(record.original), record.score(record.only)
    if before is None or after is None:
        return None
    return after - before if record.original > 0 else before - after


def link_of(record: Record) -> tuple[str, str, int]:
    """What a record is about: equal for all records about one link."""
    return record.data, record.model, record.event


def sparsity(records: Records) -> float | None:
    """(1/N) Σ |X| / |C|: the share of the candidates that the explanation names. Lower is better.

    A link without candidates has an empty X and counts as 0.
    """
    return _mean(records, lambda group: group.sparsity)


def fidelity_plus(records: Records) -> float | None:
    """(1/N) Σ 1[decision without X ≠ decision]: the share of necessary explanations, the counterfactuals."""
    return _mean(records, lambda group: group.necessary)


def fidelity_minus(records: Records) -> float | None:
    """(1/N) Σ 1[decision with X as the only past = decision]: the share of sufficient explanations."""
    return _mean(records, lambda group: group.sufficient)


def characterization(records: Records) -> float | None:
    """2 / (1/fidelity+ + 1/fidelity-): their harmonic mean; 0 when either is 0."""
    group = columns(records)
    necessary, sufficient = fidelity_plus(group), fidelity_minus(group)
    if necessary is None or sufficient is None:
        return None
    total = np.asarray(necessary) + np.asarray(sufficient)
    return _number(2 * necessary * sufficient / np.where(total > 0, total, 1.0))


def aufsc_plus(records: Records) -> float | None:
    """∫₀¹ (share of the N links with fidelity+ and sparsity ≤ s) ds = (1/N) Σ 1[necessary] · (1 - sparsity).

    The area under the curve of fidelity+ against sparsity: high if many small sets change the decision.
    """
    return _mean(records, lambda group: group.necessary * (1 - group.sparsity))


def aufsc_minus(records: Records) -> float | None:
    """∫₀¹ (share of the N links with fidelity- and sparsity ≤ s) ds = (1/N) Σ 1[sufficient] · (1 - sparsity)."""
    return _mean(records, lambda group: group.sufficient * (1 - group.sparsity))


def delta_logit(records: Records) -> float | None:
    """(1/N) Σ y · (logit with X as the only past - logit), y = 1 where the link is predicted, else -1.

    How much of the decision X keeps by itself: negative where it says less than the whole past, the usual case, and
    positive where it says more. Higher is better. TempME's protocol takes the mean over 16 sparsities, from 0.01 to
    0.30: `cody.study.explainers.at_sparsities` gives the explainers whose records to pass. Of other decisions than the
    predicted link, the same of their margins.
    """
    return _mean(records, lambda group: group.logit_gain)


def delta_probability(records: Records) -> float | None:
    """(1/N) Σ y · (probability with X as the only past - probability): as `delta_logit`, of the model's score.

    None for decisions that compare scores: their margins stand for no probability.
    """
    return _mean(records, lambda group: group.probability_gain)


def rank(records: Records) -> float | None:
    """The median of the rank of the destination with nothing changed, 1 is the best; None if nothing is ranked."""
    return _median(records, lambda group: group.rank)


def rank_after(records: Records) -> float | None:
    """The median of the rank without X. For links in the top, the further below the better."""
    return _median(records, lambda group: group.rank_after)


def reciprocal_rank_lost(records: Records) -> float | None:
    """(1/N) Σ (1/rank - 1/rank without X): how much of the mean reciprocal rank rests on X; None if nothing is ranked.

    Negative where X keeps the destination down, as it should be for links that are not in the top.
    """
    return _mean(records, lambda group: 1 / group.rank - 1 / group.rank_after)


def mean_evaluations(records: Records) -> float | None:
    """(1/N) Σ distinct sets that the explainer evaluated. Lower is better."""
    return _mean(records, lambda group: group.evaluations)


def mean_seconds(records: Records) -> float | None:
    """(1/N) Σ wall time, without confirmation and without measuring fidelity. Lower is better.

    None if some record has no time, because explainers shared answers.
    """
    return _mean(records, lambda group: group.seconds)


def found_share(records: Records) -> float | None:
    """(1/N) Σ 1[the explainer evaluated a set that changes the decision].

    Equal to fidelity+ for explainers that answer with such a set whenever they find one, as CoDy and GreeDy do.
    """
    return _mean(records, lambda group: group.found)


def jaccard(records: Sequence[Record], others: Sequence[Record]) -> float | None:
    """Mean over the links that both explain of |X ∩ Y| / |X ∪ Y|; None without a common link.

    Two empty explanations are equal: 1. If a link was explained several times, the mean over all pairs counts.
    """
    mine, theirs = _explanations(records), _explanations(others)
    pairs = [product(mine[link], theirs[link]) for link in mine if link in theirs]
    common = [np.mean([similarity(one, other) for one, other in of_link]) for of_link in pairs]
    return float(np.mean(common)) if common else None


def similarity(rows: Iterable[Hashable], others: Iterable[Hashable]) -> float:
    """|X ∩ Y| / |X ∪ Y|, 1 if both are empty.

    >>> similarity([1, 2], [2, 3]), similarity([], [])
    (0.3333333333333333, 1.0)
    """
    one, other = set(rows), set(others)
    return len(one & other) / len(one | other) if one | other else 1.0


def recall(records: Sequence[Record], causes: Sequence[Set[int]]) -> float | None:
    """Where the true causes of links are known: mean of |X ∩ causes| / |causes|, over links that have any.

    `causes` has an entry for each event of the graph, as in `cody.data.campus`.
    """
    known = [(causes[record.event], set(record.rows)) for record in records if causes[record.event]]
    return sum(len(true & named) / len(true) for true, named in known) / len(known) if known else None


def _explanations(records: Iterable[Record]) -> dict[Hashable, list[frozenset[Hashable]]]:
    return {link: [record.changes for record in about] for link, about in grouped(records, link_of).items()}


class Interval(NamedTuple):
    low: float
    high: float


def interval(
    metric: Metric, records: Records, *, rng: np.random.Generator, level: float = 0.95, samples: int = 1000
) -> Interval | None:
    """The percentile bootstrap interval of a metric, or None if the metric is undefined.

    A sample draws as many links as there are, with replacement, each with all of its records.

    Args:
        metric: A function of records.
        records: Records of an evaluation.
        rng: Source of randomness.
        level: The share of samples that the interval contains.
        samples: Number of samples.
    """
    group = columns(records)
    if metric(group) is None:
        return None
    links = int(group.link.max()) + 1
    return within(np.concatenate([_drawn(metric, group, counts) for counts in draws(links, samples, rng)]), level)


def _drawn(metric: Metric, group: MetricInputs, counts: FloatArray) -> FloatArray:
    """A metric of samples in which links count so often. [S, L] → [S]"""
    return np.asarray(metric(replace(group, counts=counts[:, group.link])))


def differences(
    metric: Metric,
    records: Sequence[Record],
    others: Sequence[Record],
    *,
    rng: np.random.Generator,
    samples: int = 1000,
) -> FloatArray | None:
    """The paired bootstrap of metric(records) - metric(others), one value per sample, or None if it is undefined. [S]

    A sample draws links, and with each the records of both explainers. Explainers that fail on the same links differ by
    less than their two intervals suggest. `within` turns the values into an interval.

    Args:
        metric: A function of records.
        records: Records of one explainer.
        others: Records of the other.
        rng: Source of randomness.
        samples: Number of samples.
    """
    links = {link_of(record) for record in records} & {link_of(record) for record in others}
    number = {link: place for place, link in enumerate(sorted(links))}
    both = [[record for record in some if link_of(record) in number] for some in (records, others)]
    pair = [replace(columns(some), link=np.array([number[link_of(record)] for record in some])) for some in both]
    if any(metric(group) is None for group in pair):
        return None
    every = draws(len(number), samples, rng)
    return np.concatenate([np.subtract(*(_drawn(metric, group, counts) for group in pair)) for counts in every])


def within(drawn: FloatArray, level: float = 0.95) -> Interval:
    """The central interval that holds a share `level` of the samples."""
    if not 0 < level < 1:
        raise CallError(f"level must lie between 0 and 1, not {level}")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def draws(links: int, samples: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """How often each link counts in each sample: [S, L] in all, as many rows at a time as memory allows.

    Args:
        links: Number of links.
        samples: Number of samples.
        rng: Source of randomness.
    """
    if samples < 1:
        raise CallError(f"samples must be at least 1, not {samples}")
    at_once = max(1, AT_ONCE // links)
    for start in range(0, samples, at_once):
        size = min(at_once, samples - start)
        chosen = rng.integers(0, links, size=(size, links)) + links * np.arange(size)[:, None]  # a range for each row
        yield np.bincount(chosen.ravel(), minlength=size * links).reshape(size, links).astype(np.float64)


def _mean(records: Records, value_of: Callable[[MetricInputs], FloatArray]) -> float | None:
    """The mean of values [N], weighted by the group's counts; None if there are none, or one is not known."""
    return _weighted(records, value_of, lambda values, counts: counts @ values / counts.sum(axis=-1))


def _median(records: Records, value_of: Callable[[MetricInputs], FloatArray]) -> float | None:
    """The (lower) median of values [N], weighted by the group's counts; None if there are none, or one is not known."""

    def median(values: FloatArray, counts: FloatArray) -> FloatArray:
        order = np.argsort(values)
        reached = np.cumsum(counts[..., order], axis=-1)
        return values[order][np.argmax(2 * reached >= reached[..., -1:], axis=-1)]

    return _weighted(records, value_of, median)


def _weighted(
    records: Records, value_of: Callable[[MetricInputs], FloatArray], of: Callable[[FloatArray, FloatArray], FloatArray]
) -> float | None:
    group = columns(records)
    values = value_of(group)
    return _number(of(values, group.counts)) if len(values) and not np.isnan(values).any() else None


def _number(value: FloatArray | np.float64) -> float:
    """One number as a float. The numbers of S samples stay an array: only `interval` asks for those."""
    return float(value) if np.ndim(value) == 0 else cast(float, value)


class Group(NamedTuple):
    """The records that are measured together."""

    data: str
    model: str
    kind: str
    explainer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """The metrics of one group of records; None where one is undefined."""

    links: int  # distinct ones
    records: int
    sparsity: float | None
    fidelity_plus: float | None
    fidelity_minus: float | None
    characterization: float | None
    aufsc_plus: float | None
    aufsc_minus: float | None
    delta_logit: float | None
    delta_probability: float | None
    evaluations: float | None
    seconds: float | None
    found: float | None
    rank: float | None = None  # this and the next two: where the decision is about a ranking
    rank_after: float | None = None
    reciprocal_rank_lost: float | None = None
    failed: int = 0  # links that could not be explained, and are in none of these figures


METRICS: dict[str, Metric] = {  # by their names in a summary
    **{metric.__name__: metric for metric in (sparsity, fidelity_plus, fidelity_minus, characterization)},
    **{metric.__name__: metric for metric in (aufsc_plus, aufsc_minus, delta_logit, delta_probability)},
    **{"evaluations": mean_evaluations, "seconds": mean_seconds, "found": found_share},
    **{metric.__name__: metric for metric in (rank, rank_after, reciprocal_rank_lost)},
}


def summary(records: Records, failed: int = 0) -> MetricSummary:
    """All metrics of one group of records."""
    group = columns(records)
    return MetricSummary(
        links=len(np.unique(group.link)),
        records=len(group.link),
        **{name: metric(group) for name, metric in METRICS.items()},
        failed=failed,
    )


def groups(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """Records of the same data, model, kind and explainer, in the order in which they first appear."""
    return grouped(records, lambda record: Group(record.data, record.model, record.kind, record.explainer))


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """The values with the same key, in the order in which they first appear.

    >>> grouped(["ant", "bee", "auk"], lambda name: name[0])
    {'a': ['ant', 'auk'], 'b': ['bee']}
    """
    found: dict[Key, list[Value]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found


def summaries(records: Iterable[Record], failures: Iterable[Failure] = ()) -> dict[Group, MetricSummary]:
    """The summary of each group. One of which everything failed has none."""
    failed = Counter(Group(each.data, each.model, each.kind, each.explainer) for each in failures)
    return {group: summary(members, failed[group]) for group, members in groups(records).items()}
