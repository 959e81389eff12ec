"""Why does my PyG TGN predict this link?

    python examples/pyg_tgn.py --out tgn.pt
    python examples/explain_pyg.py 53854

On the command line, `cody explain --model explain_pyg:trained --event 53854` in this folder does the same.
"""

import sys

from pyg_tgn import load, temporal_data  # your own modules

import cody
from cody.adapters import pyg


def trained():
    data = temporal_data(cody.load("collegemsg"))  # your own TemporalData
    memory, gnn, link_predictor = load("tgn.pt", data)
    return pyg.wrap(memory=memory, gnn=gnn, link_predictor=link_predictor, data=data, neighbours=10, splits=())


if __name__ == "__main__":
    model = trained()
    why = cody.explain(model, model.graph, model.graph.query(int(sys.argv[1])))
    print(why.sentence)
    print(why.to_frame().to_string(index=False))
