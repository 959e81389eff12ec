"""TGN and TGAT: their architectures, training and checkpoints."""

from cody.models.tgat import TGAT
from cody.models.tgn import TGN

Network = TGN | TGAT
ARCHITECTURES: dict[str, type[TGN] | type[TGAT]] = {architecture.kind: architecture for architecture in (TGN, TGAT)}

__all__ = ["ARCHITECTURES", "TGAT", "TGN", "Network"]
