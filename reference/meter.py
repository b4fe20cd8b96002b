"""`Meter`: seconds in the forwards of a pair's models, under any decoder."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from transformers import PreTrainedModel

from reference.models import Pair
from spectheory.core.errors import InputError


class Meter:
    """A context manager that times each call of `forward` of both models.

    On CUDA it waits for the device before and after each call, which makes decoding slower.

    Raises:
        InputError: target and draft are one object, whose calls cannot be told apart.
    """

    def __init__(self, pair: Pair) -> None:
        if pair.target is pair.draft:
            raise InputError("target and draft are one object, whose forwards cannot be told apart: load it twice")
        self.device = pair.device
        self.models = {"target": pair.target, "draft": pair.draft}
        self.calls: dict[str, list[tuple[float, float]]] = {role: [] for role in self.models}
        self._own = {role: vars(model).get("forward") for role, model in self.models.items()}

    def __enter__(self) -> Meter:
        for role, model in self.models.items():
            model.forward = self._timed(model, self.calls[role])  # type: ignore[method-assign]
        return self

    def __exit__(self, *raised: object) -> None:
        for role, model in self.models.items():
            del model.forward
            if (own := self._own[role]) is not None:
                model.forward = own  # type: ignore[method-assign]

    def since(self, moment: float) -> tuple[float, float]:
        """Seconds in the target's and in the draft's forwards that began after `moment`, by `time.perf_counter`."""
        target, draft = (sum(end - start for start, end in calls if start >= moment) for calls in self.calls.values())
        return target, draft

    def _timed(self, model: PreTrainedModel, calls: list[tuple[float, float]]) -> Callable[..., Any]:
        forward = model.forward

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
