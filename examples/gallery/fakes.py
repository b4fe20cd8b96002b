"""Stand-ins for what published samplers expect around them: models, caches, progress bars, pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Box
from typing import Any

import torch

from examples.gallery.drafts import Chain, SecondCycleError


def unchanged(logits: Any, *_: Any, **__: Any) -> Any:
    """The first argument, for code that processes logits."""
    return logits


def second(_: Any, given: Any) -> Any:
    """The second argument, for code that processes the logits after some ids."""
    return given


def ignored(*_: Any, **__: Any) -> None:
    """Nothing, for calls without an effect on the result."""


def bare(kind: type, state: dict[str, Any]) -> Any:
    """An object of a class with these attributes, without a call of its `__init__`."""
    made = object.__new__(kind)
    vars(made).update(state)
    return made


class Unpinned:
    """The module torch without pinned memory, which a machine without an accelerator lacks."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        if name not in ("tensor", "arange", "full", "ones"):
            return found
        return lambda *given, pin_memory=False, **options: found(*given, **options)


class Bar:
    """A progress bar that shows nothing."""

    n = 0

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, n: int) -> None: ...


class Model:
    """A model in the manner of Hugging Face, whose logits are the first rows of a table.

    With `once`, it raises `SecondCycleError` after it has returned the last row.
    """

    device = "cpu"

    def __init__(self, rows: torch.Tensor, once: bool = False) -> None:
        self.rows, self.once, self.is_done = rows, once, False
        self.config = Box(vocab_size=rows.shape[1])

    def __call__(self, input_ids: torch.Tensor, **_: Any) -> Box:
        if self.once and self.is_done:
            raise SecondCycleError(input_ids[0, 1:])
        self.is_done = input_ids.shape[1] >= len(self.rows)
        return Box(logits=self.rows[None, : input_ids.shape[1]].clone(), past_key_values=None)


class Engine:
    """A model with a cache, as Sequoia uses it, which returns these logits for every text."""

    dtype = torch.float32

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits
        self.engine = Box(kv_cache=Box(gather_kv_incremental=ignored))

    def inference(self, **_: Any) -> torch.Tensor:
        """The logits."""
        return self.logits[None]


class Processor:
    """A logits processor that changes nothing, and draws by `sample`."""

    def __init__(self, sample: Callable[[Any], Any]) -> None:
        self.sample = sample

    def __call__(self, probs: torch.Tensor) -> torch.Tensor:
        return probs


class Cache:
    """A model of `cached_models` with a cache, as feifeibear's code and PEARL use it."""

    def __init__(self, model: Any, *_: Any) -> None:
        self.model = model
        self._prob_history = None

    def generate(self, ids: Any, _: int) -> Any:
        """The ids with the drafted tokens; the probabilities become known."""
        self._prob_history = self.model.probs[None]
        return None if self.model.tokens is None else torch.cat((ids, self.model.tokens[None]), 1)

    def rollback(self, kept: int) -> None:
        """Keep the probabilities of the first tokens."""
        self._prob_history = self._prob_history[:, :kept]  # pyrefly: ignore[unsupported-operation]


def cached_models(c: Chain) -> tuple[Box, Box]:
    """The drafter and the target of a chain, for `Cache`."""
    return Box(probs=c.q, tokens=c.tokens, device="cpu"), Box(probs=c.p, tokens=None, device="cpu")


def drafted_first(drafted: Any, draw: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns what was drafted, one after another, and then what `draw` returns."""
    left = list(drafted)
    return lambda *given, **options: left.pop(0) if left else draw(*given, **options)
