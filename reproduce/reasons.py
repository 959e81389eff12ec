"""Why a claim of the paper does not hold here, or only in part: figures from the same records as its verdict.

`order.py` has the causes that took an experiment of their own. Intervals are bootstraps over links (95 %), paired
where both sides explain the same links.
"""

from collections import Counter
from math import ceil, comb

import numpy as np
from claims import (
    CODY,
    CODY_NEAREST,
    GREEDY,
    GREEDY_NEAREST,
    IMPACT,
    LEAST_SUFFICIENT,
    NEAREST,
    POLICIES,
    TGNN,
    as_share_of_64,
    cases_of_kinds,
    closest_to,
    mean_size,
    of_paper,
    paper_table,
    ratio,
    several,
    similar_pairs,
    winners,
    with_interval,
)
from order import sampled

from cody.study.explainers import find
from cody.study.metrics import (
    aufsc_minus,
    aufsc_plus,
    fidelity_minus,
    fidelity_plus,
    interval,
    jaccard,
    mean_evaluations,
    sparsity,
    within,
)

PBONE, PGEXPLAINER, RANDOM_SETS = (find(name).name for name in ("pbone", "pgexplainer", "random"))
SURE = 1.96  # standard deviations on either side of a mean hold 95 %


def reasons(settings, alphas, sizes, longer):
    """The causes that records show, by the names that `claims.CAUSES` has for them."""
    found = {
        "factual": of_factual(settings.only(model="tgn")),
        "data sets": by_data(settings.only(kind="incorrect")),
        "exceptions": of_exceptions(settings),
        "twice": by_model(settings),
        "sufficient": of_sufficiency(settings.only(model="tgn")),
        "char correct": of_char(settings.only(kind="correct"), CODY_NEAREST),
        "char incorrect": of_char(settings.only(kind="incorrect"), CODY[IMPACT]),
        "similar": of_similarity(settings.records_of.get(("tgn", "wikipedia", "correct"), {})),
        "alpha": of_step(alphas, aufsc_plus),
        "candidates": of_step(sizes, fidelity_plus),
        "iterations": of_iterations(longer),
    }
    return {name: text for name, text in found.items() if text}


def of_factual(settings):
    """Which part of T-GNNExplainer's distance is how it is counted, and why PBONE is not low. TGN."""
    names = (TGNN, PBONE, PGEXPLAINER, RANDOM_SETS, CODY_NEAREST)
    if not all(settings.each(name) for name in names):
        return None
    gap = settings.mean(CODY_NEAREST) - settings.mean(TGNN)
    fewer = settings.mean(CODY_NEAREST, fidelity_plus) - settings.mean(TGNN, fidelity_plus)
    counted = settings.mean(TGNN, as_share_of_64) - settings.mean(TGNN)
    events = [settings.mean(name, mean_size) for name in (TGNN, CODY_NEAREST)]
    return (
        f"T-GNNExplainer is {gap:.3f} behind CoDy: {fewer:.3f} of it because it changes fewer decisions, "
        f"{gap - fewer - counted:.3f} because its sets are larger ({events[0]:.0f} events, CoDy's {events[1]:.0f}), "
        f"{counted:.3f} because they are counted as shares of 30. PBONE, which the paper does not have, is not low "
        f"({settings.mean(PBONE):.3f}): it asks about every single event ({settings.mean(PBONE, mean_evaluations):.0f} "
        f"questions) and names the most effective ones; as many events that cost no question have "
        f"{settings.mean(PGEXPLAINER):.3f} (PGExplainer) and {settings.mean(RANDOM_SETS):.3f} (random)"
    )


def by_data(settings):
    """Where event-impact is ahead of spatio-temporal: it depends on the data. Incorrect predictions."""
    pair = CODY[IMPACT], CODY[NEAREST]
    data = dict.fromkeys(data for _, data, _ in settings.records_of)
    gaps = {name: settings.only(data=name).gap(*pair) for name in data if settings.only(data=name).each(pair[0])}
    tgn = settings.only(model="tgn")
    if not gaps or not tgn.each(pair[0]):
        return None
    words = ", ".join(f"{name} {value(gap)}" for name, gap in gaps.items())
    paper = [of_paper("tgn_aufsc", "aufsc_plus", name, "incorrect") for name in pair]
    lead = np.mean([paper[0][data] - paper[1][data] for data in paper[0]])
    return f"it depends on the data: {words}. The paper's own lead (TGN) is {lead:+.3f}, here {value(tgn.gap(*pair))}"


