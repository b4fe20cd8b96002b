"""`Roofline`: the seconds of a forward as the sum of four terms: weights, operations, KV cache, and overhead of layers.

The four terms are added. The classical roofline takes the larger of two terms instead, so tokens cost nothing as long
as the reading of the weights takes longer than the operations (up to 295 tokens for Llama-3.1-8B on an H100). That is
not what is measured: in the fit of SpecDecode-Bench to vLLM on an H100, a forward of Llama-3.1-8B takes 5.7 % longer
with 16 tokens, 23 % with 64 and 105 % with 295. The sum gives the same percentages.

Each weight is read once in a forward. Of the input embeddings only the rows of the tokens are read, and of the experts
only the ones that the tokens use together.

Source: SpecDecode-Bench/simulator, predictor.py, Llama8BH100; ai-dynamo/aiconfigurator, systems/h100_sxm.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.model_config import ModelConfig

TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""The default numbers of tokens of a sequence for which forwards are computed. Between them, the seconds of a dense
model are exactly linear; the seconds of a mixture of experts are above the line by up to 0.7 %."""


@dataclass(frozen=True)
class Derates:
    """The shares of the maker's peak rates that an engine reaches, and the overheads that it adds.

    Attributes:
        bandwidth_share: share of the peak bandwidth while weights are read.
        kv_bandwidth_share: share of the peak bandwidth while the KV cache is read.
        flops_share: share of the dense peak of operations per second.
        memory_share: share of the memory that weights and KV cache may fill; activations and graphs need the rest.
        layer_overhead_seconds: overhead of each layer in each forward of any size, for three element-wise kernels (two
            norms and an activation) of 3 us each.
        step_overhead_seconds: overhead of each step outside the forwards, such as scheduling and sampling. It is the
            same for a speculative and a plain step.
        level_overhead_seconds: overhead of each drafted level outside the draft forward. This is an assumption, because
            no source states it. The fit has 2.135e-3 s for all drafting of a step, with an EAGLE head and an unknown
            number of levels. We assume three levels (FIXED_3, the middle setting of that simulator). A forward of this
            head takes 0.33e-3 s here, which leaves 0.38e-3 s for each level. For engines that capture the whole
            drafting loop in one CUDA graph this is probably too much. A measured `Latency` does not use it.

    Source: bandwidth_share and the 3 us are from aiconfigurator, memory_share is vLLM's default of
    gpu_memory_utilization, the others are from the fit of SpecDecode-Bench, rounded.
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
    """The seconds of forwards of `batch` sequences, each with `context` cached tokens, together on `gpus` GPUs.

    Tensor parallelism divides weights, operations and KV cache among the GPUs; the cache is divided among at most as
    many GPUs as it has heads. The communication between the GPUs is not counted, so with more than one GPU the seconds
    are lower bounds.

    Attributes:
        gpu: the type of the GPUs.
        gpus: the number of GPUs.
        batch: the number of sequences that run together.
        context: tokens of each sequence in the KV cache.
        derates: shares of the peak rates, and overheads.
    """

    gpu: Gpu
    gpus: int = 1
    batch: int = 1
    context: int = 1024
    derates: Derates = DERATES

    def __post_init__(self) -> None:
        for name, least in (("gpus", 1), ("batch", 1), ("context", 0)):
            check_whole(name, getattr(self, name), least, most=LARGEST)

    def forward_seconds(self, model: ModelConfig, tokens: Iterable[int]) -> np.ndarray:
        """The seconds of a forward with n tokens of each sequence, for each n of `tokens`, (len(tokens),) float64."""
        parts = self.forward_parts(model, tokens)
        return np.sum(list(parts.values()), axis=0)

    def forward_parts(self, model: ModelConfig, tokens: Iterable[int]) -> dict[str, np.ndarray]:
        """The terms of `forward_seconds`, in seconds: `weights`, `operations`, `cache`, `overhead`.

        Args:
            model: the model that computes the forward.
            tokens: numbers n of tokens of each sequence in the forward.

        Returns:
            For each term, (len(tokens),) float64.

        Raises:
            InputError: `tokens` is empty, or contains something else than whole numbers of at least 1.
        """
        n = np.asarray(tuple(tokens))
        if n.size == 0 or n.dtype.kind not in "iu" or n.min() < 1:
            raise InputError(f"tokens must be whole numbers of at least 1, got {n.tolist()}")
        together, derates = self.batch * n, self.derates
        bandwidth = self.gpu.bandwidth_bytes_per_second
        operations = together * model.flops_per_token(self.context)
        cache = self.batch * model.kv_read_bytes(self.context) / self._cache_shards(model)
        return {
            "weights": model.read_bytes(together) / (derates.bandwidth_share * bandwidth * self.gpus),
            "operations": operations / (derates.flops_share * self._peak(model) * self.gpus),
            "cache": np.full(n.shape, cache / (derates.kv_bandwidth_share * bandwidth)),
            "overhead": np.full(n.shape, model.layers * derates.layer_overhead_seconds),
        }

    def memory_needed(self, *models: ModelConfig) -> float:
        """Bytes that the weights of `models` and their KV caches for the whole batch need on each GPU."""
        caches = sum(self.batch * m.kv_bytes(self.context) / self._cache_shards(m) for m in models)
        return sum(m.weight_bytes for m in models) / self.gpus + caches

    def require_memory(self, *models: ModelConfig) -> None:
        """Check that `models` and their KV caches fit into the memory of the GPUs.

        Raises:
            InputError: they do not fit; the message says how many GB are missing and what would fit.
        """
        offered = self.derates.memory_share * self.gpu.memory_bytes
        missing = self.memory_needed(*models) - offered
        if missing <= 0:
            return
        weights = " and ".join(f"{m.name} ({m.weight_bytes / 1e9:.1f} GB of weights)" for m in models)
        digits = max(1, math.ceil(9 - math.log10(missing)))  # enough digits to show missing GB above 0
        raise InputError(
            f"{weights} with the cache of batch={self.batch} at context={self.context} need "
            f"{self.memory_needed(*models) / 1e9:,.{digits}f} GB on each GPU, gpus={self.gpus} {self.gpu.name} offers "
            f"{offered / 1e9:.{digits}f} GB ({self.derates.memory_share:.0%} of {self.gpu.memory_bytes / 1e9:.0f} GB): "
            f"{missing / 1e9:,.{digits}f} GB are missing; {self._repair(offered, models)}"
        )

    def provenance(self, target: ModelConfig, draft: ModelConfig) -> Provenance:
        """The provenance of the computed seconds, with all assumptions. It says that nothing was measured."""
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
        between = ["communication between GPUs is not counted: times are lower bounds"] if self.gpus > 1 else []
        known = target.tokenizer and draft.tokenizer
        pair = [] if known else [f"{target.name} and {draft.name} have one tokenizer: their configs do not say"]
        return stamp.assuming("forwards are computed by a roofline, not measured", level, *between, *pair)

    def _peak(self, model: ModelConfig) -> float:
        packed = {
            "fp4": self.gpu.fp4_flops_per_second,
            "fp8": self.gpu.fp8_flops_per_second,
            "int8": self.gpu.int8_flops_per_second,
        }
        usual = self.gpu.bf16_flops_per_second / (2 if model.arithmetic == "fp32" else 1)
        return packed.get(model.arithmetic) or usual

    def _cache_shards(self, model: ModelConfig) -> int:
        return min(self.gpus, model.shape.kv_heads)

    def _repair(self, offered: float, models: tuple[ModelConfig, ...]) -> str:
        """A list of changes that would make `models` fit into `offered` bytes on each GPU."""
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
