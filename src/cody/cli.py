"""The command line. Each command parses its arguments, calls one function of the library, and prints.

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from cody import policies, search, show, words
from cody._version import __version__
from cody.data import data_directory, datasets, fetch, load, save_graph, summarise, verify_graph
from cody.data.storage import is_saved_graph
from cody.errors import CallError, CodyError, did_you_mean
from cody.evaluate import metrics
from cody.evaluate import run as evaluation
from cody.evaluate.instances import PAPER_MARGIN, PAPER_PERIOD, TEST_PERIOD
from cody.evaluate.records import iterate_records
from cody.explain import explain as explain_link
from cody.graph import Query, TemporalGraph
from cody.nearby import Protected, events_among_nodes, events_on_paths
from cody.oracle import Model
from cody.policies import Policy
from cody.search import Search
from cody.what_if import Case, answer_cases, check_cases, effects, parse_rows, read_cases, read_rows

app = typer.Typer(
    help="Which past events, had they not happened, would have changed a prediction?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_commands = typer.Typer(
    help="Data sets: those known by name, and your own.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_commands, name="data")

# Into a file or a pipe, tables are as wide as they need to be.
_narrow = (sys.stdout is not None and sys.stdout.isatty()) or "COLUMNS" in os.environ
out = Console(markup=False, emoji=False, highlight=False, width=None if _narrow else 200)
messages = Console(stderr=True, markup=False, emoji=False, highlight=False)

DataOption = Annotated[str, typer.Option("--data", help="A data set's name, a file of events, or a saved graph.")]
ModelOption = Annotated[str, typer.Option("--model", help="A model's folder, or the name of a shipped one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
SortOption = Annotated[bool, typer.Option("--sort", help="Sort the events by time; equal times keep their order.")]
ScorerOption = Annotated[
    str | None, typer.Option("--scorer", help="What cody train-explainer trained. Default: that of a shipped model.")
]
OtherDataOption = Annotated[bool, typer.Option("--other-data", help="Ask the model about data it was not made for.")]


class Architecture(StrEnum):
    tgn = "tgn"
    tgat = "tgat"


class Engine(StrEnum):
    fast = "fast"
    replay = "replay"


class Explainer(StrEnum):
    cody = "cody"
    greedy = "greedy"
    greedy_then_cody = "greedy-then-cody"
    pgexplainer = "pgexplainer"
    tgnnexplainer = "tgnnexplainer"
    pbone = "pbone"
    random = "random"


class PolicyName(StrEnum):
    random = "random"
    temporal = "temporal"
    spatio_temporal = "spatio-temporal"
    event_impact = "event-impact"


class NearName(StrEnum):
    events = "events"
    nodes = "nodes"


class Replayed(StrEnum):
    window = "window"
    full = "full"


# Where names become functions.
SEARCHES: dict[Explainer, Search] = {
    Explainer.cody: search.cody,
    Explainer.greedy: search.greedy,
    Explainer.greedy_then_cody: search.greedy_then_cody,
}
POLICIES: dict[PolicyName, Policy] = {name: getattr(policies, name.name) for name in PolicyName}
NEARBY = {NearName.events: events_on_paths, NearName.nodes: events_among_nodes}


def _baseline(explainer: Explainer, scorer: str) -> tuple[Policy, Search]:
    """The policy and the search of a factual explainer. Some of them need torch, which takes a second to import."""
    if explainer is Explainer.random:
        return policies.random, search.top_share
    if explainer is Explainer.pbone:
        return policies.event_impact, search.top_share
    from cody.baselines import pgexplainer, tgnnexplainer

    chosen = tgnnexplainer if explainer is Explainer.tgnnexplainer else search.top_share
    return partial(pgexplainer, scorer=scorer), chosen


CANDIDATES = {Explainer.tgnnexplainer: 30}  # its paper's number; 64 for all others

SAY_EVERY = 30.0  # seconds between two lines about a long run, where there is no terminal


class Preset(StrEnum):
    paper = "paper"
    compact = "compact"


def main() -> None:
    """Run a command; an error of ours becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without → gets a question mark
    try:
        app()
    except CodyError as error:
        _say(Text.assemble(("error: ", "bold red"), words.plain(error, 2000)))
        sys.exit(2 if isinstance(error, CallError) else 1)
    except OSError as error:
        _say(Text.assemble(("error: ", "bold red"), words.plain(error, 2000)))
        sys.exit(1)


