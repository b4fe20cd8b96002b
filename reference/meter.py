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
    """A context manager that times each call of `forward` of both models, and of `logits` of a head.

    On CUDA it waits for the device before and after each call, which makes decoding slower.

    Raises:
        InputError: target and draft are one object, whose calls cannot be told apart.
    """

    def __init__(self, pair: Pair) -> None:
        if pair.target is pair.draft:
            raise InputError("target and draft are one object, whose forwards cannot be told apart: load it twice")
        self.device = pair.device
        timed = ("forward", "logits") if isinstance(pair.draft, Head) else ("forward",)
        drafting = [] if pair.draft is None else [(pair.draft, "draft", name) for name in timed]
        self.methods: list[tuple[Any, str, str]] = [(pair.target, "target", "forward"), *drafting]
        self.calls: dict[str, list[tuple[float, float]]] = {"target": [], "draft": []}
        self._own = [vars(model).get(name) for model, _, name in self.methods]

    def __enter__(self) -> Meter:
        for model, role, name in self.methods:
            setattr(model, name, self._timed(getattr(model, name), self.calls[role]))
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
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
