"""How good and how costly the factual baselines are, compared with the searches: the figures of docs/baselines.md.

    python reproduce/baselines.py campus      where the planted cause of a link stands in each ranking
    python reproduce/baselines.py shipped     decisions with and without what each explanation names, collegemsg
    python reproduce/baselines.py levels      what is left of a decision at 16 sparsities, as in TempME's paper

`campus TempME`, `shipped TempME` and `levels TempME` measure that explainer only. Times are of the processor, one
thread. Prints one line for each model and explainer. The candidates are the paper's.
"""

import sys
import time
from dataclasses import replace

import numpy as np
import torch
from variants import thorough_scout

import cody
from cody.baselines import MotifSettings, ScorerSettings, explore, learned_order, motif_order
from cody.baselines.differentiable import SoftModel
from cody.data import campus
from cody.engine import fast_model
from cody.graph.neighbourhood import SIZE, events_on_paths
from cody.models.margins import flips
from cody.models.sizes import Sizes
from cody.search import top_share
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, random, spatio_temporal
from cody.study.explainers import FACTUAL, SEARCHES, Explainer, at_sparsities, explainer, find
from cody.study.instances import sample_kinds
from cody.study.metrics import delta_logit, delta_probability
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.architectures import TGAT, TGN
from cody.train.training import TrainingSettings as ModelSettings
from cody.train.training import new_network, new_optimizer, run_epoch, split


def trained_on_campus(architecture, made):
    graph, parts = made.graph, split(made.graph, ModelSettings())
    network = new_network(architecture, graph, Sizes(dimension=24, neighbours=8, batch=50), seed=0)
    optimizer = new_optimizer(network, 2e-3)
    for epoch in range(6):
        list(run_epoch(network, optimizer, graph.select(parts.train), 0, epoch))
    return fast_model(network, graph), parts.test


SHIPPED = ("tgn-collegemsg", "tgat-collegemsg")
LEARNED = {"PGExplainer": (ScorerSettings, learned_order), "TempME": (MotifSettings, motif_order)}


def on_campus(only=None):
    """The answers that a model predicts in the test period; the cause of each is one event among 64."""
    made = campus(students=100, seed=0)
    graph = made.graph
    for architecture in (TGN, TGAT):
        model, test = trained_on_campus(architecture, made)
        rows = [row for row in test.tolist() if made.causes[row] and "student" in graph.name(graph.dst[row])]
        rows = [row for row in rows if model.logits(graph.query(row), [frozenset()])[0] > 0]
        policies = {"random": random, "PBONE": event_impact}
        for name in LEARNED:
            if only in (None, name):
                policies |= {f"{name}, seed {seed}": learned(architecture, model, name, seed) for seed in range(3)}
        for name, policy in policies.items():
            ranks = np.array([rank_of_cause(model, policy, graph.query(row), *made.causes[row]) for row in rows])
            places = (
                f"first {(ranks == 0).mean():.2f}, among five {(ranks < 5).mean():.2f}, mean rank {ranks.mean():.1f}"
            )
            print(f"{architecture.__name__} {name}: {places}")
        if only is None:
            print(f"{architecture.__name__} T-GNNExplainer: {kept_causes(made, model, policies, rows)}")


def learned(architecture, model, name, seed):
    settings, order = LEARNED[name]
    settings, soft = settings(links=300, seed=seed), SoftModel(model)
    scorer = settings.new_scorer(soft.network.sizes)
    started = time.process_time()
    list(settings.train(soft, scorer))
    print(f"{architecture.__name__} {name}, seed {seed}: trained in {time.process_time() - started:.0f} s")
    return order(soft, scorer)


def kept_causes(made, model, policies, rows):
    found = [explored(model, policies["PGExplainer, seed 0"], made.graph.query(row)) for row in rows]
    causes = [next(iter(made.causes[row])) for row in rows]
    kept = np.mean([cause in one.found.rows for one, cause in zip(found, causes, strict=True)])
    single = np.mean([one.levels[0].kept == (cause,) for one, cause in zip(found, causes, strict=True)])
    size = np.mean([len(one.found.rows) for one in found])
    return (
        f"keeps the cause {kept:.2f}, with {size:.1f} events; alone it keeps the cause {single:.2f}; {len(rows)} links"
    )


def ranked(model, policy, query, size):
    oracle = Oracle(model, query)
    events = cody.candidates(model.graph, query, size=size, near=events_on_paths)
    return oracle, policy(model.graph, query, events, oracle, np.random.default_rng(query.before))


def rank_of_cause(model, policy, query, cause):
    return ranked(model, policy, query, SIZE)[1].tolist().index(cause)


def explored(model, policy, query):
    return explore(*ranked(model, policy, query, find("tgnnexplainer").size))


def on_shipped(only=None, links=100):
    graph = cody.load("collegemsg")
    for name in SHIPPED:
        model = cody.load_model(name, graph)
        entries = [*FACTUAL, *map(find, SEARCHES)]
        explainers = {
            entry.title: explainer(entry.name, scorer=name if entry.needs_scorer else None) for entry in entries
        }
        thorough = find("scout").title
        explainers[thorough] = replace(explainers[thorough], search=thorough_scout)
        explainers["spatio-temporal"] = Explainer("spatio-temporal", spatio_temporal, top_share)
        for kind, rows in sample_kinds(model, graph, links, ("correct", "incorrect")).items():
            for title, one in explainers.items():
                if only not in (None, title):
                    continue
                print(f"{name} {kind} {title}:", judged(model, rows, one))


def judged(model, rows, explainer):
    without, only, share, seconds, evaluations = [], [], [], [], []
    for row in rows:
        query, size = model.graph.query(row), explainer.size or SIZE
        events = frozenset(cody.candidates(model.graph, query, size=size, near=events_on_paths).tolist())
        model.logits(query, [frozenset()])
        started = time.process_time()
        oracle, ranking = ranked(model, explainer.policy, query, size)
        chosen = frozenset(explainer.search(oracle, ranking).rows)
        seconds.append(time.process_time() - started)
        evaluations.append(len(oracle.evaluated))
        original, removed, kept = oracle.ask([frozenset(), chosen, events - chosen])
        without.append(flips(original, removed))
        only.append(not flips(original, kept))
        share.append(len(chosen) / max(1, len(events)))
    return (
        f"changes without it {np.mean(without):.2f}, stays without the other candidates {np.mean(only):.2f}, "
        f"share {np.mean(share):.2f}, {np.mean(seconds):.3f} s, {np.mean(evaluations):.0f} evaluations"
    )


def on_levels(only=None, links=20):
    """The mean over 16 sparsities, and over links, of what is left of a decision with nothing but what is named."""
    graph = cody.load("collegemsg")
    entries = [entry for entry in FACTUAL if "sparsity" in entry.options and only in (None, entry.title)]
    for name in SHIPPED:
        model = cody.load_model(name, graph)
        for kind, rows in sample_kinds(model, graph, links, ("correct", "incorrect")).items():
            for entry in entries:
                made = at_sparsities(entry.name, scorer=name if entry.needs_scorer else None)
                made = tuple(replace(one, near=events_on_paths) for one in made)
                plan = EvaluationPlan("collegemsg", name, made, share=True)
                records = list(evaluate(model, graph, [Link(row, kind) for row in rows], plan))
                logit, probability = delta_logit(records), delta_probability(records)
                print(f"{name} {kind} {entry.title}: Δlogit {logit:+.2f}, Δprobability {probability:+.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"campus": on_campus, "shipped": on_shipped, "levels": on_levels}[sys.argv[1]](*sys.argv[2:3])