def value(gap):
    """A difference with its interval, without in how many settings it is one."""
    return with_interval(gap[0], gap[1:3])


def of_exceptions(settings):
    """The explainers that find no more on incorrect predictions, and whether that is more than chance."""
    cases = cases_of_kinds(settings)
    rows = []
    for (name, model, data), (correct, incorrect) in cases.items():
        gap = fidelity_plus(incorrect) - fidelity_plus(correct)
        if gap <= 0:
            chances = unpaired(incorrect, correct)
            rows.append((chances.high >= 0, f"{name}, {model.upper()}, {data} {with_interval(gap, chances)}"))
    if not rows:
        return None
    chance = "all within chance" if all(is_chance for is_chance, _ in rows) else "not all within chance"
    shown = "; ".join(text for _, text in rows[:4]) + (f"; and {len(rows) - 4} more" if len(rows) > 4 else "")
    higher, count = in_paper()
    return f"{shown}: {chance}. In the paper's own tables it is higher in {higher} of {count} cases"


def unpaired(some, others):
    """Interval of a difference of fidelity+ between different links."""
    rng = np.random.default_rng(0)
    drawn = [sampled(np.array([record.is_necessary for record in each], dtype=float), rng) for each in (some, others)]
    return within(drawn[0] - drawn[1])


def in_paper():
    """In how many cases of the paper's tables fidelity+ is higher on incorrect predictions; and how many there are."""
    shares = {
        (row["model"], row["explainer"], row["dataset"], row["predictions"]): float(row["fidelity_plus"])
        for table in ("tgn_fidelity", "tgat_fidelity")
        for row in paper_table(table)
    }
    cases = [case[:3] for case in shares if case[3] == "correct"]
    return sum(shares[*case, "incorrect"] > shares[*case, "correct"] for case in cases), len(cases)


def by_model(settings):
    """How many times as often incorrect predictions change, by model; next to it the paper's own tables."""
    parts = []
    for model in ("tgn", "tgat"):
        for name, title in ((CODY_NEAREST, "CoDy"), (GREEDY_NEAREST, "GreeDy")):
            cases = cases_of_kinds(settings.only(model=model))
            data = [one for one in ("uci-messages", "wikipedia") if (name, model, one) in cases]
            here = [ratio(*map(fidelity_plus, cases[name, model, one])) for one in data]
            kinds = [of_paper(f"{model}_fidelity", "fidelity_plus", name, kind) for kind in ("correct", "incorrect")]
            there = [ratio(*(kind[one] for kind in kinds)) for one in data]
            if data:
                parts.append(f"{title}, {model.upper()} {several(here, 1)} (paper {several(there, 1)})")
    words = "the paper's own TGAT misses it as well. Times as often on UCI-Messages, Wikipedia"
    return f"{words}: {'; '.join(parts)}" if parts else None


def of_sufficiency(settings):
    """Where CoDy's AUFSC− is below what the paper has at least, and which of its parts makes it so. TGN."""
    parts = []
    for kind, limit in LEAST_SUFFICIENT.items():
        values = {
            (data, policy): (aufsc_minus(found[name]), found[name])
            for (_, data, _), found in settings.only(kind=kind).records_of.items()
            for policy, name in CODY.items()
            if name in found
        }
        below = sorted((value, key) for key, (value, _) in values.items() if value <= limit)
        if below:
            parts.append(_below(kind, below, values))
    return "; ".join(parts)


def _below(kind, below, values):
    least, (data, policy) = below[0]
    records = values[data, policy][1]
    low, high = interval(aufsc_minus, records, rng=np.random.default_rng(0))
    where = sorted({data for _, (data, _) in below})
    others = min((value for (data, _), (value, _) in values.items() if data not in where), default=float("nan"))
    whole, kept, share = (
        of_paper(table, column, CODY[policy], kind)[data]
        for table, column in (
            ("tgn_aufsc", "aufsc_minus"),
            ("tgn_fidelity", "fidelity_minus"),
            ("tgn_fidelity", "sparsity"),
        )
    )
    features = "; Wikipedia has no edge features here, so its models differ" if "wikipedia" in where else ""
    return (
        f"on {kind} predictions of {' and '.join(where)} only, elsewhere at least {others:.2f}. Lowest with {policy}, "
        f"{least:.2f} [{low:.2f}, {high:.2f}] (paper {whole:.2f}): fidelity− is {fidelity_minus(records):.2f} (paper "
        f"{kept:.2f}), and {100 * sparsity(records):.0f} % of the candidates are named (paper {100 * share:.0f} %)"
        f"{features}"
    )


