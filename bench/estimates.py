"""How far a TGN's estimates about long histories are off, and whether any of them is on the wrong side of the line.

    python bench/estimates.py --models collegemsg=tgn-collegemsg,wikipedia=runs/tgn-wikipedia --out figures.json

Links are drawn from the log without its first tenth, every second one of two nodes that did not meet then. Of the
events around each, up to `--size` of them, a few are chosen from the oldest to the latest, so that most histories are
long and the engine approximates. Each of them alone and some random sets are computed four times: as an estimate,
exactly in the precision of the memory table, by which a session checks itself, exactly in double precision, and as a
session answers.

    python bench/estimates.py --models wikipedia=runs/tgn-wikipedia --explain 300

measures what checking costs: as many events of the last fifth of the log are explained, each with and without it, and
the processor times are compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from cody import explain, load, load_model
from cody.engine import FastTGN, selfcheck, tgn
from cody.engine.fast import QueryWorkspace
from cody.engine.selfcheck import PROMISE, SelfCheck, answer_all
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="collegemsg=tgn-collegemsg", help="DATA=MODEL, separated by commas")
    parser.add_argument("--links", type=int, default=400, help="with a long history, of each data set")
    parser.add_argument("--size", type=int, default=1000, help="events around a link to choose from")
    parser.add_argument("--rows", type=int, default=8, help="to choose of them")
    parser.add_argument("--seed", type=int, default=0, help="of the links")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for each data set at most")
    parser.add_argument("--explain", type=int, help="measure what checking costs, with so many explanations")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    rows = []
    for pair in options.models.split(","):
        data, name = pair.split("=")
        graph = load(data)
        model = load_model(name, graph)
        assert isinstance(model, FastTGN)
        figures = measure(model, options) if options.explain is None else cost(model, options)
        row = {"data": data, "dimension": model.weights.sizes.dimension} | figures
        print(row, flush=True)
        rows.append(row)
    if options.out is not None:
        given = {name: getattr(options, name) for name in ("links", "size", "rows", "seed", "explain")}
        options.out.write_text(json.dumps({"options": given, "promise": PROMISE, "rows": rows}, indent=1) + "\n")


def measure(model: FastTGN, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one model."""
    rng, ends = np.random.default_rng(options.seed), time.monotonic() + options.seconds
    drawn = answers = wrong = session_wrong = exact_sessions = 0
    single: list[float] = []  # the largest error of a single removal, of each link
    larger: list[float] = []  # that of a larger set
    rounding: list[float] = []  # of what sessions are checked by
    for query in links(model.graph, rng):
        if len(single) == options.links or time.monotonic() > ends:
            break
        drawn += 1
        around = candidates(model.graph, query, size=options.size)
        rows = around[:: max(1, len(around) // options.rows)].tolist()
        workspace = QueryWorkspace(model, [query], rows)
        if workspace.exact:
            continue
        sets = some_sets(rows, rng)
        with patch.object(tgn, "MANY_VERSIONS", sys.maxsize):
            double = QueryWorkspace(model, [query], rows)
            assert double.exact
            exact = np.array(answer_all(double, sets))[:, 0]
        estimates, checks = (np.array(answer_all(one, sets))[:, 0] for one in (workspace, workspace.exactly))
        session = model.session(query, rows)
        given = session.logits(sets)
        apart = np.abs(estimates - exact)
        rounding.append(float(np.abs(checks - exact).max()))
        single.append(float(apart[: len(rows)].max()))
        larger.append(float(apart[len(rows) :].max(initial=0.0)))
        answers += len(sets)
        wrong += int(((estimates > 0) != (exact > 0)).sum())
        session_wrong += int(((given > 0) != (exact > 0)).sum())
        exact_sessions += session._workspace is not None and session._workspace.exact
    return {
        "drawn": drawn,
        "links": len(single),
        "answers": answers,
        "single": spread(single),
        "larger": spread(larger),
        "checks": spread(rounding),
        "estimates on the wrong side": wrong,
        "answers on the wrong side": session_wrong,
        "sessions that became exact": int(exact_sessions),
    }


def cost(model: FastTGN, options: argparse.Namespace) -> dict[str, Any]:
    """What explanations take with the check, against those without it."""
    graph, rng, ends = model.graph, np.random.default_rng(options.seed), time.monotonic() + options.seconds
    taken: list[list[float]] = []
    for row in rng.integers(graph.num_events * 4 // 5, graph.num_events, options.explain).tolist():
        if time.monotonic() > ends:
            break
        taken.append([])
        for near, compared in ((selfcheck.NEAR, selfcheck.SelfCheck._sample), (0.0, nothing)):
            with patch.object(selfcheck, "NEAR", near), patch.object(selfcheck.SelfCheck, "_sample", compared):
                begun = time.process_time()
                explain(model, graph, graph.query(row))
                taken[-1].append(time.process_time() - begun)
    checked, unchecked = np.array(taken).T
    return {
        "explained": len(taken),
        "median": round(float(np.median(checked) / np.median(unchecked)), 3),
        "all": round(float(checked.sum() / unchecked.sum()), 3),
        "slowest": round(float(checked.max() / unchecked.max()), 3),
        "seconds": {"median": round(float(np.median(checked)), 3), "slowest": round(float(checked.max()), 3)},
    }


def nothing(_: SelfCheck, changes: Sequence[Change]) -> np.ndarray[Any, Any]:
    return np.zeros(len(changes), dtype=bool)


def links(graph: TemporalGraph, rng: np.random.Generator) -> Iterator[Query]:
    """Events, and in turn links at their times between nodes of two other events before."""
    for number in itertools.count():
        row = int(rng.integers(graph.num_events // 10, graph.num_events))
        src, dst = rng.integers(0, row, 2).tolist()
        made_up = Query(int(graph.src[src]), int(graph.dst[dst]), float(graph.time[row]), row)
        yield made_up if number % 2 else graph.query(row)


def some_sets(rows: list[int], rng: np.random.Generator) -> list[Change]:
    """Each row alone, and some random sets of any size."""
    sizes = rng.integers(2, max(3, len(rows)), 4)
    larger = [frozenset(rng.choice(rows, min(size, len(rows)), replace=False).tolist()) for size in sizes.tolist()]
    return [*(frozenset({row}) for row in rows), *larger]


def spread(errors: list[float]) -> dict[str, float]:
    """Median and largest."""
    return {"median": float(f"{np.median(errors):.2g}"), "largest": float(f"{max(errors):.2g}")} if errors else {}


if __name__ == "__main__":
    main()
