"""Asking in a forked process what was asked before it was forked."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cody.engine.threads import one_thread

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

TESTS = Path(__file__).parents[1]
PROGRAM = """
import multiprocessing
import numpy as np, torch
from cody.engine import fast_model
from random_events import random_graph, random_network

torch.set_num_threads(2)
graph = random_graph(np.random.default_rng(0), nodes=30, events=200, edge_features=8)
models = [fast_model(random_network(graph, kind, dimension=32), graph) for kind in ("tgn", "tgat")]
sets = [frozenset({row}) for row in range(150, 190)]
known = [model.logits(graph.query(199), sets) for model in models]
large = torch.ones(1000, 1000)
root = float((large @ large).sqrt().max())  # both kinds of work that torch shares among threads

def ask():
    for model, answers in zip(models, known):
        assert np.allclose(model.logits(graph.query(199), sets), answers, atol=1e-4), "the answers differ"
        assert np.isfinite(model.logits(graph.query(198), sets)).all()
    assert float((large @ large).sqrt().max()) == root

child = multiprocessing.get_context("fork").Process(target=ask)
child.start()
child.join(20)
child.kill()
child.join()
print("exit code", child.exitcode, "threads", torch.get_num_threads())
"""


def test_a_process_that_was_forked_after_a_question_can_ask_too():
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_WAIT_POLICY": "passive"}  # threads that wait take no time
    words = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert (ended.stdout, ended.stderr) == ("exit code 0 threads 2\n", "")


def ask_for_a_moment():
    with one_thread():
        pass


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # that is the question
def test_a_process_that_is_forked_while_another_thread_asks_can_ask_too():
    """It has no other thread, so nobody would ever release what one was holding at that moment."""
    ended = threading.Event()

    def ask_on_and_on():
        while not ended.is_set():
            ask_for_a_moment()

    other = threading.Thread(target=ask_on_and_on)
    other.start()
    children = [multiprocessing.get_context("fork").Process(target=ask_for_a_moment) for _ in range(10)]
    for child in children:
        child.start()
    ended.set()
    other.join()
    until = time.monotonic() + 120
    for child in children:
        child.join(max(0.0, until - time.monotonic()))
        child.kill()
        child.join()
    assert [child.exitcode for child in children] == [0] * 10
