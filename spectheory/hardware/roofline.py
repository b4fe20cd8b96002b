"""What a forward should cost by first principles: weights read, operations, cache read and launches, added up.

The terms add. A roofline that takes the larger of two ceilings calls every token below the ridge free; the fit of
SpecDecode-Bench to vLLM on an H100 charges Llama-3.1-8B 5.7 % for 16 of them, 23 % for 64 and 105 % for the 295 at the
ridge, and so does this sum.

Read: each weight once, but of an input embedding only the rows of the tokens, and of the experts those that the tokens
take together.

Source: SpecDecode-Bench/simulator, predictor.py, Llama8BH100; ai-dynamo/aiconfigurator, systems/h100_sxm.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.models import ModelConfig

TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""Numbers of tokens a sequence at which a forward is computed, unless others are asked for. Between them a dense model
is exactly linear; a mixture of experts is above the line by up to 0.7 % of a forward."""


@dataclass(frozen=True)
class Derates:
    """How far from the maker's numbers an engine stays, and what it adds.

    Attributes:
        bandwidth_share: of the peak bandwidth while weights are read.
        kv_bandwidth_share: of the peak bandwidth while the cache is read.
        flops_share: of the dense peak.
        memory_share: of the memory that weights and cache may fill; the rest is for activations and graphs.
        layer_overhead_seconds: of each layer of a forward, whatever its size: three element-wise kernels (two norms, an
            activation) of 3 us each.
        step_overhead_seconds: of each step outside the forwards (scheduling, sampling), speculative or plain.
        level_overhead_seconds: of each drafted level outside the draft's forward. An assumption: no source tells it
            apart. The fit has 2.135e-3 s for all drafting of a step, whatever its length, by an unstated number of
            levels of an EAGLE head whose forward is 0.33e-3 s here; taken as three, FIXED_3 being the middle setting
            of that simulator, they leave 0.38e-3 s a level. A guess from above for engines that capture the whole
            drafting loop in one CUDA graph. A measured `Latency` overrides it.

    Source: aiconfigurator for bandwidth_share and the 3 us; the fit of SpecDecode-Bench, rounded, for the others;
    memory_share is vLLM's gpu_memory_utilization.
    """

    bandwidth_share: float = 0.8
    kv_bandwidth_share: float = 1.0
    flops_share: float = 0.75
    memory_share: float = 0.9
    layer_overhead_seconds: float = 9e-6
    step_overhead_seconds: float = 1.207e-3
    level_overhead_seconds: float = 0.38e-3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_share") and not 0 < value <= 1:
                raise InputError(f"{field.name} must be above 0 and at most 1, got {value}")
            if field.name.endswith("_seconds") and not 0 <= value < float("inf"):
                raise InputError(f"{field.name} must be finite and at least 0, got {value}")


DERATES = Derates()


