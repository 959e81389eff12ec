"""What a line of an evaluation takes: bytes, by part and compressed, and the time to write and to read it.

python bench/lines.py [--links 40] [--model tgn-collegemsg] [--explainer cody-spatio-temporal]
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import cody
from cody.study.explainers import explainer
from cody.study.record_file import iterate_records
from cody.study.run import EvaluationPlan, Sample, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--model", default="tgn-collegemsg")
    parser.add_argument("--explainer", default="cody-spatio-temporal")
    given = parser.parse_args()
    graph = cody.load("collegemsg")
    model = cody.load_model(given.model, graph)
    plan = EvaluationPlan("collegemsg", given.model, (explainer(given.explainer, size=64),))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.jsonl"
        steps = list(run(file, model, graph, plan, Sample(given.links, ("correct",))))
        _, *lines = file.read_bytes().splitlines(keepends=True)
        begun = time.process_time()
        for step in steps[1:]:
            step.record.to_json()
        written = (time.process_time() - begun) / len(lines)
        begun = time.process_time()
        records = list(iterate_records(file))
        read = (time.process_time() - begun) / len(records)
    documents = [json.loads(line) for line in lines]
    compact = partial(json.dumps, separators=(",", ":"))
    parts = {name: [len(compact(one.get(name))) for one in documents] for name in documents[0]}
    print(
        json.dumps(
            {
                "explainer": given.explainer,
                "lines": len(lines),
                "evaluations": float(np.mean([one["evaluations"] for one in documents])),
                "bytes": round(float(np.mean(list(map(len, lines))))),
                "largest": max(map(len, lines)),
                "compressed": round(len(gzip.compress(b"".join(lines))) / len(lines)),
                "parts": {name: round(float(np.mean(sizes))) for name, sizes in parts.items() if np.mean(sizes) > 100},
                "microseconds to write": round(1e6 * written),
                "microseconds to read": round(1e6 * read),
            }
        )
    )


if __name__ == "__main__":
    main()