def _say(message: RenderableType) -> None:
    messages.print(message, soft_wrap=True)


def _print(parts: Iterable[RenderableType]) -> None:
    """Tables as wide as they are, prose (`Text`) at most 80 columns wide, other text as it is."""
    for part in parts:
        width = min(out.width, 80) if isinstance(part, Text) else None
        out.print(part, soft_wrap=isinstance(part, str), width=width)


def _print_json(document: Any) -> None:
    print(json.dumps(document, allow_nan=False))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cody {__version__}")
        raise typer.Exit


def _use_threads(count: int) -> None:
    """The matrices of one question are small: a second thread costs more than it helps."""
    import torch

    torch.set_num_threads(count)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """See which past event decides a real prediction."""
    with messages.status("Loading 59,835 messages and a trained TGN ..."):
        from cody.demo import run_demo

        _use_threads(1)
        result = run_demo()
    _print(show.demo(result))


@data_commands.command("list")
def data_list() -> None:
    """The data sets known by name, and which of them are here."""
    _print([show.datasets(datasets()), f"Data directory: {data_directory()} (set CODY_DATA to use another)"])


@data_commands.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A data set's name, a file of events, or a saved graph.")],
    verify: Annotated[bool, typer.Option("--verify", help="Check every column of a saved graph.")] = False,
    sort: SortOption = False,
    json_: JsonOption = False,
) -> None:
    """What a data set, file or saved graph holds."""
    graph = load(name, sort=sort)
    if verify:
        verify_graph(graph)
    summary = summarise(graph)
    if json_:
        _print_json({"data": name, **asdict(summary), "identity": graph.identity})
    else:
        _print([show.summary(name, graph, summary)])


@data_commands.command("events")
def data_events(
    name: Annotated[str, typer.Argument(help="A data set's name, a file of events, or a saved graph.")],
    node: Annotated[str | None, typer.Option(help="Only events of this node.")] = None,
    before: Annotated[int | None, typer.Option(min=0, help="Only rows before this one.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest ones.")] = 20,
    sort: SortOption = False,
) -> None:
    """List events with their rows, counted from 0."""
    graph = load(name, sort=sort)
    stop = graph.num_events if before is None else min(before, graph.num_events)
    rows = np.arange(max(0, stop - last), stop) if node is None else graph.history(graph.node(node), stop)[-last:]
    _print([show.events(graph, rows)])


