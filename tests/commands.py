"""Run a command in this process, on a small log and a model with random weights."""

import numpy as np
from click.testing import CliRunner

from cody import cli
from cody.data import save_graph
from cody.errors import CallError, CodyError
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network


def run(*words, code=0):
    """Standard output of a command that must end with the given exit code; for an error, its message."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    if isinstance(result.exception, CodyError):
        assert code == (2 if isinstance(result.exception, CallError) else 1), result.exception
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def data_and_model(folder):
    """The options that name a log of 300 events and a TGN for it, both saved in the folder."""
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return ["--data", str(folder / "events"), "--model", str(folder / "model")]
