"""What the paper claims about its comparison, and what the records say: verdicts and figures of results/laboratory.md.

A setting is a model, a data set and a kind of prediction. The paper's AUFSC and calls are about TGN, so claims about
them are judged on TGN's six settings; TGAT is given next to them. Intervals are paired bootstraps over links (95 %) of
the mean over settings.
"""

import csv
from collections import Counter
from functools import cache
from importlib.resources import files

import numpy as np

from cody.paper.tables import rounded
from cody.study.explainers import POLICIES as ALL_POLICIES
from cody.study.explainers import find
from cody.study.metrics import (
    aufsc_minus,
    aufsc_plus,
    characterization,
    differences,
    fidelity_plus,
    found_share,
    jaccard,
    mean_evaluations,
    within,
)

POLICIES = RANDOM, TEMPORAL, NEAREST, IMPACT = tuple(ALL_POLICIES)[:4]  # those of the paper
CODY = {policy: find("cody", policy).name for policy in POLICIES}
GREEDY = {policy: find("greedy", policy).name for policy in POLICIES}
TGNN = find("tgnnexplainer").name
FACTUAL = [*(find(name).name for name in ("random", "pbone", "tempme", "pgexplainer")), TGNN]
CODY_NEAREST, GREEDY_NEAREST = CODY[NEAREST], GREEDY[NEAREST]
EVERYONE = [*CODY.values(), *GREEDY.values(), *FACTUAL]
HOLDS, PARTLY, FAILS = "holds", "partly", "does not hold"
LEAST_SUFFICIENT = {"incorrect": 0.815, "correct": 0.575}  # the paper's lowest AUFSC− of CoDy (TGN): 0.82, 0.58


class Settings:
    """Records by setting and explainer, and the figures that the claims need."""

    def __init__(self, records_of):
        self.records_of = records_of  # {(model, data, kind): {explainer: records}}

    def only(self, *, model=None, data=None, kind=None):
        wanted = (model, data, kind)
        return Settings(
            {
                setting: found
                for setting, found in self.records_of.items()
                if all(want in (None, have) for want, have in zip(wanted, setting, strict=True))
            }
        )

    def each(self, explainer, metric=aufsc_plus):
        """The metric in each setting that the explainer explained."""
        return [metric(found[explainer]) for found in self.records_of.values() if explainer in found]

    def mean(self, explainer, metric=aufsc_plus):
        values = self.each(explainer, metric)
        return float(np.mean(values)) if values else float("nan")

    def best(self, explainers, metric=aufsc_plus):
        """The best explainer in each setting."""
        return [
            max((name for name in explainers if name in found), key=lambda name: metric(found[name]))
            for found in self.records_of.values()
        ]

    def gap(self, one, other, metric=aufsc_plus):
        """Mean difference over settings, its interval, and in how many settings `one` is ahead."""
        rng = np.random.default_rng(0)
        pairs = [(found[one], found[other]) for found in self.records_of.values() if {one, other} <= found.keys()]
        drawn = [differences(metric, first, second, rng=rng) for first, second in pairs]
        gaps = [metric(first) - metric(second) for first, second in pairs]
        low, high = within(np.mean(drawn, axis=0))
        return float(np.mean(gaps)), low, high, sum(gap > 0 for gap in gaps), len(gaps)


def in_words(gap):
    value, low, high, ahead, count = gap
    return f"{with_interval(value, (low, high))}, ahead in {ahead} of {count}"


def with_interval(value, interval):
    """A difference and its interval.

    >>> with_interval(0.25, (-0.1, 0.6))
    '+0.250 [-0.100, +0.600]'
    """
    low, high = interval
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def ratio(correct, incorrect):
    """How many times as often something happens on incorrect predictions."""
    return incorrect / correct if correct else float("inf")


def verdict(*, full, part):
    return HOLDS if full else PARTLY if part else FAILS


