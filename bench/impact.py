"""What the impact of one event costs, compared with scoring the same links: `python bench/impact.py`.

For events early and late in the log: the processor time of `cody.impact` (without verification, then with it) over that
of `cody.predict` for the same links, measured in turns in one process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cody
from cody.models.predictions import PERIOD, rows_between


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a call, and what it returns."""
    begun = time.process_time()
    found = call()
    return time.process_time() - begun, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--model", nargs="+", default=["tgn-collegemsg", "tgat-collegemsg"])
    parser.add_argument("--events", type=int, default=8, help="events, at even distances in the log")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the fastest counts")
    options = parser.parse_args()
    graph = cody.load(options.data)
    rows = rows_between(graph, PERIOD).tolist()
    for name in options.model:
        model = cody.load_model(name, graph)
        print(f"{name}: {len(rows):,} links")
        print("  event  links that can change   flips  impact / predict  with verification")
        for event in np.linspace(0, rows[0], options.events, dtype=int).tolist():
            costs = []
            for _ in range(options.repeat):
                predicted, _ = seconds(lambda: cody.predict(model, graph, rows))  # noqa: B023
                plain, found = seconds(lambda: cody.impact(model, graph, event, rows, verify=0))  # noqa: B023
                verified, _ = seconds(lambda: cody.impact(model, graph, event, rows))  # noqa: B023
                costs.append((predicted, plain, verified))
            predicted, plain, verified = np.min(costs, axis=0)
            figures = (
                f"{found.reached:22,}  {len(found.flips):6,}  {plain / predicted:16.2f}  {verified / predicted:17.2f}"
            )
            print(f"{event:7,}  {figures}")


if __name__ == "__main__":
    main()
