"""Checks that logits are a distribution: NaN, infinity, or -infinity for every token is an error of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from spectheory.core.errors import InputError


class LogitsError(InputError):
    """A model returned logits that are not a distribution."""


Where = Callable[[int], str]
"""The place of a row of logits in the text, in words."""


class Peaks:
    """The largest logit of each row of a model's logits. It is finite if and only if the row is a distribution.

    A row may hold -infinity for tokens that cannot follow. On the host each forward is checked at once. On a device the
    largest logits stay there, so that the host need not wait: `settle` or `fetch` copies them and checks them.
    """

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self.name, self.dtype = name, dtype
        self.waiting: list[tuple[Tensor, Where]] = []

    def see(self, logits: Tensor, where: Where) -> None:
        """Look at logits (n, V).

        Raises:
            LogitsError: a row is not a distribution; raised here on the host only.
        """
        if not logits.is_cpu:
            self.waiting.append((logits.amax(1), where))
        elif not np.isfinite(highest := logits.numpy().max(1)).all():
            self.check(highest.tolist(), where)

    def check(self, highest: list[float], where: Where) -> None:
        """Raise LogitsError if one of the largest logits is not finite."""
        for row, value in enumerate(highest):
            if not math.isfinite(value):
                raise LogitsError(no_distribution(self.name, self.dtype, where(row), value))


def settle(*models: Peaks) -> None:
    """Wait for the largest logits that are still on a device, and check them. Raises LogitsError."""
    if any(model.waiting for model in models):
        fetch(None, models)


def fetch(tokens: Tensor | None, models: Iterable[Peaks]) -> list[int]:
    """Copy tokens (n,) to the host, with the largest logits that are still on the device. Raises LogitsError."""
    waiting = [(model, *seen) for model in models for seen in model.waiting]
    if not waiting:
        return [] if tokens is None else tokens.tolist()
    for model, *_ in waiting:
        model.waiting = []
    ids = [] if tokens is None else [tokens.double()]
    values = torch.cat([*ids, *(highest for _, highest, _ in waiting)]).tolist()
    at = 0 if tokens is None else len(tokens)
    listed = [int(token) for token in values[:at]]
    for model, highest, where in waiting:
        model.check(values[at : at + len(highest)], where)
        at += len(highest)
    return listed


def no_distribution(name: str, dtype: torch.dtype, where: str, value: float | None = None) -> str:
    """The message of a LogitsError: the model, the place, and the repair."""
    what = {None: "", math.inf: " (infinity)", -math.inf: " (-infinity for every token)"}.get(value, " (NaN)")
    repair = {
        torch.float16: "numbers above 65504 overflow in float16: load it with --dtype bfloat16 or --dtype float32",
        torch.bfloat16: "load it with --dtype float32; if that gives the same, its weights are damaged",
    }.get(dtype, "its weights are damaged, or too large for this precision: fetch or convert the folder anew")
    return f"{name} in {str(dtype).removeprefix('torch.')} gives no probabilities {where}{what}: {repair}"