@data_commands.command("fetch")
def data_fetch(name: Annotated[str, typer.Argument(help="The data set's name.")]) -> None:
    """Download a data set from its public source into the data directory."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task(name, total=None)
        path = fetch(name, lambda done, total: bar.update(task, completed=done, total=total))
    _print([f"{name} is at {path}"])


@data_commands.command("import")
def data_import(
    file: Annotated[str, typer.Argument(help="Parquet, csv, JODIE csv, ml_X.csv, or a data set's name.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder for the graph; it opens in no time, whatever its size.")],
    src: Annotated[str | None, typer.Option(help="Column of the sources.")] = None,
    dst: Annotated[str | None, typer.Option(help="Column of the destinations.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the times.")] = None,
    features: Annotated[str | None, typer.Option(help="Columns of event features, with commas between.")] = None,
    sort: SortOption = False,
) -> None:
    """Read a file of events and save it as a graph."""
    names = None if features is None else [name.strip() for name in features.split(",")]
    graph = load(file, src=src, dst=dst, time=time, features=names, sort=sort)
    save_graph(graph, out_)
    _print([show.summary(str(out_), graph, summarise(graph))])


@app.command()
def train(
    data: DataOption,
    model: Annotated[Architecture, typer.Option(help="The architecture.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder for the model; an interrupted training goes on there.")],
    preset: Annotated[Preset, typer.Option(help="Sizes: as in the paper, or several times cheaper.")] = Preset.compact,
    epochs: Annotated[int, typer.Option(min=1, help="At most this many passes over the training events.")] = 50,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many epochs without a better one.")] = 5,
    learning_rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Step size of Adam.")] = 3e-4,
    batch: Annotated[int | None, typer.Option(min=1, help="Events between two updates of the memory.")] = None,
    dimension: Annotated[int | None, typer.Option(min=1, help="Size of embeddings and memory.")] = None,
    neighbours: Annotated[int | None, typer.Option(min=1, help="Recent events that a node attends to.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Attention layers.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Processor threads; more help large models only.")] = 1,
    sort: SortOption = False,
    json_: JsonOption = False,
) -> None:
    """Train a model to predict links."""
    graph = load(data, sort=sort)
    from cody.models import ARCHITECTURES
    from cody.models.sizes import PRESETS
    from cody.models.train import Settings, new_network, train

    _use_threads(threads)
    asked = {"batch": batch, "dimension": dimension, "neighbours": neighbours, "layers": layers, "heads": heads}
    sizes = replace(PRESETS[preset], **{name: value for name, value in asked.items() if value is not None})
    network = new_network(ARCHITECTURES[model], graph, sizes, seed)
    steps = train(graph, network, Settings(epochs, patience, learning_rate, seed), out_)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    finished = None
    try:
        with Progress(*columns, console=messages, transient=True) as bar:
            task = bar.add_task("", total=None)
            for step in steps:
                if finished is None and step.epoch > 1:
                    _say(f"going on after epoch {step.epoch - 1}")
                finished = step.epoch if step.validation is not None else step.epoch - 1
                bar.update(task, description=f"epoch {step.epoch}", completed=step.batch, total=step.batches)
                if step.validation is not None:
                    _say(show.epoch(step))
    except KeyboardInterrupt:
        _say(f"stopped after epoch {finished}; the same command goes on from there" if finished else "stopped")
        raise typer.Exit(130) from None
    document = json.loads((out_ / "model.json").read_text(encoding="utf-8"))
    if json_:
        _print_json(document)
    else:
        _print([show.trained(out_, document)])


@app.command("train-explainer")
def train_explainer(
    out_: Annotated[Path, typer.Option("--out", help="Folder for the explainer.")],
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    links: Annotated[int, typer.Option(min=1, help="Links to learn from, of the training period.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over these links.")] = 30,
    learning_rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Step size of Adam.")] = 1e-3,
    size: Annotated[float, typer.Option(min=0.0, help="What an event costs that counts as important.")] = 2.0,
    entropy: Annotated[float, typer.Option(min=0.0, help="What an event costs that is neither.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same weights.")] = 0,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Train PGExplainer for a model: which past events its decisions rest on. T-GNNExplainer is guided by it."""
    graph = load(data, sort=sort)
    with messages.status("Loading the model ..."):
        from cody.baselines import Settings, train_explainer
        from cody.inference import load_model
        from cody.inference.soft import SoftModel

        _use_threads(1)
        settings = Settings(
            links=links, epochs=epochs, learning_rate=learning_rate, size=size, entropy=entropy, seed=seed
        )
        steps = train_explainer(SoftModel(load_model(model, graph, other_data=other_data)), settings, out_)
    with messages.status("Preparing the links ..."):
        for step in steps:
            _say(
                f"epoch {step.epoch:>3}  loss {step.loss:.4f}  decided alike {step.agreement:.1%}, "
                f"events kept {step.weight:.1%}"
            )
    document = json.loads((out_ / "explainer.json").read_text(encoding="utf-8"))
    if json_:
        _print_json(document)
    else:
        _print([f"Saved in {words.plain(out_)}. It belongs to model {document['model']} and data {document['data']}."])


@app.command("import-model")
def import_model(
    weights: Annotated[Path, typer.Argument(help="A state dict: safetensors, or .pth with nothing but tensors.")],
    data: DataOption,
    out_: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    layers: Annotated[int, typer.Option(min=1, help="Attention layers (n_layer).")],
    heads: Annotated[int, typer.Option(min=1, help="Attention heads (n_head).")],
    neighbours: Annotated[int, typer.Option(min=1, help="Recent events that a node attends to (n_degree).")],
    batch: Annotated[int, typer.Option(min=1, help="Events between two updates of the memory (bs).")],
    from_: Annotated[str, typer.Option("--from", help="Whose weights these are.")] = "tgn-original",
    sort: SortOption = False,
) -> None:
    """Import the weights of a model that was trained elsewhere."""
    if from_ != "tgn-original":
        raise CallError(f"cannot import models from {from_!r}{did_you_mean(from_, ['tgn-original'])}")
    graph = load(data, sort=sort)
    from cody.models.original import import_original

    sizes = import_original(weights, graph, out_, layers=layers, heads=heads, neighbours=neighbours, batch=batch)
    _print([f"Imported {weights.name} into {out_}: {sizes}"])


