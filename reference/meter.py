"""`Meter`: seconds in the forwards of a pair's models, under any decoder."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from reference.heads import Head
from reference.models import Pair
from spectheory.core.errors import InputError


class Meter:
    """A context manager that times each call of `forward` of both models, of `logits` of a head, and replayed graphs.

    On CUDA it waits for the device before and after each call, which makes decoding slower.

    Raises:
        InputError: target and draft are one object, whose calls cannot be told apart.
    """

    def __init__(self, pair: Pair) -> None:
        if pair.target is pair.draft:
            raise InputError("target and draft are one object, whose forwards cannot be told apart: load it twice")
        self.device = pair.device
        self.methods: list[tuple[Any, str, str]] = [
            (model, role, name)
            for model, role in zip(pair.models, ("target", "draft"), strict=False)
            for name in ("forward", "logits" if isinstance(model, Head) else "replay")
        ]
        self.calls: dict[str, list[tuple[float, float]]] = {"target": [], "draft": []}
        self._own = [vars(model).get(name) for model, _, name in self.methods]

    def __enter__(self) -> Meter:
        for model, role, name in self.methods:
            setattr(model, name, self._timed(getattr(model, name, torch.cuda.CUDAGraph.replay), self.calls[role]))
        return self

    def __exit__(self, *raised: object) -> None:
        for (model, _, name), own in zip(self.methods, self._own, strict=True):
            delattr(model, name)
            if own is not None:
                setattr(model, name, own)

    def since(self, moment: float) -> tuple[float, float]:
        """Seconds in the target's and in the draft's forwards that began after `moment`, by `time.perf_counter`."""
        target, draft = (sum(end - start for start, end in calls if start >= moment) for calls in self.calls.values())
        return target, draft

    def _timed(self, forward: Callable[..., Any], calls: list[tuple[float, float]]) -> Callable[..., Any]:
        @wraps(forward)
        def timed(*args: Any, **options: Any) -> Any:
            start = self._now()
            output = forward(*args, **options)
            calls.append((start, self._now()))
            return output

        return timed

    def _now(self) -> float:
        if self.device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
