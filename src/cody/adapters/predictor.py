"""A user's link predictor, whatever its last layer, as one that returns logits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cody.adapters.probabilities import to_logits
from cody.errors import ModelError, ProbabilityWarning
from cody.graph import FloatArray

PROBABILITIES = (
    "all outputs of link_predictor lie between 0 and 1, even for large inputs, so they are treated as probabilities; "
    "pass probabilities=True if they are, and False if they are logits"
)
SIGMOIDS = {torch.sigmoid, torch.special.expit, Tensor.sigmoid}
LARGE, TRIED = 1e3, 64  # numbers and rows that a predictor is tried with


class LogitPredictor:
    """Calls a link predictor and returns one logit per link, or one score per link and class.

    If it ends with a sigmoid (`probabilities`), the logits are the inputs of the sigmoid: nothing is lost where
    probabilities round to 0 or 1. If they cannot be observed (TorchScript, another function than a sigmoid) they are
    computed from the probabilities.
    """

    def __init__(self, module: Any, call: str, *, probabilities: bool = False, outputs: int = 1) -> None:
        self.module, self.call, self.probabilities, self.outputs = module, call, probabilities, outputs
        self.noticed = False  # probabilities were detected, not declared by the user

    def __call__(self, links: int, *given: Tensor, **named: Tensor) -> FloatArray:
        """One logit per link, [links], or one score per link and class. [links, C]"""
        sigmoids = SigmoidInputs()
        with sigmoids if self.probabilities else nullcontext():
            answers = self.module(*given, **named)
        if answers.numel() != links * self.outputs:
            wanted = "one number per link (for class scores, pass classes=…)"
            if self.outputs > 1:
                wanted = f"{self.outputs} numbers per link, one per class"
            raise ModelError(f"{self.call} returned {tuple(answers.shape)} for {links} links; it must return {wanted}")
        if self.outputs > 1:
            return np.asarray(_as_array(answers), dtype=np.float64).reshape(links, self.outputs)
        fed = sigmoids.behind(answers) if self.probabilities else answers
        if fed is None:
            return to_logits(_as_array(answers))
        return _as_array(fed).astype(np.float64)

    def warn(self) -> None:
        """Warn that the outputs were detected to be probabilities. For functions that the user calls."""
        if self.noticed:
            warnings.warn(PROBABILITIES, ProbabilityWarning, stacklevel=3)

    @torch.no_grad()
    def settle(self, probabilities: bool | None, like: Tensor, names: Sequence[str] = ()) -> bool:
        """Whether outputs are certainly logits from now on. Probabilities are detected unless declared.

        Args:
            probabilities: what the user declares.
            like: embeddings of nodes, which the predictor takes. [n, d]
            names: the names of its two arguments, if it needs them.
        """
        if self.outputs > 1:  # classes are compared with one another: their scores decide the same on any scale
            return True
        large = np.random.default_rng(0).normal(0, LARGE, (2, TRIED, like.shape[-1]))
        ends = torch.as_tensor(large).to(like)
        answers = self.module(**dict(zip(names, ends, strict=True))) if names else self.module(*ends)
        never_leaves = bool(((answers >= 0) & (answers <= 1)).all())
        self.noticed = probabilities is None and never_leaves
        self.probabilities = never_leaves if probabilities is None else probabilities
        return self.probabilities or not never_leaves


class SigmoidInputs(TorchFunctionMode):
    """Records the inputs of sigmoids (modules, functions or methods) while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SIGMOIDS and args:
            self.calls.append((args[0], result))
        return result

    def behind(self, answers: Tensor) -> Tensor | None:
        """The input of the sigmoid that returned these answers, in any shape; None if there is none."""
        for fed, result in reversed(self.calls):
            if answers.data_ptr() == result.data_ptr() and answers.numel() == result.numel():
                return fed
        return None


def _as_array(numbers: Tensor) -> Any:
    numbers = numbers.detach().cpu().reshape(-1)
    return (numbers.float() if numbers.dtype is torch.bfloat16 else numbers).numpy()