def necessity(settings):
    """AUFSC+."""
    tgn, tgat = settings.only(model="tgn"), settings.only(model="tgat")
    won, also = (sum(name in CODY.values() for name in some.best(EVERYONE)) for some in (tgn, tgat))
    settings_of = len(tgn.records_of)
    pairs = "; ".join(f"{policy} {in_words(settings.gap(CODY[policy], GREEDY[policy]))}" for policy in POLICIES)
    yield (
        "a CoDy variant has the highest AUFSC+ in all settings but one (TGN)",
        verdict(full=won >= settings_of - 1, part=2 * won >= settings_of),
        f"in {won} of {settings_of} (TGAT: {also}). CoDy − GreeDy by policy, both models: {pairs}",
    )
    pair = CODY_NEAREST, GREEDY_NEAREST
    ratios = [100 * (np.mean(np.divide(*(some.each(name) for name in pair))) - 1) for some in (tgn, tgat)]
    yield (
        "CoDy-spatio-temporal is 16 % above GreeDy-spatio-temporal in AUFSC+ (TGN)",
        verdict(full=ratios[0] > 8, part=ratios[0] > 0),
        f"{ratios[0]:+.0f} % (mean over settings; TGAT {ratios[1]:+.0f} %)",
    )
    messages = tgat.only(data="uci-messages")
    found = {name: messages.each(name, fidelity_plus) for name in (*CODY.values(), GREEDY_NEAREST)}
    sizes = {name: messages.each(name, mean_size) for name in pair}
    ahead = sum(np.greater(found[GREEDY_NEAREST], found[name]).sum() for name in CODY.values())
    yield (
        "for TGAT on UCI-Messages GreeDy-spatio-temporal finds more than nearly every CoDy variant, in larger sets",
        verdict(full=ahead >= 6 and np.all(np.less(*sizes.values())), part=ahead >= 4),
        f"more than in {ahead} of 8 cases (four variants, two kinds): fidelity+ {two(found[GREEDY_NEAREST])}, "
        f"CoDy-spatio-temporal {two(found[CODY_NEAREST])}; mean size of its counterfactuals "
        f"{two(sizes[GREEDY_NEAREST])}, of CoDy's {two(sizes[CODY_NEAREST])}",
    )
    factual = {name: tgn.mean(name) for name in FACTUAL if tgn.each(name)}
    searches = f"CoDy {tgn_mean(tgn, CODY):.3f}, GreeDy {tgn_mean(tgn, GREEDY):.3f} (means over policies)"
    below, even = (
        100 * (1 - tgn.mean(TGNN, metric) / tgn.mean(CODY_NEAREST)) for metric in (aufsc_plus, as_share_of_64)
    )
    yield (
        "factual methods have a low AUFSC+; T-GNNExplainer is 75 % below CoDy-spatio-temporal (TGN)",
        verdict(full=max(factual.values()) < min(map(tgn.mean, pair)) and even > 60, part=even > 30),
        f"T-GNNExplainer {below:.0f} % below as the paper counts (its sparsity is a share of 30 events), {even:.0f} % "
        f"if shares of 64 are counted for both. {', '.join(f'{name} {each:.3f}' for name, each in factual.items())}; "
        f"{searches}",
    )


def as_share_of_64(records):
    """AUFSC+ of T-GNNExplainer if its sparsity is counted as a share of 64 candidates, like that of the others."""
    return float(np.mean([record.is_necessary * (1 - len(record.rows) / 64) for record in records]))


def mean_size(records):
    """The mean size of the counterfactuals found."""
    return float(np.mean([len(record.rows) for record in records if record.is_necessary] or [0.0]))


def tgn_mean(settings, names):
    return float(np.mean([settings.mean(name) for name in names.values()]))


def two(values):
    return " / ".join(f"{rounded(value, 2):.2f}" for value in values)