@app.command("what-if")
def what_if(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    event: Annotated[int | None, typer.Option(help="Row of the event whose link is scored.")] = None,
    without: Annotated[str, typer.Option(help="Rows of events that did not happen: 3,7,9")] = "",
    each: Annotated[bool, typer.Option("--each", help="Leave out past events near the link, one at a time.")] = False,
    cases: Annotated[Path | None, typer.Option(help='A JSON list of {"event": row, "removed": [rows]}.')] = None,
    engine: Annotated[Engine, typer.Option(help="The fast one, or the slow one that defines right.")] = Engine.fast,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Ask what a model would say without some past events."""
    if (event is None) == (cases is None) or (without and (each or cases is not None)) or (each and cases is not None):
        raise CallError("give --event ROW with --without ROWS or --each, or give --cases FILE")
    asked = read_cases(cases) if cases is not None else _one_link(int(event or 0), without)
    graph = load(data, sort=sort)
    check_cases(graph, asked)
    for case in asked:
        later = [row for row in case.removed if row >= case.event]
        if later and cases is None:
            _say(f"event {min(later)} does not lie before event {case.event}: leaving it out changes nothing")
    from cody.inference import fast_model, load_model, plain_model

    _use_threads(1)
    engines = {Engine.fast: fast_model, Engine.replay: plain_model}
    loaded = load_model(model, graph, engine=engines[engine], other_data=other_data)
    if each:
        found = effects(loaded, graph, graph.query(asked[0].event))
        asked += [Case(asked[0].event, frozenset({row})) for row in found.candidates.tolist()]
        logits = [found.logit, *found.without.tolist()]
    else:
        logits = answer_cases(loaded, graph, asked)
    if json_:
        _print_json([_answer(case, logit) for case, logit in zip(asked, logits, strict=True)])
    elif each:
        _print(show.effects(graph, found, shown=10))
    else:
        _print([show.answers(graph, asked, logits)])


def _one_link(event: int, without: str) -> list[Case]:
    removed = frozenset(parse_rows(without))
    return [Case(event, frozenset()), Case(event, removed)] if removed else [Case(event, frozenset())]


def _answer(case: Case, logit: float) -> dict[str, Any]:
    # Batches of other sizes round the last digits differently; six decimals are the same in all of them.
    score = round(words.probability(logit), 6)
    return {
        "event": case.event,
        "removed": sorted(case.removed),
        "logit": round(logit, 6),
        "score": score,
        "predicted": logit > 0,
    }


@app.command()
def explain(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    event: Annotated[int | None, typer.Option(help="Row of the event whose link is explained.")] = None,
    events: Annotated[str | None, typer.Option(help="Several rows, 10,20,30 or a file: one JSON line each.")] = None,
    src: Annotated[str | None, typer.Option(help="Source of a link that need not have happened.")] = None,
    dst: Annotated[str | None, typer.Option(help="Destination of that link.")] = None,
    time: Annotated[str | None, typer.Option(help="When: a number, or a date like '2004-07-28 05:08'.")] = None,
    explainer: Annotated[
        Explainer,
        typer.Option(
            metavar="NAME",
            help="Searches: greedy-then-cody, cody, greedy. Factual: pgexplainer, tgnnexplainer, pbone, random.",
        ),
    ] = Explainer.greedy_then_cody,
    policy: Annotated[
        PolicyName | None,
        typer.Option(
            metavar="NAME",
            help="What a search tries first: spatio-temporal (default), event-impact, temporal, random.",
        ),
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="At most so many recent events may be removed. Default: 64.")
    ] = None,
    hops: Annotated[int | None, typer.Option(min=1, help="How near. Default: as far as the model looks.")] = None,
    near: Annotated[NearName, typer.Option(help="On paths of that length, or among nodes.")] = NearName.events,
    protect: Annotated[
        list[str] | None,
        typer.Option(help="May not be removed: events=3,7 or nodes=105 or times=2004-07-01..2004-07-28. Repeatable."),
    ] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Budget of CoDy's tree search. Default: 300.")] = None,
    alpha: Annotated[float | None, typer.Option(help="CoDy: 0 explores, 1 exploits. Default: 2/3.")] = None,
    children: Annotated[int | None, typer.Option(min=1, help="GreeDy: events tried at each step. Default: 10.")] = None,
    first: Annotated[bool, typer.Option("--first", help="CoDy: stop at the first counterfactual.")] = False,
    sparsity: Annotated[
        float | None, typer.Option(help="Factual explainers that rank: share of the candidates. Default: 0.2.")
    ] = None,
    rollouts: Annotated[int | None, typer.Option(min=1, help="T-GNNExplainer. Default: 500.")] = None,
    scorer: ScorerOption = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="Budget of questions to the model.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Budget of time.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the random policy.")] = 0,
    verify: Annotated[
        Replayed, typer.Option(help="Confirm by replay since the oldest removed event, or of everything.")
    ] = Replayed.window,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Find the past events without which a model would have decided otherwise."""
    options = {"iterations": iterations, "alpha": alpha, "children": children, "stop_at_first": first or None}
    options |= {"sparsity": sparsity, "rollouts": rollouts}
    order, chosen = _policy_and_search(explainer, policy, scorer, model)
    chosen = _with_options(explainer, chosen, {name: value for name, value in options.items() if value is not None})
    graph = load(data, sort=sort)
    protected = _protected(graph, protect or [])
    queries = _questions(graph, event, events, src, dst, time)
    with messages.status("Loading the model ..."):
        from cody.inference import load_model

        _use_threads(1)
        loaded = load_model(model, graph, other_data=other_data)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        many = events is not None
        total = len(queries) if many else evaluations or iterations or 300
        task = bar.add_task("links" if many else "sets of events tried", total=total)
        for number, query in enumerate(queries):
            why = explain_link(
                loaded,
                graph,
                query,
                policy=order,
                search=chosen,
                size=candidates or CANDIDATES.get(explainer, 64),
                hops=hops,
                near=NEARBY[near],
                protect=protected,
                seed=seed,
                evaluations=evaluations,
                seconds=seconds,
                full_replay=verify is Replayed.full,
                watch=None if many else lambda oracle: bar.update(task, completed=len(oracle.asked)),
            )
            why = replace(why, parameters=why.parameters | {"data": data, "model": model})
            if many:
                bar.update(task, completed=number + 1)
                print(why.to_json(), flush=True)
    if json_ and not many:
        print(why.to_json())
    elif not many:
        _print(show.explanation(why))


def _policy_and_search(
    explainer: Explainer, policy: PolicyName | None, scorer: str | None, model: str
) -> tuple[Policy, Search]:
    if scorer is not None and explainer not in (Explainer.pgexplainer, Explainer.tgnnexplainer):
        raise CallError(f"--scorer is no option of the explainer {explainer.value!r}, which learns nothing")
    if explainer in SEARCHES:
        return POLICIES[policy or PolicyName.spatio_temporal], SEARCHES[explainer]
    if policy is not None:
        raise CallError(f"--policy is no option of the explainer {explainer.value!r}, which has an order of its own")
    return _baseline(explainer, scorer or model)


def _with_options(explainer: Explainer, chosen: Search, given: dict[str, Any]) -> Search:
    """A search with its options; those of another search are refused."""
    known = inspect.signature(chosen).parameters
    for name in given:
        if name not in known:
            option = {"stop_at_first": "--first"}.get(name, f"--{name}")
            raise CallError(f"{option} is no option of the explainer {explainer.value!r}")
    for name in ("alpha", "sparsity"):
        if not 0 <= given.get(name, 0.0) <= 1:
            raise CallError(f"--{name} must lie between 0 and 1, not {given[name]}")
    return partial(chosen, **given)


def _protected(graph: TemporalGraph, texts: list[str]) -> Protected | None:
    """What `--protect` names, each as kind=values. A comma may be part of a node's name."""
    found: dict[str, list[Any]] = {"events": [], "nodes": [], "times": []}
    for text in texts:
        kind, _, values = text.partition("=")
        if kind not in found or not values.strip(", "):
            raise CallError(
                f"--protect {text!r} is not understood; write events=3,7 or nodes=105,9 or times=2004-07-01..2004-07-28"
            )
        if kind == "events":
            found[kind] += parse_rows(values)
        elif kind == "nodes":
            whole = graph.names is not None and values in graph.names.astype(str)
            found[kind] += [values] if whole else [name.strip() for name in values.split(",") if name.strip()]
        else:
            found[kind].append(_time_range(text, values))
    return Protected(**found) if texts else None


def _time_range(text: str, values: str) -> tuple[float, float]:
    """Both ends included; a day as the end is the whole day."""
    begin, dots, end = (part.strip() for part in values.partition(".."))
    if not (begin and dots and end):
        raise CallError(f"--protect {text!r} is no time range; write times=BEGIN..END")
    first, last = words.parse_moment(begin), words.parse_moment(end)
    last += 86_399.999 if re.fullmatch(r"\d{4}-\d\d-\d\d", end) else 0.0
    if last < first:
        raise CallError(f"--protect {text!r} ends before it begins")
    return first, last


def _questions(
    graph: TemporalGraph, event: int | None, events: str | None, src: str | None, dst: str | None, time: str | None
) -> list[Query]:
    """The links that were asked about, in one of three ways."""
    link = [src, dst, time]
    if (event is not None) + (events is not None) + any(part is not None for part in link) != 1 or (
        any(part is None for part in link) and event is None and events is None
    ):
        raise CallError("give --event ROW, or --events ROWS, or --src, --dst and --time of a link")
    if event is not None:
        return [graph.query(event)]
    if events is not None:
        rows = read_rows(events)
        if not rows:
            raise CallError(f"--events {events!r} names no event")
        return [graph.query(row) for row in rows]
    query = graph.link(src, dst, words.parse_moment(str(time)))
    if not query.before:
        began = words.moment(float(graph.time[0]))
        raise CallError(f"--time {time!r} is before the first event ({began}): there is no past to explain it by")
    return [query]


@app.command()
def evaluate(
    out_: Annotated[Path, typer.Option("--out", help="File for the records, JSON Lines. A run that is there goes on.")],
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    explainers: Annotated[
        str, typer.Option(help="cody-POLICY, greedy-POLICY, greedy-then-cody-POLICY, factual ones; all.")
    ] = "cody-spatio-temporal,greedy-spatio-temporal",
    instances: Annotated[int, typer.Option(min=1, help="Links of each kind.")] = 100,
    kinds: Annotated[str, typer.Option(help="Predictions to explain: right ones, wrong ones.")] = "correct,incorrect",
    period: Annotated[
        str | None, typer.Option(help="Which events, as shares of all. Default: 0.85..1, the test.")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Leave out logits closer to 0. Default: 0.")] = None,
    near: Annotated[NearName | None, typer.Option(help="Candidates as in explain. Default: events.")] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="As in the published tables: --period 0.2..0.6 --margin 0.2 --near nodes.")
    ] = False,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="At most so many. Default: the explainer's own.")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Budget of tree searches.")] = 300,
    alpha: Annotated[
        float, typer.Option(show_default="2/3", help="Tree searches: 0 explores, 1 exploits.")
    ] = search.ALPHA,
    evaluations: Annotated[int | None, typer.Option(min=1, help="Budget of questions, for each explainer.")] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Explainers share answers about a link: faster, but without timings.")
    ] = False,
    scorer: ScorerOption = None,
    seed: Annotated[int, typer.Option(min=0, help="For drawing links, and for random policies.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes on this machine.")] = 1,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster, or local: work there.")] = None,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Run explainers on the same links, and keep a record of each answer. Stopped, the same command goes on."""
    chosen = _explainers(explainers, iterations, alpha, scorer or model)
    if scorer is not None and not _scorers(chosen):
        raise CallError(f"--scorer is no option of {explainers!r}: only pgexplainer and tgnnexplainer use one")
    nearby = NEARBY[near or (NearName.nodes if paper else NearName.events)]
    options: dict[str, Any] = {"near": nearby, "evaluations": evaluations}
    options |= {} if candidates is None else {"size": candidates}
    plan = evaluation.Plan(data, model, tuple(replace(each, **options) for each in chosen), seed, share)
    sample = evaluation.Sample(
        instances,
        tuple(dict.fromkeys(kind.strip() for kind in kinds.split(",") if kind.strip())),
        _period(period) if period is not None else PAPER_PERIOD if paper else TEST_PERIOD,
        margin if margin is not None else PAPER_MARGIN if paper else 0.0,
    )
    with messages.status("Loading the model ..."):
        from cody.inference import load_model

        _use_threads(1)
        graph = load(data, sort=sort)
        loaded = load_model(model, graph, other_data=other_data)
        _check_scorers(chosen, loaded)
    try:
        with _way_to_evaluate(data, graph, model, other_data, workers, ray) as way:
            steps = evaluation.run(out_, loaded, graph, plan, sample, evaluate=way)
            with messages.status("Drawing links ..."):
                first = next(steps)
            _say_what_is_missing(first.links, sample)
            _follow(first, steps)
    except KeyboardInterrupt:
        _say(f"stopped; what is done is in {out_}, and the same command goes on from there")
        raise typer.Exit(130) from None
    wanted = {evaluation.key(each.name, link) for each in chosen for link in first.links}
    summaries = metrics.summaries(record for record in iterate_records(out_) if evaluation.key_of(record) in wanted)
    if json_:
        _print_json([group._asdict() | asdict(summary) for group, summary in summaries.items()])
    else:
        _print(show.evaluation(summaries))


