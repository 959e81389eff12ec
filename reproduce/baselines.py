"""How good and how costly the factual baselines are, compared with the searches: the figures of docs/baselines.md.

    python reproduce/baselines.py campus      where the planted cause of a link stands in each ranking
    python reproduce/baselines.py shipped     decisions with and without what each explanation names, collegemsg

Times are of the processor, one thread. Prints one line for each model and explainer.
"""

import sys
import time

import numpy as np
import torch

import cody
from cody.baselines import Settings, explore, learned_order
from cody.baselines.differentiable import SoftModel
from cody.baselines.pgexplainer import new_scorer
from cody.baselines.train import train_scorer
from cody.data import campus
from cody.decision import flips
from cody.evaluate.instances import sample_links
from cody.explainers import FACTUAL, SEARCHES, Explainer, explainer, find
from cody.inference import fast_model
from cody.models.sizes import Sizes
from cody.models.tgat import TGAT
from cody.models.tgn import TGN
from cody.models.train import Settings as ModelSettings
from cody.models.train import new_network, new_optimizer, run_epoch, split
from cody.oracle import Oracle
from cody.policies import event_impact, random, spatio_temporal
from cody.search import top_share


def trained_on_campus(architecture, made):
    graph, parts = made.graph, split(made.graph, ModelSettings())
    network = new_network(architecture, graph, Sizes(dimension=24, neighbours=8, batch=50), seed=0)
    optimizer = new_optimizer(network, 2e-3)
    for epoch in range(6):
        list(run_epoch(network, optimizer, graph.select(parts.train), 0, epoch))
    return fast_model(network, graph), parts.test


def on_campus():
    """The answers that a model predicts in the test period; the cause of each is one event among 64."""
    made = campus(students=100, seed=0)
    graph = made.graph
    for architecture in (TGN, TGAT):
        model, test = trained_on_campus(architecture, made)
        soft = SoftModel(model)
        rows = [row for row in test.tolist() if made.causes[row] and "student" in graph.name(graph.dst[row])]
        rows = [row for row in rows if model.logits(graph.query(row), [frozenset()])[0] > 0]
        policies = {"random": random, "PBONE": event_impact}
        for seed in range(3):
            scorer = new_scorer(soft.network.sizes, 128, seed)
            started = time.process_time()
            list(train_scorer(soft, Settings(links=300, seed=seed), scorer))
            print(f"{architecture.__name__} PGExplainer, seed {seed}: trained in {time.process_time() - started:.0f} s")
            policies[f"PGExplainer, seed {seed}"] = learned_order(soft, scorer)
        for name, policy in policies.items():
            ranks = np.array([rank_of_cause(model, policy, graph.query(row), *made.causes[row]) for row in rows])
            places = (
                f"first {(ranks == 0).mean():.2f}, among five {(ranks < 5).mean():.2f}, mean rank {ranks.mean():.1f}"
            )
            print(f"{architecture.__name__} {name}: {places}")
        found = [explored(model, policies["PGExplainer, seed 0"], graph.query(row)) for row in rows]
        causes = [next(iter(made.causes[row])) for row in rows]
        kept = np.mean([cause in one.found.rows for one, cause in zip(found, causes, strict=True)])
        single = np.mean([one.levels[0].kept == (cause,) for one, cause in zip(found, causes, strict=True)])
        size = np.mean([len(one.found.rows) for one in found])
        print(
            f"{architecture.__name__} T-GNNExplainer: keeps the cause {kept:.2f}, with {size:.1f} events; "
            f"alone it keeps the cause {single:.2f}; {len(rows)} links"
        )


def ranked(model, policy, query, size):
    oracle = Oracle(model, query)
    events = cody.candidates(model.graph, query, size=size)
    return oracle, policy(model.graph, query, events, oracle, np.random.default_rng(query.before))


def rank_of_cause(model, policy, query, cause):
    return ranked(model, policy, query, size=64)[1].tolist().index(cause)


def explored(model, policy, query):
    return explore(*ranked(model, policy, query, find("tgnnexplainer").size))


def on_shipped(links=100):
    graph = cody.load("collegemsg")
    for name in ("tgn-collegemsg", "tgat-collegemsg"):
        model = cody.load_model(name, graph)
        entries = [*FACTUAL, *map(find, SEARCHES)]
        explainers = {
            entry.title: explainer(entry.name, scorer=name if entry.needs_scorer else None) for entry in entries
        }
        explainers["spatio-temporal"] = Explainer("spatio-temporal", spatio_temporal, top_share)
        for correct in (True, False):
            rows = sample_links(model, graph, links, correct=correct)
            for title, one in explainers.items():
                print(f"{name} {'correct' if correct else 'incorrect'} {title}:", judged(model, rows, one))


def judged(model, rows, explainer):
    without, only, share, seconds, evaluations = [], [], [], [], []
    for row in rows.tolist():
        query = model.graph.query(row)
        events = frozenset(cody.candidates(model.graph, query, size=explainer.size).tolist())
        model.logits(query, [frozenset()])
        started = time.process_time()
        oracle, ranking = ranked(model, explainer.policy, query, explainer.size)
        chosen = frozenset(explainer.search(oracle, ranking).rows)
        seconds.append(time.process_time() - started)
        evaluations.append(len(oracle.asked))
        original, removed, kept = oracle.ask([frozenset(), chosen, events - chosen])
        without.append(flips(original, removed))
        only.append(not flips(original, kept))
        share.append(len(chosen) / max(1, len(events)))
    return (
        f"changes without it {np.mean(without):.2f}, stays without the other candidates {np.mean(only):.2f}, "
        f"share {np.mean(share):.2f}, {np.mean(seconds):.3f} s, {np.mean(evaluations):.0f} evaluations"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"campus": on_campus, "shipped": on_shipped}[sys.argv[1]]()
