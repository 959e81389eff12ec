"""The shapes of a network's weights, known without building it, so that a file can be checked before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping

from cody.errors import ModelError
from cody.models.sizes import Sizes

Shapes = Mapping[str, tuple[int, ...]]  # of the weights, by name


def linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def network_shapes(sizes: Sizes, *, memory: bool) -> Shapes:
    """The shapes of TGAT, or with `memory` those of TGN."""
    d = sizes.dimension
    width, event = 2 * d, 2 * d + sizes.edge_features  # of a query, and of a key or value
    shapes: dict[str, tuple[int, ...]] = {"encode.frequency": (d,), "encode.phase": (d,)}
    for layer in (f"attention.{number}" for number in range(sizes.layers)):
        shapes |= linear(f"{layer}.query", width, width) | linear(f"{layer}.out", width, width)
        shapes |= linear(f"{layer}.key", event, width) | linear(f"{layer}.value", event, width)
        shapes |= linear(f"{layer}.merge.hidden", width + d, d) | linear(f"{layer}.merge.out", d, d)
    shapes |= linear("score.hidden", width, d) | linear("score.out", d, 1)
    if memory:
        shapes |= {"memory.weight_ih": (3 * d, event + d), "memory.weight_hh": (3 * d, d)}
        shapes |= {"memory.bias_ih": (3 * d,), "memory.bias_hh": (3 * d,)}
    return shapes


def check_shapes(found: Shapes, wanted: Shapes, source: str) -> None:
    """Reject weights that are not exactly those of a network."""
    for name, shape in found.items():
        if name not in wanted:
            layers = len({weight.split(".")[1] for weight in wanted if weight.startswith("attention.")})
            hint = f" (the network has {layers} layers)" if name.startswith("attention.") else ""
            raise ModelError(f"{source}: parameter {name!r} does not belong to this architecture{hint}")
        if shape != wanted[name]:
            raise ModelError(f"{source}: parameter {name!r} has shape {shape}, expected {wanted[name]}")
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        raise ModelError(f"{source}: parameter {missing[0]!r} is missing")