def _say_what_is_missing(links: Sequence[evaluation.Link], sample: evaluation.Sample) -> None:
    for kind in sample.kinds:
        found = sum(link.kind == kind for link in links)
        if found < sample.instances:
            exist = f"only {found:,} of the {words.count(sample.instances, f'{kind} link')} asked for"
            _say(f"{exist} {'exists' if found == 1 else 'exist'} in this period with this margin")


@contextmanager
def _way_to_evaluate(
    data: str, graph: TemporalGraph, model: str, other_data: bool, workers: int, ray: str | None
) -> Iterator[evaluation.Evaluate]:
    """Who does the work: this process, several of them, or a cluster."""
    from cody.evaluate.on_ray import evaluate_on_ray
    from cody.evaluate.workers import evaluate_in_processes, open_model

    if ray is not None and workers > 1:
        raise CallError("give --workers or --ray, not both")
    if ray is not None:
        yield partial(evaluate_on_ray, ray)
    elif workers == 1:
        yield evaluation.evaluate
    else:
        with TemporaryDirectory(prefix="cody-") as folder:
            saved = Path(data) if is_saved_graph(Path(data)) else save_graph(graph, Path(folder) / "graph")
            yield partial(evaluate_in_processes, partial(open_model, saved, model, other_data), workers)


