"""`Roofline`: the seconds of forwards and steps as a sum of terms, by model, GPUs and the costs of an engine.

    forward = weights + experts + operations - overlap + cache + layers + communication + launches
    plain   = forward(1) + step + batch * sequence * vocabulary / 128256 + prefill
    cycle   = forward(nodes + 1) + plain's overhead + spec_step + spec_shared + batch * spec_sequence
              + sum over drafted levels of (draft forward + level)

The terms are added. The classical roofline takes the larger of two terms instead, so tokens cost nothing as long as the
reading of the weights takes longer than the operations (up to 295 tokens for Llama-3.1-8B on an H100). But in a fit of
SpecDecode-Bench to vLLM, 16 tokens take 5.7 % longer than one, 64 take 23 %, and 295 take 105 %: a sum has this form.

Multiplications in FP4 are the exception: their kernels read the next weights while they multiply, so the shorter of the
two times overlaps with the longer one. A share of the peak that is fitted to forwards of 364 tokens elsewhere then
predicts the speedups and the forwards of 3,000 tokens that TensorRT Edge-LLM states for NVFP4 (docs/validation.md).

A layer with linear attention reads its state once in a forward, and writes it after each token: an engine keeps the
state of every verified row, to go on from the one of the last accepted token (SGLang, vLLM, llama.cpp, MLX).

Each weight is read once in a forward; of the input embeddings only the rows of the tokens, and of the experts only the
ones that the tokens use together. Every term is linear in the context, but for windows, so the mean context serves.

Source: SpecDecode-Bench/simulator, predictor.py, Llama8BH100; the fit in docs/validation.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from spectheory.core.acceptance import LEAST_SHARE
from spectheory.core.checks import check_not_negative, check_number, check_types, check_whole
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.deployment_class import ClassErrors, deployment_class
from spectheory.hardware.engine_costs import DEFAULT_ENGINE, VOCABULARY, EngineCosts, Overheads, Parallel, origin
from spectheory.hardware.gpus import CUDA, Gpu
from spectheory.hardware.hf_fields import LARGEST
from spectheory.hardware.model_config import ModelConfig

TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""The default numbers of tokens of a sequence for which forwards are computed. Between them, the seconds of a dense
model in 16 bits are exactly linear; the seconds of a mixture of experts are above the line by up to 0.7 %."""
UNPACKED_TOKENS = 8
"""Up to this many tokens, kernels for packed weights do not use the tensor cores (llama.cpp, mul_mat_vec_q)."""
FITTED_LINK = 450e9
"""Bytes per second in one direction of NVLink 4, to which the communication was fitted, with some rows of NVLink 5."""
OWN_PEAKS = ("fp4", "fp8", "int8")
"""Number formats for which GPUs may have units of their own."""
ACTIVATION_BYTES = 2
"""Bytes of a number that GPUs send each other."""


