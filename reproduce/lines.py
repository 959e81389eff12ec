"""What scripts share that measure a few links of each setting at a time, and append a line of csv for each."""

import csv

import numpy as np

import cody
from cody.study.instances import sample_kinds

KINDS = ("correct", "incorrect")


def settings(options, *, seed=0, order=1):
    """Data, architecture, kind of prediction, graph, model and the rows of its links, for each setting.

    The models of collegemsg are the shipped ones, the others stand in `options.models`. Rows are in random order, so
    that the first ones are any of them.
    """
    for data in options.data.split(","):
        graph = cody.load(data)
        for kind in ("tgn", "tgat"):
            name = f"{kind}-{data}"
            model = cody.load_model(name if data == "collegemsg" else options.models / name, graph)
            for predictions, rows in sample_kinds(model, graph, options.links, KINDS, seed=seed).items():
                yield data, kind, predictions, graph, model, np.random.default_rng(order).permutation(rows).tolist()


def read(path):
    """The lines of a file that may not be there yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