def _explainers(names: str, iterations: int, alpha: float, scorer: str) -> list[evaluation.Explainer]:
    """The explainers of that name, each with its policy, its search and its own options."""
    if not 0 <= alpha <= 1:
        raise CallError(f"--alpha must lie between 0 and 1, not {alpha}")
    searches: dict[str, Search] = {
        "cody": partial(search.cody, iterations=iterations, alpha=alpha),
        "greedy": search.greedy,
        "greedy-then-cody": partial(search.greedy_then_cody, iterations=iterations, alpha=alpha),
    }
    known = {
        f"{kind}-{policy.value}": (POLICIES[policy], chosen)
        for kind, chosen in searches.items()
        for policy in PolicyName
    }
    factual = {explainer.value: explainer for explainer in Explainer if explainer not in SEARCHES}
    asked = [name.strip() for name in names.split(",") if name.strip()]
    asked = [*known, *factual] if asked == ["all"] else asked
    made = []
    for name in asked:
        if name in known:
            made.append(evaluation.Explainer(name, *known[name]))
        elif name in factual:
            size = CANDIDATES.get(factual[name], 64)
            made.append(evaluation.Explainer(name, *_baseline(factual[name], scorer), size=size))
        else:
            raise CallError(f"there is no explainer {name!r}{did_you_mean(name, [*known, *factual])}")
    return made


