"""What it costs and saves to follow changes of a TGN's memory only while they are larger than some size.

    python bench/fading.py --model runs/tgn-wikipedia --data wikipedia --events 146332,155317

For each link, sets of its candidates are asked about with every change followed, and with small ones left out: how many
versions are computed, the ratio of the processor times, and how far the logits are apart.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from cody import load, load_model
from cody.engine import tgn
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change

SIZES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="wikipedia")
    parser.add_argument("--model", default="runs/tgn-wikipedia")
    parser.add_argument("--events", default="146332,145981,147337,155317")
    parser.add_argument("--allow-data-mismatch", action="store_true")
    options = parser.parse_args()
    graph = load(options.data)
    model = load_model(options.model, graph, allow_data_mismatch=options.allow_data_mismatch)
    print(f"{'event':>8} {'followed':>9} {'versions':>9} {'time':>6} {'largest difference':>19} {'largest effect':>15}")
    for row in map(int, options.events.split(",")):
        query = graph.query(row)
        rows = candidates(graph, query).tolist()
        sets = some_sets(rows)
        every, spent = np.zeros(0), 1.0
        for size in SIZES:
            tgn.MANY_VERSIONS, tgn.SMALL_CHANGE = 0 if size else 10**9, size  # whatever the link
            start = time.process_time()
            session = model.session(query, rows)  # type: ignore[attr-defined]
            logits = session.logits(sets)
            seconds = time.process_time() - start
            if not size:
                every, spent = logits, seconds
            computed = session._workspace.inputs.store.vectors.length
            apart, effect = np.abs(logits - every).max(), np.abs(every - every[0]).max()
            print(f"{row:>8} {size:>9g} {computed:>9,} {seconds / spent:>6.2f} {apart:>19.1e} {effect:>15.2f}")


def some_sets(rows: list[int]) -> list[Change]:
    """Nothing, single candidates, and random sets of every size up to all."""
    rng = np.random.default_rng(0)
    sizes = [size for size in (2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 48) if size < len(rows)]
    some = [frozenset(rng.choice(rows, size, replace=False).tolist()) for size in sizes]
    return [frozenset(), *(frozenset({row}) for row in rows[::4]), *some, frozenset(rows)]


if __name__ == "__main__":
    main()
