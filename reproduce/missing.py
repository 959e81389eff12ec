"""Which explainers a run still lacks: those whose records are not all there yet, separated by commas.

    python reproduce/missing.py --model runs/tgn-wikipedia --instances 200 --kinds correct,incorrect \\
      --explainers random,pbone --out results/reproduction/tgn-wikipedia.jsonl

The repository has the records compressed. If they are about a model with the same weights, they are unpacked first, so
that an evaluation adds to them. Those of other weights are left as they are and do not count; an evaluation refuses a
file that holds them.
"""

import argparse
import gzip
from collections import Counter
from pathlib import Path

import numpy as np

from cody.engine.weights import Weights
from cody.models.folder import own_sizes, read_model
from cody.study.record_file import iterate_records
from cody.utils.files import write_atomically


def missing(explainers, kinds, instances, records):
    """Those of the explainers that have fewer records of some kind than there are links."""
    counts = Counter((record.explainer, record.kind) for record in records)
    return [name for name in explainers if any(counts[name, kind] < instances for kind in kinds)]


def identity(folder):
    """The identity of the model in a folder, which its records have as well."""
    saved = read_model(folder)
    return Weights(saved.kind, own_sizes(saved), saved.arrays, np.dtype(np.float32)).identity


def records_about(path, model):
    """The records of a file that are about this model."""
    if not path.exists():
        unpack(path, model)
    weights = identity(model)
    return [record for record in iterate_records(path) if record.model_identity == weights] if path.exists() else []


def unpack(path, model):
    """Make the file from its compressed form, if that is about this model."""
    packed = path.with_name(f"{path.name}.gz")
    if packed.exists() and next(iterate_records(packed)).model_identity == identity(model):
        write_atomically(path, gzip.decompress(packed.read_bytes()))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", type=Path, required=True)
    arguments.add_argument("--instances", type=int, required=True)
    arguments.add_argument("--kinds", type=lambda text: text.split(","), required=True)
    arguments.add_argument("--explainers", type=lambda text: text.split(","), required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    records = records_about(options.out, options.model)
    print(*missing(options.explainers, options.kinds, options.instances, records), sep=",")


if __name__ == "__main__":
    main()
