"""A user's link predictor, whatever it ends with, as one that gives logits."""

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
    "all answers of link_predictor lie between 0 and 1, also for large numbers, so they are taken for probabilities; "
    "say probabilities=True if they are, and False if they are logits"
)
SIGMOIDS = {torch.sigmoid, torch.special.expit, Tensor.sigmoid}
LARGE, TRIED = 1e3, 64  # numbers and rows that a predictor is tried with


class LogitPredictor:
    """Calls a link predictor and gives one logit for each link.

    Of one that ends with a sigmoid (`probabilities`), the logits are what the sigmoid is fed: nothing is lost where
    probabilities round to 0 or 1. Where that cannot be seen (TorchScript, another function than a sigmoid) they are
    computed from the probabilities.
    """

    def __init__(self, module: Any, call: str, *, probabilities: bool = False) -> None:
        self.module, self.call, self.probabilities = module, call, probabilities
        self.noticed = False  # that answers are probabilities, which the user has not said

    def __call__(self, links: int, *given: Tensor, **named: Tensor) -> FloatArray:
        """One logit for each of so many links. [links]"""
        sigmoids = SigmoidInputs()
        with sigmoids if self.probabilities else nullcontext():
            answers = self.module(*given, **named)
        if answers.numel() != links:
            raise ModelError(
                f"{self.call} gave {tuple(answers.shape)} for {links} links; it must give one number for each"
            )
        fed = sigmoids.behind(answers) if self.probabilities else answers
        if fed is None:
            return to_logits(_as_array(answers))
        logits: FloatArray = _as_array(fed).astype(np.float64)
        return logits

    def warn(self) -> None:
        """Say that answers were noticed to be probabilities. It is for a function that the user calls."""
        if self.noticed:
            warnings.warn(PROBABILITIES, ProbabilityWarning, stacklevel=3)

    @torch.no_grad()
    def settle(self, probabilities: bool | None, like: Tensor, names: Sequence[str] = ()) -> bool:
        """Whether answers are surely logits from now on. Probabilities are noticed where the user has not said so.

        Args:
            probabilities: what the user says.
            like: embeddings of nodes, which the predictor takes. [n, d]
            names: those of its two arguments, if it wants them.
        """
        large = np.random.default_rng(0).normal(0, LARGE, (2, TRIED, like.shape[-1]))
        ends = torch.as_tensor(large).to(like)
        answers = self.module(**dict(zip(names, ends, strict=True))) if names else self.module(*ends)
        never_leaves = bool(((answers >= 0) & (answers <= 1)).all())
        self.noticed = probabilities is None and never_leaves
        self.probabilities = never_leaves if probabilities is None else probabilities
        return self.probabilities or not never_leaves


class SigmoidInputs(TorchFunctionMode):
    """Notes what goes into sigmoids, be they modules, functions or methods, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SIGMOIDS and args:
            self.calls.append((args[0], result))
        return result

    def behind(self, answers: Tensor) -> Tensor | None:
        """What was fed to the sigmoid whose result these answers are, in whatever shape; None if there is none."""
        for fed, result in reversed(self.calls):
            if answers.data_ptr() == result.data_ptr() and answers.numel() == result.numel():
                return fed
        return None


def _as_array(numbers: Tensor) -> Any:
    numbers = numbers.detach().cpu().reshape(-1)
    return (numbers.float() if numbers.dtype is torch.bfloat16 else numbers).numpy()
