"""Evaluations on a real Ray cluster of several nodes on this machine, one of which is killed in the middle."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cody import search
from cody.engine import fast_model
from cody.errors import CallError, CodyError, ModelError
from cody.search import policies
from cody.study.audit import audit
from cody.study.on_ray import evaluate_on_ray
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Explainer, Link, Sample, run
from random_events import random_graph, random_network
from some_records import timeless

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="Ray is not installed: pip install ray")

EXPLAINERS = (
    Explainer("cody-random", policies.random, partial(search.cody, iterations=60), size=20),
    Explainer("greedy-temporal", policies.temporal, search.greedy, size=20),
)
PLAN = EvaluationPlan("made", "made", EXPLAINERS, seed=3)


@pytest.fixture(scope="module")
def made():
    graph = random_graph(np.random.default_rng(5), nodes=30, events=600)
    return fast_model(random_network(graph, "tgn"), graph), graph


@pytest.fixture(autouse=True)
def disconnected():
    """Each test makes its own connection to the cluster."""
    yield
    if ray is not None:
        ray.shutdown()


@pytest.fixture(scope="module")
def cluster():
    """A head that does no work, and two nodes of one processor each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    yield made, nodes
    made.shutdown()


def dead_nodes():
    """How many the cluster has noticed; that takes a few seconds."""
    until = time.monotonic() + 120
    while all(node["Alive"] for node in ray.nodes()) and time.monotonic() < until:
        time.sleep(0.2)
    return sum(not node["Alive"] for node in ray.nodes())


@needs_ray
@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_cluster_gives_the_same_records_though_a_node_is_killed(made, cluster, tmp_path):
    whole, nodes = cluster
    sample = Sample(12, period=(0.3, 1.0))
    alone = [step.record for step in run(tmp_path / "alone.jsonl", *made, PLAN, sample) if step.record]
    killed = False
    ray.init(address=whole.address, log_to_driver=False)  # the run uses a connection that is there, and leaves it open
    for step in run(tmp_path / "ray.jsonl", *made, PLAN, sample, evaluate=partial(evaluate_on_ray, whole.address)):
        if step.finished >= 6 and not killed:
            killed = True
            whole.remove_node(nodes[0], allow_graceful=False)
            whole.add_node(num_cpus=1)  # a node that joins later is used too
    assert killed
    assert dead_nodes() == 1
    assert len(alone) == 48
    assert timeless(read_records(tmp_path / "ray.jsonl")) == timeless(alone)


