"""`Roofline`: the seconds of forwards and steps as a sum of terms, by model, GPUs, and the costs of an engine.

    forward = weights + experts + operations - overlap + cache + layers + communication + launches
    plain   = forward(1) + step + batch * sequence * vocabulary / 128256 + prefill
    cycle   = forward(nodes + 1) + plain's overhead + spec_step + batch * spec_sequence
              + sum over drafted levels of (draft forward + level)

The terms are added. The classical roofline takes the larger of two terms instead, so tokens cost nothing as long as the
reading of the weights takes longer than the operations (up to 295 tokens for Llama-3.1-8B on an H100). That is not what
is measured: in the fit of SpecDecode-Bench to vLLM on an H100, a forward of Llama-3.1-8B takes 5.7 % longer with 16
tokens, 23 % with 64 and 105 % with 295. A sum has this form.

Multiplications in FP4 are the exception: their kernels read the next weights while they multiply, so the shorter of the
two times overlaps with the longer one. With the overlap, a share of the peak that is fitted to forwards of 364 tokens
elsewhere predicts the speedups and the forwards of 3,000 tokens that TensorRT Edge-LLM states for NVFP4
(docs/validation.md); with a sum, the forwards take up to twice as long as predicted.

Each weight is read once in a forward. Of the input embeddings only the rows of the tokens are read, and of the experts
only the ones that the tokens use together. Every term is linear in the context, except for layers with a window or
with selected tokens, so the mean context serves for a distribution of contexts. With `last_context`, the terms are
means over the contexts of a request, for such layers too.

Source: SpecDecode-Bench/simulator, predictor.py, Llama8BH100; the fit in docs/validation.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.engine_costs import Overheads, origin
from spectheory.hardware.kernel_curves import KernelCurve
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.placement import Placement

TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""The default numbers of tokens of a sequence for which forwards are computed. Between them, the seconds of a dense
model in 16 bits are exactly linear; the seconds of a mixture of experts are above the line by up to 0.7 %."""
UNPACKED_TOKENS = 8
"""Up to this many tokens, kernels for packed weights do not use the tensor cores (llama.cpp, mul_mat_vec_q)."""

FITTED_LINK = 450e9
"""Bytes per second in one direction of NVLink 4, to which the communication was fitted, with some rows of NVLink 5."""
ACTIVATION_BYTES = 2
"""Bytes of a number that GPUs send each other."""