def _scorers(chosen: list[evaluation.Explainer]) -> set[str]:
    """The trained scorers that these explainers need."""
    return {each.policy.keywords["scorer"] for each in chosen if isinstance(each.policy, partial)}


def _check_scorers(chosen: list[evaluation.Explainer], model: Model) -> None:
    """An explainer that was not trained for this model is refused before anything is run."""
    for scorer in _scorers(chosen):
        from cody.baselines import load_pgexplainer

        load_pgexplainer(scorer, model)


def _period(text: str) -> tuple[float, float]:
    try:
        first, last = (float(share) for share in text.split(".."))
    except ValueError:
        raise CallError(f"--period {text!r} is not understood; write two shares of the events: 0.85..1") from None
    return first, last


def _follow(first: evaluation.Progress, steps: Iterator[evaluation.Progress]) -> None:
    """Show how far an evaluation is: a bar on a terminal, elsewhere a line now and then."""
    if first.finished:
        _say(f"{first.finished:,} of {first.total:,} records are there already")
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    begun = said = monotonic()
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task("records", completed=first.finished, total=first.total)
        for step in steps:
            rate = (step.finished - first.finished) / max(monotonic() - begun, 1e-9)
            bar.update(task, completed=step.finished, description=f"records, {rate:.1f} a second")
            if not messages.is_terminal and monotonic() - said > SAY_EVERY:
                said = monotonic()
                left = words.ago((step.total - step.finished) / rate)
                _say(f"{step.finished:,} of {step.total:,} records, {rate:.1f} a second, {left} left")