@needs_ray
@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed_and_a_run_that_is_resumed_lose_and_double_nothing(made, cluster, tmp_path):
    def fatal_once(graph, query, events, oracle, rng):
        with suppress(FileExistsError):
            (tmp_path / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return policies.temporal(graph, query, events, oracle, rng)

    sample, greedy = Sample(4, period=(0.3, 1.0)), EXPLAINERS[1]
    plan = replace(PLAN, explainers=(replace(greedy, policy=fatal_once),))
    (tmp_path / "killed").touch()  # not this process
    alone = [step.record for step in run(tmp_path / "alone.jsonl", *made, plan, sample) if step.record]
    (tmp_path / "killed").unlink()
    on_cluster = partial(evaluate_on_ray, cluster[0].address)
    first = run(tmp_path / "ray.jsonl", *made, plan, sample, evaluate=on_cluster)
    assert sum(1 for _, step in zip(range(4), first, strict=False) if step.record) > 1
    first.close()  # as when the driver ends in the middle
    assert (tmp_path / "killed").exists()
    before = len(read_records(tmp_path / "ray.jsonl"))
    rest = [step.record for step in run(tmp_path / "ray.jsonl", *made, plan, sample, evaluate=on_cluster)]
    found = read_records(tmp_path / "ray.jsonl")
    assert 0 < before < len(found) == before + sum(record is not None for record in rest)
    assert timeless(found) == timeless(alone)


@needs_ray
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("error", [ModelError, CallError])
def test_an_error_about_a_link_is_recorded_and_one_about_the_call_ends_the_run(made, cluster, error):
    def confused(graph, query, events, oracle, rng):
        raise error("this policy has a headache")

    plan = replace(PLAN, explainers=(Explainer("confused", confused, search.greedy),))
    entries = evaluate_on_ray(cluster[0].address, *made, [Link(200, "correct")], plan)
    if error is ModelError:
        assert [entry.reason for entry in entries] == ["this policy has a headache"]
    else:
        with pytest.raises(CodyError, match="headache"):
            list(entries)


@needs_ray
@pytest.mark.filterwarnings("default")
def test_an_audit_on_a_cluster_measures_the_same_and_is_resumed(made, cluster, tmp_path):
    file = tmp_path / "audit.jsonl"
    alone = audit(*made, links=3, out=file)
    header, first, *_ = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(header + first)
    seen = []
    shared = audit(
        *made, links=3, out=file, ray=cluster[0].address, watch=lambda done, total: seen.append((done, total))
    )
    assert shared == alone
    assert seen == [(done, 6) for done in range(2, 7)]
    with pytest.raises(CallError, match="not both"):
        audit(*made, links=3, ray="local", workers=2, opener=print)


def test_without_ray_the_error_says_how_to_install_it(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CodyError, match=r"--ray needs ray, which is not installed: pip install .*\[ray\]"):
        next(evaluate_on_ray("local", *made, [Link(200, "correct")], PLAN))


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999999"])
def test_an_address_without_a_cluster_is_refused_at_once(made, address, monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # the cluster of the other tests may still be there
    with pytest.raises(CallError, match="there is no Ray cluster at"):
        next(evaluate_on_ray(address, *made, [Link(200, "correct")], PLAN))


@contextmanager
def ray_node(home, *options):
    """A node as `ray start` makes it, on a machine whose home is this folder; it is gone when the block ends."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=100000000", *options]
    with (home / "log").open("wb") as log:
        environment = os.environ | {"HOME": str(home), "RAY_AUTH_MODE": "token"}
        node = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 240
        while b"--block" not in (home / "log").read_bytes():  # what it says once it runs
            assert node.poll() is None, (home / "log").read_text()
            assert time.monotonic() < until, (home / "log").read_text()
            time.sleep(0.2)
        yield
    finally:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The address of two nodes that were started as docs/evaluate.md says, and a home with their token."""
    homes = [tmp_path_factory.mktemp(name) for name in ("head", "node")]
    for home in homes:
        (home / ".ray").mkdir()
        (home / ".ray" / "auth_token").write_text("made up for this test, " + "x" * 40)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as nodes:
        port = address.partition(":")[2]
        nodes.enter_context(ray_node(homes[0], "--head", f"--port={port}", "--include-dashboard=false"))
        nodes.enter_context(ray_node(homes[1], f"--address={address}"))
        yield address, homes[0]


def evaluate_there(address, home, out, **variables):
    command = [sys.executable, "-m", "cody", "evaluate", "--explainers", "greedy-spatio-temporal", "--instances", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), **variables}
    command += ["--out", str(out), "--ray", address]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs_ray
def test_two_nodes_started_as_documented_do_the_work(secured, tmp_path):
    address, home = secured
    ended = evaluate_there(address, home, tmp_path / "run.jsonl", RAY_AUTH_MODE="token")
    assert ended.returncode == 0, ended.stderr
    assert len(read_records(tmp_path / "run.jsonl")) == 4


@needs_ray
@pytest.mark.parametrize("variables", [{}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "disabled"}], ids=str)
def test_without_the_token_of_the_cluster_there_is_one_clear_error(secured, tmp_path, variables):
    ended = evaluate_there(secured[0], tmp_path, tmp_path / "run.jsonl", **variables)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: the Ray cluster at '{secured[0]}' refuses this process")
    assert "RAY_AUTH_MODE=token" in line