@dataclass(frozen=True)
class Roofline:
    """The seconds of forwards and steps of `batch` sequences, each with `context` cached tokens, on `gpus` GPUs.

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
        prefill_tokens: tokens of prompts that a step processes besides decoding (chunked prefill), on average.
        drafted_share: share of the sequences for which a cycle drafts; the others verify nothing, as where no n-gram
            matches.
    """

    gpu: Gpu
    gpus: int = 1
    batch: int = 1
    context: int = 1024
    costs: EngineCosts = field(default_factory=lambda: EngineCosts.of(DEFAULT_ENGINE))
    parallel: Parallel = "tensor"
    prefill_tokens: float = 0.0
    drafted_share: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("gpus", 1), ("batch", 1), ("context", 0)):
            check_whole(name, getattr(self, name), least, most=LARGEST)
        check_types(Roofline, vars(self))
        check_not_negative("prefill_tokens", self.prefill_tokens, ": give the mean number of a step, or 0")
        check_number("drafted_share", self.drafted_share, LEAST_SHARE, 1)

    def forward_seconds(self, model: ModelConfig, tokens: Iterable[float]) -> np.ndarray:
        """The seconds of a forward with n tokens of each sequence, for each n of `tokens`, (len(tokens),) float64.

        With a `drafted_share` below 1, n are the tokens of a sequence that drafts. The seconds are the mean of a plain
        forward, if no sequence drafts, and of a forward of the mean number of tokens that there are otherwise.
        """
        if self.drafted_share == 1:
            return np.sum(list(self.forward_parts(model, tokens).values()), axis=0)
        mean, place = self.drafted_share / self._drafting, replace(self, drafted_share=1.0)
        (none,), some = (place.forward_seconds(model, each) for each in ([1], 1 + (np.asarray(tokens) - 1) * mean))
        return none + self._drafting * (some - none)

    @property
    def _drafting(self) -> float:
        """The probability that a cycle drafts for any sequence."""
        return 1 - (1 - self.drafted_share) ** self.batch

    def forward_parts(self, model: ModelConfig, tokens: Iterable[float]) -> dict[str, np.ndarray]:
        """The terms of `forward_seconds`, in seconds.

        They are `weights`, `experts`, `operations`, `cache`, `layers`, `communication`, and two more. `overlap`, at
        most 0, is the time in which kernels read weights and multiply at once. `launches` is what the host needs longer
        to launch the layers than the GPU to compute them; if they are split over GPUs, all of it, as the host waits.

        Args:
            model: the model that computes the forward.
            tokens: numbers n of tokens of each sequence in the forward; of several sequences, they may be means.

        Returns:
            For each term, (len(tokens),) float64.

        Raises:
            InputError: `tokens` is empty, or contains something else than numbers of at least 1.
        """
        n = np.asarray(tuple(tokens))
        if n.size == 0 or n.dtype.kind not in "iuf" or not n.min() >= 1:
            raise InputError(f"tokens must be numbers of at least 1, got {n.tolist()}")
        short, whole = model.flops_per_token(0), model.flops_per_token(self.context)
        cached = model.kv_bytes(self.context)
        together, flops = self.batch * n, self._flops(model) * self._divided
        shape, costs, bandwidth = model.shape, self.costs, self.gpu.bandwidth_bytes_per_second
        weights, experts = np.full(n.shape, self._weights(model)), self._experts(model, n)
        layers = shape.layers * costs.layer_seconds + shape.moe_layers * costs.moe_layer_seconds
        layers += shape.linear_layers * costs.linear_layer_seconds
        kernels = self._kernels(model, together)
        shards = 1 if self.parallel == "layers" else self._cache_shards(model)
        kept = (cached + shape.state_bytes) / costs.cache_share + (n - 1) * shape.state_bytes / costs.state_share
        parts = {
            "weights": weights,
            "experts": experts,
            "operations": kernels + together * (whole - short) / flops,
            "overlap": np.zeros(n.shape),
            "cache": self._sequences * kept / (bandwidth * shards),
            "layers": layers + (n - 1) * shape.linear_layers * costs.state_seconds,
            "communication": self._communication(model, together),
        }
        if model.arithmetic == "fp4" and self._own_peak(model) is not None:
            parts["overlap"] = -np.minimum(kernels, weights + experts)
        host, waited = shape.layers * costs.eager_seconds, self.gpus > 1 and self.parallel == "layers"
        waits = np.full(n.shape, host) if waited else (host - np.sum(list(parts.values()), axis=0)).clip(0)
        return parts | {"launches": waits}

    def overheads(self, target: ModelConfig, draft: ModelConfig | None) -> Overheads:
        """The times outside the forwards, with those of the prompts that a step processes.

        `draft` None is n-gram or suffix lookup, whose levels cost nothing.
        """
        costs, vocabularies = self.costs, (target.vocabulary or VOCABULARY) / VOCABULARY
        plain = costs.step_seconds + self.batch * costs.sequence_seconds * vocabularies + self.prefill_seconds(target)
        drafted, level = (0.0, 0.0) if draft is None else (self.prefill_seconds(draft), costs.level_seconds)
        cycle = self._drafting * (costs.spec_step_seconds + (self._divided > 1) * costs.spec_shared_seconds)
        sequences = self.batch * self.drafted_share * costs.spec_sequence_seconds
        return Overheads(plain, plain + cycle + sequences + drafted, level)

    def prefill_seconds(self, model: ModelConfig) -> float:
        """Seconds of the prompts that a step processes besides decoding."""
        if not self.prefill_tokens:
            return 0.0
        operations = self.costs.prefill_share * self.prefill_tokens * model.flops_per_token(0)
        return operations / (self._flops(model) * self._divided)

    def provenance(self, target: ModelConfig, draft: ModelConfig | None, engine: str, given: bool) -> Provenance:
        """The provenance of the computed seconds, with all assumptions. It says that nothing was measured.

        `given` says that the costs are the caller's, not those of `engine` in the table.
        """
        placed = {"parallel": self.parallel} if self.gpus > 1 else {}
        prompts = {"prefill_tokens": self.prefill_tokens} if self.prefill_tokens else {}
        share = self.drafted_share
        said = ["forwards are computed by a roofline, not measured"]
        said.append(f"the costs of the engine ({engine}) were given" if given else origin(engine))
        said += [one for model in (target, draft) if model is not None and (one := self._said_of_kernels(model))]
        if self.gpus > 1 and self.parallel != "layers" and self._slower_link:
            said.append(
                f"communication over {self.gpu.link} is not measured: its bandwidth gives what NVLink would not take"
            )
        if draft is not None and not (target.tokenizer and draft.tokenizer):
            said.append(f"{target.name} and {draft.name} have one tokenizer: their configs do not say")
        if draft is None:
            said.append(f"drafts are looked up, which takes no time, for {share:.1%} of the sequences of a step")
        return Provenance.now(
            "spectheory.Latency.roofline",
            gpu=self.gpu.name,
            gpus=self.gpus,
            target=target.name,
            draft=None if draft is None else draft.name,
            batch=self.batch,
            settings={
                "gpu_sources": "; ".join(self.gpu.sources),
                "context": self.context,
                "engine": engine,
                **placed,
                **prompts,
                **({} if share == 1 else {"drafted_share": share}),
                **asdict(self.costs),
            },
        ).assuming(*said)

    def _said_of_kernels(self, model: ModelConfig) -> str:
        """A sentence on the kernels that unpack weights; empty for a model without them."""
        if not self._unpacks(model, model.linear_bytes):
            return ""
        return (
            f"the kernels that unpack the weights of {model.name} were not measured on {self.gpu.name}: they reach "
            f"{self.costs.packed_flops_share:.0%} of the peak of operations up to {UNPACKED_TOKENS} tokens, and "
            f"{self.costs.flops_share * self.costs.packed_large_share:.0%} above, as kernels of {CUDA}"
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
        used = model.expected_experts(self.batch * tokens, costs.independent_share)
        share = costs.bandwidth_share * costs.expert_share * self._packed_share(model, model.expert_bytes)
        share *= 1 if self._own_peak(model) is None else costs.low_precision_expert_share
        each = model.bytes_of_an_expert / (share * self.gpu.bandwidth_bytes_per_second)
        return shape.moe_layers * used * each / self._divided

    def _kernels(self, model: ModelConfig, together: np.ndarray) -> np.ndarray:
        """The seconds of the multiplications with weights."""
        short = model.flops_per_token(0)
        kernels = together * short / (self._flops(model) * self._divided)
        if not self._unpacks(model, model.linear_bytes):
            return kernels
        unpacked = self.costs.packed_flops_share * self.gpu.bf16_flops_per_second * self._divided
        unpacking = np.minimum(together, UNPACKED_TOKENS) * short / unpacked
        return np.where(together > 1, np.maximum(kernels / self.costs.packed_large_share, unpacking), kernels)

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

    def _flops(self, model: ModelConfig) -> float:
        """Operations per second that a large multiplication reaches on one GPU."""
        if own := self._own_peak(model):
            return self.costs.flops_share * self.costs.low_precision_share * own
        return self.costs.flops_share * self.gpu.bf16_flops_per_second / (2 if model.arithmetic == "fp32" else 1)

    def _own_peak(self, model: ModelConfig) -> float | None:
        """The peak of the units that multiply the packed weights of a model as they are; None without such units."""
        return getattr(self.gpu, f"{model.arithmetic}_flops_per_second") if model.arithmetic in OWN_PEAKS else None

    def _unpacks(self, model: ModelConfig, bytes_of_one: float) -> bool:
        """Whether a kernel unpacks weights with this many bytes per parameter into 16 bit before it multiplies."""
        return bytes_of_one < 1.9 and self._own_peak(model) is None

    def _packed_share(self, model: ModelConfig, bytes_of_one: float) -> float:
        """The bandwidth share of weights with this many bytes per parameter, relative to 16 bit."""
        if not self._unpacks(model, bytes_of_one):
            return 1.0
        return self.costs.four_bit_share if bytes_of_one < 0.8 else self.costs.eight_bit_share

    def memory_needed(self, target: ModelConfig, draft: ModelConfig | None = None) -> float:
        """Bytes that the weights of the models and their KV caches for the whole batch need on each GPU."""
        drafted = 0.0 if draft is None else self.memory_needed(draft)
        whole, cached = target.weight_bytes, target.kv_bytes(self.context)
        experts = target.shape.moe_layers * target.shape.experts * target.bytes_of_an_expert
        stored = whole - experts + experts / self.gpus if self._by_experts else whole / self.gpus
        return stored + self._sequences * cached / self._cache_shards(target) + drafted

    @property
    def offered_bytes(self) -> float:
        """Bytes of each GPU that weights and KV caches may fill."""
        return self.costs.memory_share * self.gpu.memory_bytes

    def require_memory(self, target: ModelConfig, draft: ModelConfig | None = None) -> None:
        """Check that the models and their KV caches fit into the memory of the GPUs.

        Raises:
            InputError: they do not fit; the message says what would fit.
        """
        offered, needed = self.offered_bytes, self.memory_needed(target, draft)
        if needed <= offered:
            return
        models = (target,) if draft is None else (target, draft)
        weights = " and ".join(f"{m.name} ({m.weight_bytes / 1e9:.1f} GB of weights)" for m in models)

        def misses(**change: int) -> bool:
            return replace(self, **change).memory_needed(target, draft) > offered

        batch = bisect_left(range(1, self.batch), True, key=lambda batch: misses(batch=batch))
        fits = [f"batch up to {batch} fits"] if batch else []
        more = [self.gpus * 2**doubling for doubling in range(1, 8)]
        fits += [f"gpus={gpus} fits" for gpus in more if not misses(gpus=gpus)][:1]
        raise InputError(
            f"{weights} with the cache of batch={self.batch} at context={self.context} need {needed / 1e9:,.6g} "
            f"GB on each GPU, gpus={self.gpus} {self.gpu.name} offers {offered / 1e9:.6g} GB "
            f"({self.costs.memory_share:.0%} of {self.gpu.memory_bytes / 1e9:.0f} GB): "
            + ", ".join([*fits, "or a shorter context, a larger GPU or packed weights"])
        )

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


@dataclass(frozen=True)
class RooflineInputs:
    """The deployment from which a roofline computes the seconds of a latency.

    Attributes:
        place: GPUs, batch, context and costs.
        target, draft: the models, without their single weights; the draft is None if drafts are looked up.
        engine: the engine, such as `vllm` or `vllm@0.11`.
        given: whether the costs are the caller's, as after a calibration on a cycle, not those of the engine in the
            table.
    """

    place: Roofline
    target: ModelConfig
    draft: ModelConfig | None
    engine: str
    given: bool = False

    def at(self, batch: int) -> Self:
        """The same with another batch size, and as many tokens of prompts for each sequence."""
        prompts = self.place.prefill_tokens * batch / self.place.batch
        return replace(self, place=replace(self.place, batch=batch, prefill_tokens=prompts))

    def seconds(self, tokens: Sequence[int]) -> dict[str, Any]:
        """The seconds of forwards of these numbers of tokens, and the overheads, by the names of `Latency`."""
        target = self.place.forward_seconds(self.target, tokens)[None]
        drafted, prompts = np.zeros_like(target), 0.0
        if self.draft is not None:
            drafted = self.place.forward_seconds(self.draft, tokens)[None]
            prompts = self.place.prefill_seconds(self.draft)
        return {
            "target_seconds": target,
            "draft_seconds": drafted,
            "prompt_seconds": self.place.prefill_seconds(self.target),
            "draft_prompt_seconds": prompts,
            **vars(replace(self.place, prefill_tokens=0.0).overheads(self.target, self.draft)),
        }

    @property
    def class_errors(self) -> ClassErrors:
        """The errors that deployments of this class had in the validation."""
        backend = CUDA if self.given else self.place.gpu.backend
        name = deployment_class(self.engine, self.target, self.place.gpus, self.place.batch, backend=backend)
        return ClassErrors.of(name, calibrated=self.given)