def of_policies(settings):
    for kind, best, other in (("correct", NEAREST, IMPACT), ("incorrect", IMPACT, NEAREST)):
        some = settings.only(kind=kind)
        value, low, _, ahead, count = gap = some.gap(CODY[best], CODY[other])
        means = ", ".join(f"{policy} {some.mean(name):.3f}" for policy, name in CODY.items())
        yield (
            f"{best} is CoDy's best policy on {kind} predictions",
            verdict(full=low > 0 and 2 * ahead > count, part=value > 0),
            f"{means}; over {other} {in_words(gap)}",
        )
    worst = [min(names.values(), key=settings.mean) == names[RANDOM] for names in (CODY, GREEDY)]
    yield (
        "random is the worst policy",
        verdict(full=all(worst), part=any(worst)),
        f"for both searches: CoDy {settings.mean(CODY[RANDOM]):.3f}, GreeDy {settings.mean(GREEDY[RANDOM]):.3f}",
    )
    tgn = settings.only(model="tgn")
    for names, paper in ((CODY, "14, 37, 30"), (GREEDY, "386, 485, 304")):
        gains = [
            100 * (tgn.mean(names[policy]) / tgn.mean(names[RANDOM]) - 1) for policy in (TEMPORAL, NEAREST, IMPACT)
        ]
        yield (
            f"every policy gains AUFSC+ over random with {'CoDy' if names is CODY else 'GreeDy'}, spatio-temporal most "
            f"(temporal, spatio-temporal, event-impact: {paper} %; TGN)",
            verdict(full=min(gains) > 0 and gains[1] == max(gains), part=min(gains) > 0),
            f"{', '.join(f'{gain:+.0f}' for gain in gains)} %",
        )


def cases_of_kinds(settings):
    """(explainer, model, data set) → its records about correct and about incorrect predictions."""
    return {
        (name, model, data): (found[name], others[name])
        for (model, data, kind), found in settings.records_of.items()
        if kind == "correct"
        for others in [settings.records_of.get((model, data, "incorrect"), {})]
        for name in sorted(found.keys() & others.keys())
    }


def of_kinds(settings):
    cases = cases_of_kinds(settings)
    easier, ratios = 0, {}
    for (name, _, data), some in cases.items():
        correct, incorrect = map(fidelity_plus, some)
        easier += incorrect > correct
        if data != "uci-forums" and name in (CODY_NEAREST, GREEDY_NEAREST):
            ratios.setdefault(name, []).append(ratio(correct, incorrect))
    yield (
        "every explainer finds more on incorrect predictions",
        verdict(full=easier == len(cases), part=2 * easier > len(cases)),
        f"fidelity+ is higher in {easier} of {len(cases)} cases (explainer, model, data set)",
    )
    least = min(min(values) for values in ratios.values())
    means = ", ".join(f"{name} {np.mean(values):.1f}" for name, values in ratios.items())
    yield (
        "more than twice as often on UCI-Messages and Wikipedia",
        verdict(full=least > 2, part=np.mean([np.mean(values) for values in ratios.values()]) > 1.5),
        f"times as often, means over models and these two data sets: {means}; the smallest ratio is {least:.1f}",
    )


def sufficiency(settings):
    tgn = settings.only(model="tgn")
    kinds = {kind: tgn.only(kind=kind) for kind in ("incorrect", "correct")}
    least = {kind: min(min(some.each(name, aufsc_minus)) for name in CODY.values()) for kind, some in kinds.items()}
    reached = [least[kind] > LEAST_SUFFICIENT[kind] for kind in kinds]
    yield (
        "CoDy's AUFSC− is at least 0.82 on incorrect and 0.58 on correct predictions (TGN)",
        verdict(full=all(reached), part=any(reached)),
        f"at least {least['incorrect']:.2f} and {least['correct']:.2f}",
    )
    best = settings.best(EVERYONE, aufsc_minus)
    factual, tree = (sum(name in names for name in best) for names in (FACTUAL, CODY.values()))
    yield (
        "factual methods, although made for it, are not ahead in AUFSC−",
        verdict(full=factual == 0, part=2 * factual < len(best)),
        f"a factual method is best in {factual} of {len(best)} settings, CoDy in {tree}",
    )
    for kind, expected in (("correct", CODY_NEAREST), ("incorrect", CODY[IMPACT])):
        best = winners(settings.only(kind=kind))
        hits = best.count(expected)
        names = ", ".join(f"{name} {count}" for name, count in Counter(best).most_common())
        yield (
            f"{expected} has the best char on {kind} predictions",
            verdict(full=hits == len(best), part=2 * hits >= len(best)),
            f"best in {hits} of {len(best)} settings ({names})",
        )


def winners(settings):
    """Who has the best char in each setting."""
    return settings.best(EVERYONE, characterization)


