"""The architectures, by name."""

from cody.train.tgat import TGAT
from cody.train.tgn import TGN

Network = TGN | TGAT
ARCHITECTURES: dict[str, type[TGN] | type[TGAT]] = {architecture.kind: architecture for architecture in (TGN, TGAT)}
