"""Why the prediction that is explained may differ from that of a user's own loop: each cause, and whether any is left.

    python reproduce/own_loop.py bitcoin_otc.parquet collegemsg --links 1000
    python reproduce/own_loop.py collegemsg --links 1000 --tgb PATH/TO/TGB       # with the modules of a clone of TGB
    python reproduce/own_loop.py bitcoin_otc.parquet --links 0 --explain 1000    # does any explanation fail?
    python reproduce/own_loop.py collegemsg --links 0 --explain 100 --record {data}.jsonl    # how long do they take?

A TGN is trained as in the library's own example: 70 % of the events, a loader for each part, negatives drawn at random,
the memory updated after each batch. Then the test links are scored by three loops:

exact    the memory is built anew by the trained weights; neighbours are the most recent ones, messages sorted stably
library  the same with the library's own `LastNeighborLoader` and sort
as is    the example's loop as it is: the memory is the one that training has left behind

and `cody.adapters.compare` says which of the scores are those that `pyg.wrap` explains, and why the others are not.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import TemporalData
from torch_geometric.loader import TemporalDataLoader
from torch_geometric.nn.models.tgn import LastNeighborLoader

import cody
from cody.adapters import ScoreComparison, compare, pyg

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
BATCH, NEIGHBOURS, NEGATIVES = 200, 10, 20


class Modules(NamedTuple):
    """A user's TGN."""

    memory: Any
    gnn: Any
    link_predictor: Any


class Library(NamedTuple):
    """What differs between the libraries."""

    new: Callable[[TemporalData, int], Modules]
    loader: Any  # its `LastNeighborLoader`
    one_by_one: bool  # whether its test loop scores links one by one, each with its negatives
    probabilities: bool  # whether its link predictor ends with a sigmoid


def load(name: str) -> TemporalData:
    """Events as the library has them: the rating of bitcoin-otc as message, else a 1; times in seconds."""
    if not name.endswith("bitcoin_otc.parquet"):
        from pyg_tgn import temporal_data

        return temporal_data(cody.load(name))
    import pyarrow.parquet as parquet

    table = parquet.read_table(name)
    src, dst, t, rating = (torch.tensor(table[column].to_numpy()) for column in ("src", "dst", "t", "rating"))
    return TemporalData(src=src.long(), dst=dst.long(), t=t.long() - int(t[0]), msg=rating.float()[:, None] / 10)


def new_pyg(data: TemporalData, width: int) -> Modules:
    from pyg_tgn import new_tgn

    return Modules(*new_tgn(data, width))


def new_tgb(data: TemporalData, width: int) -> Modules:
    """The same with TGB's modules."""
    from modules.decoder import LinkPredictor
    from modules.emb_module import GraphAttentionEmbedding
    from modules.memory_module import TGNMemory
    from modules.msg_agg import LastAggregator
    from modules.msg_func import IdentityMessage

    messages = data.msg.size(-1)
    parts = {"message_module": IdentityMessage(messages, width, width), "aggregator_module": LastAggregator()}
    memory = TGNMemory(data.num_nodes, messages, width, width, **parts)
    gnn = GraphAttentionEmbedding(width, width, messages, memory.time_enc)
    return Modules(memory, gnn, LinkPredictor(width))


def library(clone: Path | None) -> Library:
    """PyG, or TGB in a clone."""
    if clone is None:
        return Library(new_pyg, LastNeighborLoader, one_by_one=False, probabilities=False)
    sys.path.insert(0, str(clone))
    from modules.neighbor_loader import LastNeighborLoader as LoaderOfTgb

    return Library(new_tgb, LoaderOfTgb, one_by_one=True, probabilities=True)


def logits_of(predictor: Any, source: Tensor, target: Tensor) -> Tensor:
    """What the predictor says before a sigmoid."""
    return predictor.lin_final((predictor.lin_src(source) + predictor.lin_dst(target)).relu()).flatten()


class ExactNeighbours:
    """What the library's loader is meant to give: the latest events of each node, whatever else happens."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 0
        self.latest: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def __call__(self, n_id: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = [(other, node, row) for node in n_id.tolist() for other, row in self.latest[node]]
        others, nodes, rows = (torch.tensor(column, dtype=torch.long) for column in zip(*found, strict=True)) if found else [n_id[:0]] * 3  # fmt: skip  # noqa: E501
        everyone = torch.cat([n_id, others]).unique()
        return everyone, torch.stack([torch.searchsorted(everyone, end) for end in (others, nodes)]), rows

    def insert(self, src: Tensor, dst: Tensor) -> None:
        for one, other in zip(src.tolist(), dst.tolist(), strict=True):
            for node, partner in ((other, one), (one, other)):
                self.latest[node] = [*self.latest[node], (partner, self.count)][-self.size :]
            self.count += 1


def sort_stably(memory: Any) -> None:
    """Let the memory put a node's messages of the same time into the order of the log."""

    def update(src: Tensor, dst: Tensor, t: Tensor, raw_msg: Tensor, store: dict[int, Any]) -> None:
        for node in src.unique().tolist():
            places = (src == node).nonzero().flatten()
            store[node] = (src[places], dst[places], t[places], raw_msg[places])

    memory._update_msg_store = update