@cache
def paper_table(name):
    """The rows of a table of the paper."""
    lines = (files("cody.paper") / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def of_paper(table, column, explainer, kind):
    """What a table of the paper has about an explainer and a kind of prediction, by data set."""
    wanted = {"explainer": explainer, "predictions": kind}.items()
    return {row["dataset"]: float(row[column]) for row in paper_table(table) if wanted <= row.items()}


def of_cost(settings):
    paper = {}
    for row in paper_table("tgn_oracle_calls"):
        paper.setdefault(row["explainer"], []).append(float(row["calls"]))
    tgn = settings.only(model="tgn")
    for names in (CODY, GREEDY):
        here = {policy: tgn.each(name, mean_evaluations) for policy, name in names.items()}
        there = {policy: paper[name] for policy, name in names.items()}
        close = [0.75 < np.mean(here[policy]) / np.mean(there[policy]) < 1.33 for policy in POLICIES]
        yield (
            f"{'CoDy' if names is CODY else 'GreeDy'}'s calls to the model (TGN): "
            + ", ".join(f"{policy} {min(calls):.0f} to {max(calls):.0f}" for policy, calls in there.items()),
            verdict(full=all(close), part=any(close)),
            ", ".join(f"{policy} {min(calls):.0f} to {max(calls):.0f}" for policy, calls in here.items()),
        )


def of_similarity(settings):
    found = settings.records_of.get(("tgn", "wikipedia", "correct"), {})
    pairs = similar_pairs(found)
    if pairs:
        like = {pair: jaccard(found[pair[0]], found[pair[1]]) for pair in pairs}
        far = jaccard(found[TGNN], found[closest_to(TGNN, found)])
        yield (
            "temporal and spatio-temporal give similar explanations, unlike T-GNNExplainer (Wikipedia, TGN, correct)",
            verdict(full=min(like.values()) > 0.3 > 2 * far, part=min(like.values()) > far),
            f"Jaccard {', '.join(f'{one} and {other} {value:.2f}' for (one, other), value in like.items())}; "
            f"T-GNNExplainer and a search at most {far:.2f}",
        )


def similar_pairs(found):
    """The explainers that the paper compares, if all of them are there."""
    is_whole = {*CODY.values(), *GREEDY.values(), TGNN} <= found.keys()
    return [(names[TEMPORAL], names[NEAREST]) for names in (CODY, GREEDY)] if is_whole else []


def closest_to(explainer, found):
    """The search of the paper whose explanations are most like those of an explainer."""
    return max((*CODY.values(), *GREEDY.values()), key=lambda name: jaccard(found[explainer], found[name]))


def of_sensitivity(alphas, sizes):
    """TGAT, UCI-Messages, correct, spatio-temporal. `alphas` and `sizes`: records by value, about the same links."""
    if not (2 / 3 in alphas and len(alphas) > 1 and len(sizes) > 1):
        return
    links = len(alphas[2 / 3])
    by_alpha = [aufsc_plus(some) for some in alphas.values()]
    low, high = last_step(alphas, aufsc_plus)
    yield (
        "a larger alpha helps (TGAT, UCI-Messages, correct, spatio-temporal)",
        verdict(full=by_alpha == sorted(by_alpha) and low > 0, part=by_alpha == sorted(by_alpha)),
        f"AUFSC+ {several(by_alpha)} with {several(alphas, 2)}, {links:,} links; last step [{low:+.3f}, {high:+.3f}]",
    )
    by_size = [fidelity_plus(some) for some in sizes.values()]
    low, high = last_step(sizes, fidelity_plus)
    yield (
        "more candidates help (same setting)",
        verdict(full=by_size == sorted(by_size) and low > 0, part=by_size[-1] > by_size[0]),
        f"fidelity+ {several(by_size)} with {several(sizes, 0)}; last step [{low:+.3f}, {high:+.3f}] "
        "(AUFSC+ cannot be compared: it divides by the number of candidates)",
    )


def last_step(runs, metric):
    """The interval of what the largest value of an option adds to the one before."""
    *_, before, after = runs.values()
    return paired(after, before, metric)


def sensitivity(settings, alphas, sizes, base=None):
    """Records by alpha and by number of candidates, in increasing order, about the links that all of them explain.

    `base`: the records with the paper's values, if there are more of them than in the setting itself.
    """
    base = base or settings.records_of.get(("tgat", "uci-messages", "correct"), {}).get(CODY_NEAREST)
    if not (base and alphas and sizes):
        return {}, {}
    runs = [dict(sorted({**alphas, 2 / 3: base}.items())), dict(sorted({**sizes, 64: base}.items()))]
    common = set.intersection(*({record.event for record in some} for each in runs for some in each.values()))
    alphas, sizes = (
        {value: [record for record in some if record.event in common] for value, some in each.items()} for each in runs
    )
    return alphas, sizes


def of_iterations(longer):
    """TGN, Wikipedia, correct, 1,200 iterations. `longer`: records by explainer."""
    policies = [policy for policy in POLICIES if {CODY[policy], GREEDY[policy]} <= longer.keys()]
    if not policies:
        return
    shares = {policy: [share_within(longer[CODY[policy]], calls) for calls in (300, 600, 1200)] for policy in policies}
    greedy = {policy: fidelity_plus(longer[GREEDY[policy]]) for policy in policies}
    gaps = {policy: paired(longer[CODY[policy]], longer[GREEDY[policy]], found_share) for policy in policies}
    passed = sum(shares[policy][-1] > greedy[policy] for policy in policies)
    clear = [policy for policy in policies if gaps[policy].low > 0]
    before = sum(shares[policy][0] > greedy[policy] for policy in policies)
    rows = "; ".join(
        f"{policy} {several(shares[policy], 2)} (GreeDy {several([greedy[policy]], 2)}; difference "
        f"[{gaps[policy].low:+.2f}, {gaps[policy].high:+.2f}])"
        for policy in policies
    )
    links = len(longer[CODY[policies[0]]])
    yield (
        "with 1,200 iterations every CoDy variant overtakes its GreeDy (TGN, Wikipedia, correct)",
        verdict(full=len(clear) == len(policies), part=passed > before),
        f"{before} of {len(policies)} were ahead within 300 sets, {passed} are within 1,200, {len(clear)} of them "
        "clearly. "
        f"Found within 300, 600, 1,200 sets, {links} links: {rows}",
    )


def paired(one, other, metric):
    return within(differences(metric, one, other, rng=np.random.default_rng(0)))


def share_within(records, calls):
    return float(np.mean([record.first is not None and record.first <= calls for record in records]))


def several(values, digits=3):
    return ", ".join(f"{rounded(value, digits):.{digits}f}" for value in values)


CAUSES = {  # by the beginning of a claim: what `order.py` and `reasons.py` have found
    "a CoDy variant has the highest": ("order",),
    f"{CODY_NEAREST} is 16 %".replace("cody", "CoDy"): ("order",),
    "factual methods have a low": ("factual",),
    f"{IMPACT} is CoDy's best policy": ("data sets", "policies"),
    "every explainer finds more": ("exceptions",),
    "more than twice as often": ("twice", "kinds"),
    "CoDy's AUFSC−": ("sufficient",),
    f"{CODY_NEAREST} has the best char": ("char correct",),
    f"{CODY[IMPACT]} has the best char": ("char incorrect",),
    "GreeDy's calls": ("calls",),
    "temporal and spatio-temporal give similar": ("similar",),
    "a larger alpha": ("alpha",),
    "more candidates": ("candidates",),
    "with 1,200 iterations": ("iterations",),
}


def cause_of(claim, verdict, measured):
    """Why a claim does not hold here, as far as records or an experiment show it."""
    if verdict == HOLDS:
        return "–"
    names = next((names for begin, names in CAUSES.items() if claim.startswith(begin)), ())
    return ". ".join(measured[name] for name in names if name in measured) or "not examined"


def table(settings, alphas, sizes, longer, measured):
    """The claims as Markdown. `measured`: the causes that `order.py` and `reasons.py` have found."""
    yield "| the paper | verdict | here | cause |"
    yield "|---|---|---|---|"
    parts = (necessity, of_policies, of_kinds, sufficiency, of_cost, of_similarity)
    rows = [row for part in parts for row in part(settings)]
    for claim, found, figures in [*rows, *of_sensitivity(alphas, sizes), *of_iterations(longer)]:
        yield f"| {claim} | {found} | {figures} | {cause_of(claim, found, measured)} |"
