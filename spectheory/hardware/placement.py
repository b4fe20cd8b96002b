"""`Placement`: the sequences and GPUs of a forward, how the GPUs share the models, and the memory that they need."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Self, get_args

import numpy as np

from spectheory.core.checks import check_not_negative, check_whole
from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import EngineCosts, split
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.model_config import ModelConfig

Parallel = Literal["tensor", "expert", "layers"]
"""How several GPUs share a model: tensor parallelism, expert parallelism with data-parallel attention, or a split by
layers."""
SPLIT_BY_LAYERS = ("hf", "llama.cpp")
"""Engines that split the layers over several GPUs unless they are told otherwise."""
DEFAULT_ENGINE = "vllm"


def usual_parallel(engine: str) -> Parallel:
    """How an engine shares a model among several GPUs by default.

    >>> usual_parallel("vllm@0.11"), usual_parallel("llama.cpp")
    ('tensor', 'layers')
    """
    return "layers" if split(engine)[0] in SPLIT_BY_LAYERS else "tensor"


@dataclass(frozen=True)
class Placement(ABC):
    """`batch` sequences, each with `context` cached tokens, on `gpus` GPUs that share the models.

    Attributes:
        gpu: the type of the GPUs.
        gpus: the number of GPUs.
        batch: the number of sequences that run together.
        context: tokens of each sequence in the KV cache; the mean, if they differ.
        costs: shares of the peak rates, and overheads.
        parallel: how several GPUs share a model. `tensor` divides weights, operations and KV cache, the cache among at
            most as many GPUs as it has heads, and pays two all-reduces a layer. `expert` is expert parallelism with
            data-parallel attention: each GPU has its own sequences and all weights except the experts, which are
            divided, and each layer with experts pays an exchange of tokens. `layers` gives each GPU some of the layers;
            the GPUs work one after the other, so only the memory is divided, and the host's launches are waited for.
        draft_gpus: the number of GPUs that share the draft; None for all.
        prefill_tokens: tokens of prompts that a step processes besides decoding (chunked prefill), on average.
        last_context: the context at the end of a request, if `context` is the one at its start. All terms are then
            means over the contexts in between, each for the same share of the time. None if `context` is the only one.
    """

    gpu: Gpu
    gpus: int = 1
    batch: int = 1
    context: float = 1024
    costs: EngineCosts = field(default_factory=lambda: EngineCosts.of(DEFAULT_ENGINE))
    parallel: Parallel = "tensor"
    draft_gpus: int | None = None
    prefill_tokens: float = 0.0
    last_context: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("gpus", 1), ("batch", 1)):
            check_whole(name, getattr(self, name), least, most=LARGEST)
        if self.last_context is None:
            if isinstance(self.context, float) and self.context.is_integer():
                object.__setattr__(self, "context", int(self.context))
            check_whole("context", self.context, 0, most=LARGEST)
        elif not 0 <= self.context <= self.last_context <= LARGEST:
            raise InputError(
                f"context and last_context must rise, from 0 to {LARGEST:,}, got {self.context} and {self.last_context}"
            )
        if self.parallel not in get_args(Parallel):
            raise InputError(f"parallel must be one of {', '.join(get_args(Parallel))}, got {self.parallel!r:.60}")
        if self.draft_gpus is not None:
            check_whole("draft_gpus", self.draft_gpus, 1, most=self.gpus)
        check_not_negative("prefill_tokens", self.prefill_tokens, ": give the mean number of a step, or 0")

    @abstractmethod
    def forward_seconds(self, model: ModelConfig, tokens: Iterable[int]) -> np.ndarray:
        """The seconds of a forward with n tokens of each sequence, for each n of `tokens`, (len(tokens),) float64."""

    @property
    def mean_context(self) -> int:
        """The mean of the contexts, rounded."""
        last = self.context if self.last_context is None else self.last_context
        return round((self.context + last) / 2)

    @property
    def of_draft(self) -> Self:
        """The same for the draft, on its GPUs."""
        return self if self.draft_gpus in (None, self.gpus) else replace(self, gpus=self.draft_gpus, draft_gpus=None)

    def memory_needed(self, target: ModelConfig, draft: ModelConfig | None = None) -> float:
        """Bytes that the weights of the models and their KV caches for the whole batch need on each GPU."""
        drafted = 0.0 if draft is None else self.of_draft.memory_needed(draft)
        cache = self._sequences * target.kv_bytes(self.context, self.last_context) / self._cache_shards(target)
        return self._stored_weights(target) + cache + drafted

    def require_memory(self, target: ModelConfig, draft: ModelConfig | None = None) -> None:
        """Check that the models and their KV caches fit into the memory of the GPUs.

        Raises:
            InputError: they do not fit; the message says how many GB are missing and what would fit.
        """
        offered = self.costs.memory_share * self.gpu.memory_bytes
        needed = self.memory_needed(target, draft)
        missing = needed - offered
        if missing <= 0:
            return
        models = (target,) if draft is None else (target, draft)
        weights = " and ".join(f"{m.name} ({m.weight_bytes / 1e9:.1f} GB of weights)" for m in models)
        digits = max(1, math.ceil(9 - math.log10(missing)))  # enough digits to show missing GB above 0
        raise InputError(
            f"{weights} with the cache of batch={self.batch} at context={self.mean_context} need "
            f"{needed / 1e9:,.{digits}f} GB on each GPU, gpus={self.gpus} {self.gpu.name} offers "
            f"{offered / 1e9:.{digits}f} GB ({self.costs.memory_share:.0%} of {self.gpu.memory_bytes / 1e9:.0f} GB): "
            f"{missing / 1e9:,.{digits}f} GB are missing; {self._repair(offered, target, draft)}"
        )

    @property
    def _by_layers(self) -> bool:
        return self.gpus > 1 and self.parallel == "layers"

    @property
    def _by_experts(self) -> bool:
        return self.gpus > 1 and self.parallel == "expert"

    @property
    def _divided(self) -> int:
        """The number of GPUs that work on a layer at the same time."""
        return 1 if self.parallel == "layers" else self.gpus

    @property
    def _sequences(self) -> int:
        """The number of sequences whose caches one GPU reads."""
        return -(-self.batch // self.gpus) if self._by_experts else self.batch

    def _cache_shards(self, model: ModelConfig) -> int:
        """The number of parts into which the caches of `_sequences` are divided."""
        if self.gpus == 1 or self.parallel == "expert":
            return 1
        return self.gpus if self.parallel == "layers" else min(self.gpus, model.shape.kv_heads)

    def _stored_weights(self, model: ModelConfig) -> float:
        experts = model.shape.moe_layers * model.shape.experts * model.bytes_of_an_expert if self._by_experts else 0.0
        alike = model.weight_bytes - experts
        return (alike if self._by_experts else alike / self.gpus) + experts / self.gpus

    def _repair(self, offered: float, target: ModelConfig, draft: ModelConfig | None) -> str:
        """A list of changes that would make the models fit into `offered` bytes on each GPU."""

        def misses(batch: int) -> bool:
            return replace(self, batch=batch).memory_needed(target, draft) > offered

        fits = []
        if replace(self, batch=1, context=0, last_context=None).memory_needed(target, draft) < offered:
            batch = bisect_left(range(1, self.batch), True, key=misses)
            fits.append(f"batch up to {batch} fits" if batch else "a shorter context may fit")
        more = [replace(self, gpus=self.gpus * 2**doubling) for doubling in range(1, 8)]
        enough = next((wider.gpus for wider in more if wider.memory_needed(target, draft) <= offered), None)
        if enough:
            fits.append(f"gpus={enough} fits")
        return ", ".join([*fits, "or a larger GPU or packed weights"])