def train(tgn: Modules, data: TemporalData, part: TemporalData, epochs: int, new_loader: Any) -> None:
    """As the library's example trains, with its own loader; the memory is left as the last epoch has made it."""
    parameters = {parameter for module in tgn for parameter in module.parameters()}
    optimizer = torch.optim.Adam(parameters, lr=1e-4)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    for epoch in range(epochs):
        for module in tgn:
            module.train()
        tgn.memory.reset_state()
        loader, total = new_loader(data.num_nodes, NEIGHBOURS), 0.0
        for batch in TemporalDataLoader(part, batch_size=BATCH):
            optimizer.zero_grad()
            others = torch.randint(int(data.dst.min()), int(data.dst.max()) + 1, batch.src.shape)
            z, place = embed(tgn, data, loader, torch.cat([batch.src, batch.dst, others]))
            happened, did_not = (
                logits_of(tgn.link_predictor, z[place[batch.src]], z[place[end]]) for end in (batch.dst, others)
            )
            loss = loss_of(happened, torch.ones_like(happened)) + loss_of(did_not, torch.zeros_like(did_not))
            tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
            loader.insert(batch.src, batch.dst)
            loss.backward()
            optimizer.step()
            tgn.memory.detach()
            total += loss.item() * len(batch.src)
        print(f"epoch {epoch + 1}: loss {total / len(part.src):.4f}", file=sys.stderr, flush=True)


def embed(tgn: Modules, data: TemporalData, loader: Any, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """What the GNN makes of some nodes, and where each of them is."""
    n_id, edge_index, e_id = loader(nodes.unique())
    place = torch.empty(data.num_nodes, dtype=torch.long)
    place[n_id] = torch.arange(len(n_id))
    z, last_update = tgn.memory(n_id)
    return tgn.gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id]), place


@torch.no_grad()
def test(tgn: Modules, data: TemporalData, parts: list[TemporalData], loader: Any, *, one_by_one: bool) -> np.ndarray:
    """The logit of each event of some parts, as the example's test loop has it; `one_by_one`: as TGB's."""
    for module in tgn:
        module.eval()
    scores = []
    for part in parts:
        for batch in TemporalDataLoader(part, batch_size=BATCH):
            if one_by_one:
                for src, dst in zip(batch.src, batch.dst, strict=True):
                    others = torch.cat([dst[None], data.dst[torch.randint(len(data.dst), (NEGATIVES,))]])
                    z, place = embed(tgn, data, loader, torch.cat([src[None], others]))
                    sources = z[place[src]].expand(len(others), -1)
                    scores.append(float(logits_of(tgn.link_predictor, sources, z[place[others]])[0]))
            else:
                z, place = embed(tgn, data, loader, torch.cat([batch.src, batch.dst]))
                scores += logits_of(tgn.link_predictor, z[place[batch.src]], z[place[batch.dst]]).tolist()
            tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
            loader.insert(batch.src, batch.dst)
    return np.array(scores)


@torch.no_grad()
def feed(tgn: Modules, part: TemporalData, loader: Any, *, memory: bool) -> None:
    """Let the training part happen once more, in evaluation mode."""
    tgn.memory.eval()
    if memory:
        tgn.memory.reset_state()
    for batch in TemporalDataLoader(part, batch_size=BATCH):
        if memory:
            tgn.memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
        loader.insert(batch.src, batch.dst)


def loops(tgn: Modules, data: TemporalData, kind: Library) -> dict[str, tuple[np.ndarray, Any]]:
    """The scores of the validation and test links in each loop, and the memory that it began with."""
    train_part, *rest = data.train_val_test_split(val_ratio=0.15, test_ratio=0.15)
    found: dict[str, tuple[np.ndarray, Any]] = {}
    for name in ("exact", "library", "as is"):
        mine = copy.deepcopy(tgn)
        loader = ExactNeighbours(NEIGHBOURS) if name == "exact" else kind.loader(data.num_nodes, NEIGHBOURS)
        if name == "exact":
            sort_stably(mine.memory)
        began = copy.deepcopy(mine.memory) if name == "as is" else None
        with torch.no_grad():
            mine.memory.eval()
        feed(mine, train_part, loader, memory=name != "as is")
        found[name] = test(mine, data, rest, loader, one_by_one=kind.one_by_one), began
    return found


def report(name: str, comparison: ScoreComparison) -> dict[str, Any]:
    return {
        "loop": name,
        "links": len(comparison.rows),
        "agree": comparison.agree,
        "decisions that differ": comparison.decisions,
        "worst difference": comparison.worst,
        "unexplained": len(comparison.unexplained),
        "causes": [effect._asdict() for effect in comparison.effects],
    }


def wrapped(data: TemporalData, tgn: Modules, kind: Library) -> Any:
    options = {"batch": BATCH, "neighbours": NEIGHBOURS, "probabilities": kind.probabilities}
    return pyg.wrap(**tgn._asdict(), data=data, **options)


