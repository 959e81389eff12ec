"""The architectures, by name."""

from cody.models.tgat import TGAT
from cody.models.tgn import TGN

Network = TGN | TGAT
ARCHITECTURES: dict[str, type[TGN] | type[TGAT]] = {architecture.kind: architecture for architecture in (TGN, TGAT)}