@dataclass(frozen=True)
class Roofline:
    """A deployment: `batch` sequences of `context` cached tokens, forwarded together on `gpus` GPUs.

    Weights, operations and cache are divided among the GPUs by tensor parallelism, the cache among no more of them than
    there are heads in it. What the GPUs say to each other is not counted: with more than one, times are lower bounds.
    """

    gpu: Gpu
    gpus: int = 1
    batch: int = 1
    context: int = 1024
    derates: Derates = DERATES

    def __post_init__(self) -> None:
        for name, least in (("gpus", 1), ("batch", 1), ("context", 0)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= LARGEST:
                raise InputError(f"{name} must be a whole number from {least} to {LARGEST:,}, got {value!r}")

    def forward_seconds(self, model: ModelConfig, tokens: Iterable[int]) -> np.ndarray:
        """Seconds of a forward of n tokens for each sequence of the batch, for each n of `tokens`."""
        parts = self.forward_parts(model, tokens)
        return np.sum(list(parts.values()), axis=0)

    def forward_parts(self, model: ModelConfig, tokens: Iterable[int]) -> dict[str, np.ndarray]:
        """The terms of `forward_seconds`: `weights`, `operations`, `cache` and `overhead`, one number for each n."""
        n = np.asarray(tuple(tokens))
        if n.size == 0 or n.dtype.kind not in "iu" or n.min() < 1:
            raise InputError(f"tokens must be whole numbers of at least 1, got {n.tolist()}")
        together, derates = self.batch * n, self.derates
        bandwidth = self.gpu.bandwidth_bytes_per_second
        operations = together * model.flops_per_token(self.context)
        cache = self.batch * model.kv_bytes(self.context) / self._cache_shards(model)
        return {
            "weights": model.read_bytes(together) / (derates.bandwidth_share * bandwidth * self.gpus),
            "operations": operations / (derates.flops_share * self._peak(model) * self.gpus),
            "cache": np.full(n.shape, cache / (derates.kv_bandwidth_share * bandwidth)),
            "overhead": np.full(n.shape, model.layers * derates.layer_overhead_seconds),
        }

    def memory_needed(self, *models: ModelConfig) -> float:
        """Bytes on each GPU of the weights of `models` and of their caches for the whole batch."""
        caches = sum(self.batch * m.kv_bytes(self.context) / self._cache_shards(m) for m in models)
        return sum(m.weight_bytes for m in models) / self.gpus + caches

    def require_memory(self, *models: ModelConfig) -> None:
        """Check that `models` fit. Raises InputError with what is missing and what would fit."""
        offered = self.derates.memory_share * self.gpu.memory_bytes
        missing = self.memory_needed(*models) - offered
        if missing <= 0:
            return
        weights = " and ".join(f"{m.name} ({m.weight_bytes / 1e9:.1f} GB of weights)" for m in models)
        digits = max(1, math.ceil(9 - math.log10(missing)))  # so many that what is missing is not 0
        raise InputError(
            f"{weights} with the cache of batch={self.batch} at context={self.context} need "
            f"{self.memory_needed(*models) / 1e9:,.{digits}f} GB on each GPU, gpus={self.gpus} {self.gpu.name} offers "
            f"{offered / 1e9:.{digits}f} GB ({self.derates.memory_share:.0%} of {self.gpu.memory_bytes / 1e9:.0f} GB): "
            f"{missing / 1e9:,.{digits}f} GB are missing; {self._repair(offered, models)}"
        )

    def provenance(self, target: ModelConfig, draft: ModelConfig) -> Provenance:
        """Says that nothing was measured, and all that was assumed."""
        stamp = Provenance.now(
            "spectheory.Latency.roofline",
            gpu=self.gpu.name,
            gpus=self.gpus,
            target=target.name,
            draft=draft.name,
            batch=self.batch,
            settings={"gpu_sources": "; ".join(self.gpu.sources), "context": self.context, **asdict(self.derates)},
        )
        level = f"a drafted level costs {1e3 * self.derates.level_overhead_seconds:.2f} ms outside the draft's forward"
        between = ["what GPUs say to each other is not counted: times are lower bounds"] if self.gpus > 1 else []
        known = target.tokenizer and draft.tokenizer
        pair = [] if known else [f"{target.name} and {draft.name} have one tokenizer: their configs do not say"]
        return stamp.assuming("forwards are computed by a roofline, not measured", level, *between, *pair)

    def _peak(self, model: ModelConfig) -> float:
        if model.arithmetic == "fp8" and self.gpu.fp8_flops_per_second is not None:
            return self.gpu.fp8_flops_per_second
        return self.gpu.bf16_flops_per_second / (2 if model.arithmetic == "fp32" else 1)

    def _cache_shards(self, model: ModelConfig) -> int:
        return min(self.gpus, model.shape.kv_heads)

    def _repair(self, offered: float, models: tuple[ModelConfig, ...]) -> str:
        """What would make `models` fit into `offered` bytes a GPU."""
        weights = sum(m.weight_bytes for m in models) / self.gpus
        caches = self.memory_needed(*models) - weights
        fits = []
        if weights < offered:
            batch = int((offered - weights) / caches * self.batch)
            fits.append(f"batch up to {batch} fits" if batch else "a shorter context may fit")
        more = [replace(self, gpus=self.gpus * 2**doubling) for doubling in range(1, 8)]
        enough = next((wider.gpus for wider in more if wider.memory_needed(*models) <= offered), None)
        if enough:
            fits.append(f"gpus={enough} fits")
        return ", ".join([*fits, "or a larger GPU or packed weights"])