def test_rows(data: TemporalData, links: int) -> list[int]:
    """Events of the test part, evenly spread."""
    last = len(data.train_val_test_split(val_ratio=0.15, test_ratio=0.15)[2].src)
    return np.unique(np.linspace(len(data.src) - last, len(data.src) - 1, links).astype(int)).tolist()


def compared(data: TemporalData, tgn: Modules, links: int, kind: Library) -> list[dict[str, Any]]:
    """What `compare` says about each of the loops."""
    model = wrapped(data, tgn, kind)
    since, rows = len(data.train_val_test_split(val_ratio=0.15, test_ratio=0.15)[0].src), test_rows(data, links)
    found = []
    for name, (scores, began) in loops(tgn, data, kind).items():
        mine = scores[np.array(rows) - since]
        started = time.process_time()
        comparison = compare(model, rows, mine, memory=began, since=since, splits=())
        print(f"\n{name} ({time.process_time() - started:.0f} s)\n{comparison}", file=sys.stderr, flush=True)
        found.append(report(name, comparison))
    return found


def explained(model: Any, rows: list[int], evaluations: int | None, record: Path | None) -> dict[str, Any]:
    """What comes of explaining links, and which of them fail. Links that are in the record are not explained again."""
    lines = [] if record is None or not record.exists() else record.read_text().splitlines()
    known = {line["row"]: line for line in map(json.loads, lines)}
    for number, row in enumerate(rows, 1):
        if row not in known:
            known[row] = _explained(model, row, evaluations)
            if record is not None:
                with record.open("a") as opened:
                    opened.write(json.dumps(known[row]) + "\n")
        if number % 50 == 0:
            print(f"{number} of {len(rows)} links explained", file=sys.stderr, flush=True)
    found = [known[row] for row in rows]
    seconds = [line["seconds"] for line in found]
    return {
        "explained": len(rows),
        "processor seconds": {"median": float(np.median(seconds)), "slowest": max(seconds)},
        "evaluations": evaluations,
        "failed": {line["row"]: line["failed"] for line in found if line["failed"]},
        "counterfactuals": sum(line["size"] is not None for line in found),
        "of these, the search and the reference differed by more than rounding": sum(line["differs"] for line in found),
    }


def _explained(model: Any, row: int, evaluations: int | None) -> dict[str, Any]:
    """One link: seconds of the processor, size of the counterfactual, and what went wrong."""
    found: dict[str, Any] = {"row": row, "size": None, "differs": False, "failed": ""}
    began = time.process_time()
    try:
        why = cody.explain(model, model.graph, model.graph.query(row), evaluations=evaluations)
    except Exception as error:
        found["failed"] = f"{type(error).__name__}: {error}"
        print(f"event {row}: {found['failed']}", file=sys.stderr, flush=True)
    else:
        found["size"] = len(why.rows) if why.is_counterfactual else None
        found["differs"] = why.verification is not None and "which counts" in why.verification.by
    return found | {"seconds": round(time.process_time() - began, 3)}


def trained(data: TemporalData, kind: Library, width: int, epochs: int, weights: Path | None) -> Modules:
    """A TGN with the weights in a file, or one that is trained now, whose weights are kept there."""
    torch.manual_seed(0)
    tgn = kind.new(data, width)
    if weights is not None and weights.exists():
        for part, state in torch.load(weights).items():
            getattr(tgn, part).load_state_dict(state)
        return tgn
    train(tgn, data, data.train_val_test_split(val_ratio=0.15, test_ratio=0.15)[0], epochs, kind.loader)
    if weights is not None:
        torch.save({part: module.state_dict() for part, module in tgn._asdict().items()}, weights)
    return tgn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", help="names of data sets, or the file bitcoin_otc.parquet")
    parser.add_argument("--links", type=int, default=1_000, help="test links, evenly spread")
    parser.add_argument("--explain", type=int, default=0, help="test links to explain, too")
    parser.add_argument("--evaluations", type=int, help="budget of each explanation; default: that of cody.explain")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--tgb", type=Path, help="a clone of TGB, whose modules and loop are tried instead of PyG's")
    parser.add_argument(
        "--weights", help="file of the weights, with {data} for the name: read it, or train and write it"
    )
    parser.add_argument("--record", help="file with a line for each explained link, with {data}: rerun to resume")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kind = library(options.tgb)
    results = {}
    for name in options.data:
        data, stem = load(name), Path(name).stem
        weights, record = (Path(file.format(data=stem)) if file else None for file in (options.weights, options.record))
        if weights is not None and options.links:
            parser.error("--weights needs --links 0: the memory that training leaves behind is compared, too")
        tgn = trained(data, kind, options.width, options.epochs, weights)
        found = results[stem] = compared(data, tgn, options.links, kind) if options.links else []
        if options.explain:
            rows = test_rows(data, options.explain)
            found.append(explained(wrapped(data, tgn, kind), rows, options.evaluations, record))
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
