"""Checks that logits give probabilities: NaN, infinity, or -infinity for every token is an error of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from reference.host_arrays import Array
from spectheory.core.errors import InputError


class LogitsError(InputError):
    """A model returned logits that give no probabilities."""


Where = Callable[[int], str]
"""Describes the place of a row of logits in the text, such as "after token 20"."""


class Peaks:
    """Checks the logits of one model by the largest logit of each row, which is finite if the row gives probabilities.

    Other logits may be -infinity, for tokens that cannot follow. On the host each forward is checked at once. On a
    device the largest logits wait there, so that the host need not wait: `settle` or `fetch` copies and checks them.
    """

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self.name, self.dtype = name, dtype
        self.waiting: list[tuple[Tensor, Where]] = []

    def see(self, logits: Tensor, where: Where) -> None:
        """Check logits (n, V) on the host, or remember their largest values on the device.

        Raises:
            LogitsError: a row on the host gives no probabilities.
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
    """Check the largest logits that wait on a device; raises LogitsError. The host waits for the device."""
    if any(model.waiting for model in models):
        fetch([], models)


def fetch(ids: Sequence[Array], models: Iterable[Peaks]) -> list[list[int]]:
    """Lists of token ids (n,), and a check of the largest logits that wait on the device, see `settle`.

    All that is on the device is copied at once. Joined with logits in float32, ids are exact up to 2**24.
    """
    waiting = [(model, *seen) for model in models for seen in model.waiting]
    for model, *_ in waiting:
        model.waiting = []
    there = [*(one for one in ids if isinstance(one, Tensor)), *(highest for _, highest, _ in waiting)]
    values = iter(torch.cat(there).tolist() if there else [])
    listed = [[int(next(values)) for _ in one] if isinstance(one, Tensor) else one.tolist() for one in ids]
    for model, highest, where in waiting:
        model.check([next(values) for _ in highest], where)
    return listed


def no_distribution(name: str, dtype: torch.dtype, where: str, value: float | None = None) -> str:
    """The message of a LogitsError: model `name`, place `where`, the largest logit `value` if known, and the repair."""
    what = {None: "", math.inf: " (infinity)", -math.inf: " (-infinity for every token)"}.get(value, " (NaN)")
    repair = {
        torch.float16: "numbers above 65504 overflow in float16: load it with --dtype bfloat16 or --dtype float32",
        torch.bfloat16: "load it with --dtype float32; if that gives the same, its weights are damaged",
    }.get(dtype, "its weights are damaged, or too large for this precision: fetch or convert the folder anew")
    return f"{name} in {str(dtype).removeprefix('torch.')} gives no probabilities {where}{what}: {repair}"
