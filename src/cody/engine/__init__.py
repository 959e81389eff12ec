"""Networks as models: `logits(query, changes)` by the reference implementation (`Replay`) or fast. No torch."""

from cody.engine.fast import FastTGAT
from cody.engine.replay import Replay
from cody.engine.saved import Engine, fast_model, load_model, open_network, reference_model
from cody.engine.tgn import FastTGN

__all__ = ["Engine", "FastTGAT", "FastTGN", "Replay", "fast_model", "load_model", "open_network", "reference_model"]