@dataclass(frozen=True)
class Roofline(Placement):
    """The seconds of the forwards and steps of a `Placement`.

    Attributes:
        curves: measured curves of kernels. A forward of a model whose weights have the format of a curve, on the GPU of
            the curve, follows it; all others have the shares of `costs`.
    """

    curves: tuple[KernelCurve, ...] = ()

    def forward_seconds(self, model: ModelConfig, tokens: Iterable[int]) -> np.ndarray:
        """The seconds of a forward with n tokens of each sequence, for each n of `tokens`, (len(tokens),) float64."""
        return np.sum(list(self.forward_parts(model, tokens).values()), axis=0)

    def forward_parts(self, model: ModelConfig, tokens: Iterable[int]) -> dict[str, np.ndarray]:
        """The terms of `forward_seconds`, in seconds.

        They are `weights`, `experts`, `operations`, `cache`, `layers`, `communication`, and two more. `overlap`, at
        most 0, is the time in which kernels read weights and multiply at once. `launches` is the time by which the host
        needs longer to launch the layers than the GPU to compute them. If the layers are split over GPUs, the host
        waits at each layer, so all of its time is added.

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
        weights, experts = np.full(n.shape, self._weights(model)), self._experts(model, n)
        kernels = self._kernels(model, self.batch * n)
        parts = {
            "weights": weights,
            "experts": experts,
            "operations": kernels + self._attention(model, self.batch * n),
            "overlap": -np.minimum(kernels, weights + experts) if self._overlaps(model) else np.zeros(n.shape),
            "cache": np.full(n.shape, self._cache(model)),
            "layers": np.full(n.shape, self._layers(model)),
            "communication": self._communication(model, self.batch * n),
        }
        host = model.layers * self.costs.eager_seconds
        waits = np.full(n.shape, host) if self._by_layers else (host - np.sum(list(parts.values()), axis=0)).clip(0)
        return parts | {"launches": waits}

    def overheads(self, target: ModelConfig, draft: ModelConfig | None) -> Overheads:
        """The times outside the forwards, with those of the prompts that a step processes."""
        found, prompts = self.costs.overheads(target, draft, self.batch), self.prefill_seconds(target)
        drafted = 0.0 if draft is None else self.of_draft.prefill_seconds(draft)
        return replace(
            found,
            plain_overhead_seconds=found.plain_overhead_seconds + prompts,
            overhead_seconds=found.overhead_seconds + prompts + drafted,
        )

    def provenance(
        self, target: ModelConfig, draft: ModelConfig | None, engine: str, given: bool = False
    ) -> Provenance:
        """The provenance of the computed seconds, with all assumptions. It says that nothing was measured.

        `given` says that the costs are the caller's, not those of `engine` in the table.
        """
        placed = {"parallel": self.parallel, "draft_gpus": self.of_draft.gpus} if self.gpus > 1 else {}
        prompts = {"prefill_tokens": self.prefill_tokens} if self.prefill_tokens else {}
        stamp = Provenance.now(
            "spectheory.Latency.roofline",
            gpu=self.gpu.name,
            gpus=self.gpus,
            target=target.name,
            draft=None if draft is None else draft.name,
            batch=self.batch,
            settings={
                "gpu_sources": "; ".join(self.gpu.sources),
                "context": self.mean_context,
                "engine": engine,
                **placed,
                **prompts,
                **asdict(self.costs),
            },
        )
        costs = f"the costs of the engine ({engine}) were given" if given else origin(engine)
        kernels = [said for model in (target, draft) if model is not None and (said := self._said_of_kernels(model))]
        links = []
        if self.gpus > 1 and self.parallel != "layers" and self._slower_link:
            links = [
                f"communication over {self.gpu.link} is not measured: its bandwidth gives what NVLink would not take"
            ]
        pair = []
        if draft is not None and not (target.tokenizer and draft.tokenizer):
            pair = [f"{target.name} and {draft.name} have one tokenizer: their configs do not say"]
        return stamp.assuming("forwards are computed by a roofline, not measured", costs, *kernels, *links, *pair)

    def _said_of_kernels(self, model: ModelConfig) -> str:
        """A sentence on how the seconds of unpacking kernels grow with the tokens; empty for a model without them."""
        if curve := self.curve(model):
            return f"{model.name}: {curve.in_words}"
        if not self._unpacks(model, model.linear_bytes):
            return ""
        return (
            f"no curve was measured for the kernels of {model.name} on {self.gpu.name}: they reach "
            f"{self.costs.packed_flops_share:.0%} of the peak of operations up to {UNPACKED_TOKENS} tokens, and "
            f"{self.costs.flops_share * self.costs.packed_large_share:.0%} above"
        )

    def _weights(self, model: ModelConfig) -> float:
        shape, costs = model.shape, self.costs
        read = shape.linear_parameters * model.linear_bytes / self._packed_share(model, model.linear_bytes)
        others = shape.other_parameters + shape.borrowed_parameters
        read += others * model.other_bytes / self._packed_share(model, model.other_bytes)
        alike = 1 if self._by_experts else self._divided
        return read / alike / (costs.bandwidth_share * self.gpu.bandwidth_bytes_per_second)

    def _experts(self, model: ModelConfig, tokens: np.ndarray) -> np.ndarray:
        shape, costs = model.shape, self.costs
        if not shape.moe_layers:
            return np.zeros(tokens.shape)
        alone = (1 + (tokens - 1) * costs.text_share) * (1 + (self.batch - 1) * costs.batch_share)
        share = costs.bandwidth_share * costs.expert_share * self._packed_share(model, model.expert_bytes)
        each = model.bytes_of_an_expert / (share * self.gpu.bandwidth_bytes_per_second) + costs.expert_seconds
        return shape.moe_layers * model.expected_experts(alone) * each / self._divided

    def _kernels(self, model: ModelConfig, together: np.ndarray) -> np.ndarray:
        """The operations of the kernels that multiply with weights."""
        reached = self._flops(model) * self._divided
        short = model.flops_per_token(0)
        kernels, unpacks = together * short / reached, self._unpacks(model, model.linear_bytes)
        if unpacks:
            kernels = np.where(together > 1, kernels / self.costs.packed_large_share, kernels)
        if curve := self.curve(model):
            kernels = np.maximum(np.where(together > curve.last, kernels, 0), self._measured(model, curve, together))
        elif unpacks:
            unpacked = self.costs.packed_flops_share * self.gpu.bf16_flops_per_second * self._divided
            unpacking = np.minimum(together, UNPACKED_TOKENS) * short / unpacked
            kernels = np.where(together > 1, np.maximum(kernels, unpacking), kernels)
        return kernels

    def _attention(self, model: ModelConfig, together: np.ndarray) -> np.ndarray:
        """The operations of the attention to the KV cache."""
        operations = model.flops_per_token(self.context, self.last_context) - model.flops_per_token(0)
        return together * operations / (self._flops(model) * self._divided)

    def curve(self, model: ModelConfig) -> KernelCurve | None:
        """The measured curve that a forward of `model` follows; None without one."""
        return next((curve for curve in self.curves if curve.holds(model, self.gpu)), None)

    def _measured(self, model: ModelConfig, curve: KernelCurve, together: np.ndarray) -> np.ndarray:
        """Operations by a curve, so that a forward with a short context takes T(n) / T(1) times as long as with one."""
        one = model.flops_per_token(0) / (self._flops(model) * self._divided)
        single = self._weights(model) + self._layers(model) + one
        return one + (curve.at(together) - 1) * single

    def _cache(self, model: ModelConfig) -> float:
        shards = 1 if self.parallel == "layers" else self._cache_shards(model)
        bandwidth = self.costs.cache_share * self.gpu.bandwidth_bytes_per_second
        return self._sequences * model.kv_read_bytes(self.context, self.last_context) / (bandwidth * shards)

    def _layers(self, model: ModelConfig) -> float:
        shape = model.shape
        return shape.layers * self.costs.layer_seconds + shape.moe_layers * self.costs.moe_layer_seconds

    def _communication(self, model: ModelConfig, together: np.ndarray) -> np.ndarray:
        """The time of all-reduces or exchanges, which is fitted for NVLink 4, and what a slower link adds."""
        shape, costs, states = model.shape, self.costs, ACTIVATION_BYTES * (model.hidden or 0) * together
        if self.gpus == 1 or self.parallel == "layers":
            return np.zeros(together.shape)
        if self.parallel == "expert":
            sent = 2 * states / self.gpus * min(shape.experts_per_token, self.gpus - 1)
            exchange = costs.exchange_seconds + together * costs.exchange_token_seconds
            return shape.moe_layers * (exchange + sent * self._slower_link)
        sent = 2 * (self.gpus - 1) / self.gpus * states
        reduce = costs.reduce_seconds + self.gpus * costs.reduce_gpu_seconds
        return 2 * shape.layers * (reduce + sent * self._slower_link)

    @property
    def _slower_link(self) -> float:
        """The seconds that a byte between GPUs takes longer than over NVLink 4; 0 if the link is unknown."""
        link = self.gpu.link_bytes_per_second or FITTED_LINK
        return max(0.0, 1 / link - 1 / FITTED_LINK)

    def prefill_seconds(self, model: ModelConfig) -> float:
        """Seconds of the prompts that a step processes besides decoding."""
        operations = self.costs.prefill_share * self.prefill_tokens * model.flops_per_token(0)
        return operations / (self._flops(model) * self._divided)

    def _flops(self, model: ModelConfig) -> float:
        """Operations per second that a large multiplication reaches on one GPU."""
        if own := self._own_peak(model):
            return self.costs.flops_share * self.costs.low_precision_share * own
        return self.costs.flops_share * self.gpu.bf16_flops_per_second / (2 if model.arithmetic == "fp32" else 1)

    def _own_peak(self, model: ModelConfig) -> float | None:
        """The peak of the units that multiply the packed weights of a model as they are; None without such units."""
        packed = {
            "fp4": self.gpu.fp4_flops_per_second,
            "fp8": self.gpu.fp8_flops_per_second,
            "int8": self.gpu.int8_flops_per_second,
        }
        return packed.get(model.arithmetic)

    def _overlaps(self, model: ModelConfig) -> bool:
        """Whether kernels multiply while they read the next weights."""
        return model.arithmetic == "fp4" and self._own_peak(model) is not None

    def _unpacks(self, model: ModelConfig, bytes_of_one: float) -> bool:
        """Whether a kernel unpacks weights with this many bytes per parameter into 16 bit before it multiplies."""
        return bytes_of_one < 1.9 and self._own_peak(model) is None

    def _packed_share(self, model: ModelConfig, bytes_of_one: float) -> float:
        """The bandwidth share of weights with this many bytes per parameter, relative to 16 bit."""
        if not self._unpacks(model, bytes_of_one):
            return 1.0
        return self.costs.four_bit_share if bytes_of_one < 0.8 else self.costs.eight_bit_share