@app.command()
def bench(
    data: DataOption = "collegemsg",
    preset: Annotated[Preset, typer.Option(help="Sizes of the models.")] = Preset.paper,
    queries: Annotated[int, typer.Option(min=1, help="Explanations to average over.")] = 20,
    sizes: Annotated[str, typer.Option(help="Events of generated graphs: how cost grows.")] = "10000,100000,1000000",
    json_: JsonOption = False,
) -> None:
    """Measure the exact engine and whole explanations against plain forward passes."""
    wanted = sorted(set(parse_rows(sizes)))
    if wanted and wanted[0] < 1000:
        raise CallError(f"graphs of fewer than 1,000 events say nothing about growth: {sizes!r}")
    from cody import bench as measurements

    costs = []
    with messages.status("Measuring ...") as status:
        for cost in measurements.run(data, preset, queries, wanted):
            costs.append(cost)
            status.update(f"Measuring ... {len(costs)} done")
    if json_:
        results = [measurements.as_json(cost) for cost in costs]
        _print_json({"machine": measurements.machine(), "data": data, "preset": preset, "results": results})
        return
    engines = [cost for cost in costs if isinstance(cost, measurements.EngineCost)]
    explanations = [cost for cost in costs if isinstance(cost, measurements.ExplanationCost)]
    growth = [cost for cost in costs if isinstance(cost, measurements.GrowthCost)]
    _print(show.bench(engines, explanations, growth, measurements.machine()))


class TableFormat(StrEnum):
    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


RecordFiles = Annotated[list[Path], typer.Argument(help="Files of records that cody evaluate wrote; also .gz.")]


@app.command("tables")
def tables_(
    files: RecordFiles,
    format_: Annotated[TableFormat, typer.Option("--format", help="How they are written.")] = TableFormat.text,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's own figures beside ours.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Bootstrap intervals of 95 %.")] = False,
) -> None:
    """Compare explainers as the paper's tables do."""
    from cody.evaluate import typeset
    from cody.evaluate.records import read_records
    from cody.evaluate.tables import tables

    records = [record for file in files for record in read_records(file)]
    made = tables(records, paper=paper, rng=np.random.default_rng(0) if intervals else None)
    writers = {
        TableFormat.text: typeset.as_text,
        TableFormat.markdown: typeset.as_markdown,
        TableFormat.latex: typeset.as_latex,
        TableFormat.csv: typeset.as_csv,
    }
    print(writers[format_](made), end="")


@app.command()
def figures(
    files: RecordFiles,
    out_: Annotated[Path, typer.Option("--out", help="Folder for the figures, as SVG and PNG.")],
) -> None:
    """Draw the figures of the paper's evaluation."""
    from cody.evaluate.figures import save_figures
    from cody.evaluate.records import read_records

    records = [record for file in files for record in read_records(file)]
    for path in save_figures(records, out_):
        print(path)
