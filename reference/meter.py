"""Seconds in the forwards of a pair's models, seen from outside: one watch for every decoder, ours or transformers'."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from transformers import PreTrainedModel

from reference.models import Pair


class Meter:
    """While it is entered, it times each call of `forward` of both models.

    On CUDA the device is waited for at both ends of each, so that a metered decode is slower than an unmetered one.
    """

    def __init__(self, pair: Pair) -> None:
        self.models = {"target": pair.target, "draft": pair.draft}
        self.calls: dict[str, list[tuple[float, float]]] = {role: [] for role in self.models}
        self.now = _cuda_now if pair.device.type == "cuda" else time.perf_counter

    def __enter__(self) -> Meter:
        for role, model in self.models.items():
            model.forward = self._timed(model, self.calls[role])  # type: ignore[method-assign]
        return self

    def __exit__(self, *raised: object) -> None:
        for model in self.models.values():
            vars(model).pop("forward", None)

    def since(self, moment: float) -> tuple[float, float]:
        """Seconds in the target's forwards and in the draft's that began behind `moment`, of `time.perf_counter`."""
        target, draft = (sum(end - start for start, end in calls if start >= moment) for calls in self.calls.values())
        return target, draft

    def _timed(self, model: PreTrainedModel, calls: list[tuple[float, float]]) -> Callable[..., Any]:
        forward, now = model.forward, self.now

        @wraps(forward)
        def timed(*args: Any, **options: Any) -> Any:
            start = now()
            output = forward(*args, **options)
            calls.append((start, now()))
            return output

        return timed


def _cuda_now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()