def of_char(settings, expected):
    """The char is the harmonic mean of fidelity+ and fidelity−: which of them is higher for the one that wins."""
    best = Counter(winners(settings)).most_common(1)
    if not best or best[0][0] == expected:
        return None
    pair = expected, best[0][0]
    parts = (
        f"{sign} {' and '.join(f'{settings.mean(name, metric):.2f}' for name in pair)}"
        for sign, metric in (("fidelity+", fidelity_plus), ("fidelity−", fidelity_minus))
    )
    return f"follows from who finds more: {' and '.join(pair)} have {', '.join(parts)}"


def of_similarity(found):
    """How similar sets of these sizes would be by chance. TGN, Wikipedia, correct."""
    pairs = similar_pairs(found)
    if not pairs:
        return None
    closest = closest_to(TGNN, found)
    sizes = [np.mean([record.size for record in found[name]]) for name in (TGNN, closest)]
    parts = " and ".join(f"{by_chance(found[one], found[other]):.2f}" for one, other in pairs)
    here, chance = (measure(found[TGNN], found[closest]) for measure in (jaccard, by_chance))
    return (
        f"large sets are similar by chance: T-GNNExplainer names {sizes[0]:.0f} of the latest 30 events, {closest} "
        f"{sizes[1]:.0f}, and random sets of these sizes among the 30 have {chance:.2f} of the {here:.2f}; for the "
        f"pairs that are similar it is {parts}"
    )


def by_chance(some, others):
    """Mean Jaccard similarity of random sets of the same sizes, among the candidates of `some`."""
    size = {record.event: record.size for record in others}
    values = [
        expected_jaccard(record.size, min(size[record.event], record.candidates), record.candidates)
        for record in some
        if record.event in size
    ]
    return float(np.mean(values))


def expected_jaccard(one, other, among):
    """Of two random sets with so many elements each.

    >>> expected_jaccard(1, 1, 4), expected_jaccard(4, 2, 4), expected_jaccard(0, 0, 4)
    (0.25, 0.5, 1.0)
    """
    if one + other == 0:
        return 1.0
    shared = range(max(0, one + other - among), min(one, other) + 1)
    ways = (comb(one, both) * comb(among - one, other - both) * both / (one + other - both) for both in shared)
    return sum(ways) / comb(among, other)


def of_step(runs, metric):
    """What the last step of an option changes, and how many links would tell it from nothing. `runs`: by value."""
    if len(runs) < 2:
        return None
    *_, (before, some), (after, others) = sorted(runs.items())
    known = {record.event: metric([record]) for record in some}
    changes = np.array([metric([record]) - known[record.event] for record in others])
    better, worse = int((changes > 0).sum()), int((changes < 0).sum())
    text = f"{after:.2g} instead of {before:.2g} is better on {better} and worse on {worse} of {len(changes):,} links"
    chances = within(sampled(changes, np.random.default_rng(0)))
    if chances.low <= 0 <= chances.high:
        return f"{text}: too few to tell; a step of {changes.mean():+.3f} takes about {links_needed(changes)} links"
    return f"{text}: {with_interval(changes.mean(), chances)}"


def links_needed(changes):
    """How many links such a mean would take to be told from 0, in words."""
    mean, deviation = changes.mean(), changes.std(ddof=1)
    return f"{ceil((SURE * deviation / mean) ** 2):,}" if mean else "any number of"


def of_iterations(longer):
    """How large the sets are that GreeDy finds and CoDy does not, and how far CoDy comes there. By policy."""
    parts = []
    for policy in (policy for policy in POLICIES if {CODY[policy], GREEDY[policy]} <= longer.keys()):
        tree = {record.event: record for record in longer[CODY[policy]]}
        alone = [one for one in longer[GREEDY[policy]] if one.is_necessary and not tree[one.event].is_necessary]
        if alone:
            sizes = [np.median([one.size for one in some]) for some in (alone, [tree[one.event] for one in alone])]
            parts.append(f"{policy} {len(alone)} links, {sizes[0]:.0f} events (CoDy comes closest with {sizes[1]:.0f})")
    if not parts:
        return None
    return (
        "GreeDy goes on to larger sets, CoDy's tree stays with small ones. Links that only GreeDy changes, and the "
        f"median size of the sets: {'; '.join(parts)}"
    )
