"""`Parameters`: the numbers that the proposed time model takes, and what each was before any fit.

A parameter starts at a value with a source, its prior, and a fit moves it as far as rows of named sources support. What
no row supports stays at its prior. No parameter belongs to a source; each belongs to an engine or to all engines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import numpy as np

Key = tuple[str | None, str]
"""A parameter: the engine, None for the numbers that no engine has of its own, and the name."""
ALL = "all engines"
"""The name under which a number that engines share is fitted: each engine has a factor of its own besides."""
OTHER = "other"
"""The parameters of an engine that has none of its own."""


@dataclass(frozen=True)
class Engine:
    """The numbers of one engine; seconds unless the name ends in `_share`.

    Attributes:
        bandwidth_share: share of the peak bandwidth while 16-bit weights are read.
        eight_bit_share, four_bit_share: the same for packed weights, relative to 16 bit.
        packed_flops_share: share of the peak of operations in the kernels that unpack weights for up to 8 tokens.
        layer_seconds: overhead of a layer in a forward.
        eager_seconds: time of the host to launch a layer, if launches are not captured in a graph; 0 if they are.
        step_seconds: overhead of a plain step.
        sequence_seconds: time of each sequence in a step outside the forward: scheduling, sampling, detokenising. It is
            for the vocabulary of Llama 3 and grows in proportion to the vocabulary.
        spec_step_seconds, spec_sequence_seconds: what a speculative step adds to the two before.
        level_seconds: overhead of a drafted level outside the draft's forward.
    """

    bandwidth_share: float = 0.8
    eight_bit_share: float = 0.9
    four_bit_share: float = 0.85
    packed_flops_share: float = 0.5
    layer_seconds: float = 9e-6
    eager_seconds: float = 0.0
    step_seconds: float = 1.2e-3
    sequence_seconds: float = 20e-6
    spec_step_seconds: float = 0.2e-3
    spec_sequence_seconds: float = 40e-6
    level_seconds: float = 0.38e-3


ENGINES = {
    "vllm": Engine(),
    "sglang": Engine(),
    "hf": Engine(eager_seconds=0.45e-3, step_seconds=1e-3),
    "gpt-fast": Engine(step_seconds=0.3e-3),
    "llama.cpp": Engine(0.95, 0.95, 0.95, packed_flops_share=0.23, step_seconds=0.2e-3),
    "trt-edge": Engine(0.97, layer_seconds=2e-6, step_seconds=0.2e-3),
    OTHER: Engine(),
}


@dataclass(frozen=True)
class Parameters:
    """All numbers of the time model.

    Attributes:
        flops_share: share of the dense peak of operations.
        cache_share: share of the peak bandwidth while the KV cache is read.
        expert_share: the bandwidth share of experts, relative to other weights.
        expert_seconds: overhead of each expert of a layer that a forward uses.
        moe_layer_seconds: overhead of a layer with experts, besides `layer_seconds`.
        text_sharing, batch_sharing: of the further tokens of one text, and of the further sequences, the share that
            chooses its experts independently. At 1 all tokens do; at 0 they use the experts of the first.
        reduce_seconds, reduce_gpu_seconds: an all-reduce, and what each GPU adds to it; a layer has two.
        exchange_seconds, exchange_token_seconds: the exchange of tokens in a layer of expert parallelism, and what
            each token adds.
        prefill_share: share of the operations of prefill that a median plain step in serving carries.
        engines: the numbers of each engine.
    """

    flops_share: float = 0.75
    cache_share: float = 1.0
    expert_share: float = 0.8
    expert_seconds: float = 0.5e-6
    moe_layer_seconds: float = 10e-6
    text_sharing: float = 0.7
    batch_sharing: float = 0.8
    reduce_seconds: float = 10e-6
    reduce_gpu_seconds: float = 2e-6
    exchange_seconds: float = 100e-6
    exchange_token_seconds: float = 0.1e-6
    prefill_share: float = 0.5
    engines: dict[str, Engine] = field(default_factory=lambda: dict(ENGINES))

    def engine(self, name: str) -> Engine:
        """The numbers of the engine of this name, or of `other`."""
        return self.engines.get(name, self.engines[OTHER])


PRIOR = Parameters()
"""Where each number comes from before a fit is listed in `PRIOR_SOURCES`."""

PRIOR_SOURCES = {
    "bandwidth_share": "aiconfigurator, mem_bw_empirical_scaling_factor 0.8; llama.cpp and edge engines 0.95 to 1.0 "
    "(issue 16)",
    "eight_bit_share": "a guess",
    "four_bit_share": "a guess",
    "packed_flops_share": "issue 16: T(n) of a Q4_0 8B on a 3090 rises by 0.16 T(1) a token up to 8; others guessed",
    "layer_seconds": "aiconfigurator, three kernels of 3 us",
    "eager_seconds": "issue 16: TinyLlama, 22 layers, adds 9.8 ms a level",
    "step_seconds": "SpecDecode-Bench, fit to vLLM on H100; others a guess",
    "sequence_seconds": "a guess",
    "spec_step_seconds": "a guess",
    "spec_sequence_seconds": "a guess",
    "exchange_seconds": "DeepEP, docs/legacy.md: dispatch and combine of 8 x 128 tokens on 8 H800 take 191 us",
    "exchange_token_seconds": "DeepEP, as above",
    "level_seconds": "SpecDecode-Bench, drafting time over three assumed levels",
    "flops_share": "SpecDecode-Bench, fit to vLLM on H100",
    "cache_share": "SpecDecode-Bench, fit to vLLM on H100",
}
"""Sources of the priors; a number that is not listed is a guess of its order of magnitude."""

WIDTHS = {
    "bandwidth_share": 0.15,
    "eight_bit_share": 0.15,
    "four_bit_share": 0.2,
    "packed_flops_share": 0.5,
    "layer_seconds": 0.5,
    "eager_seconds": 0.2,
    "step_seconds": 0.7,
    "spec_step_seconds": 1.5,
    "level_seconds": 0.3,
    "flops_share": 0.1,
    "cache_share": 0.15,
    "expert_share": 0.3,
    "text_sharing": 0.4,
    "batch_sharing": 0.3,
    "reduce_seconds": 0.7,
    "prefill_share": 0.7,
}
"""Standard deviation of the logarithm of each number around its prior; 1 where it is not listed."""

POOLED = ("sequence_seconds", "spec_step_seconds", "spec_sequence_seconds", "level_seconds")
"""Numbers of which engines are expected to have similar ones: what one engine shows moves the others too."""
OWN_WIDTH = 0.5
"""Standard deviation of the logarithm of an engine's own factor on a pooled number."""

_COMMON = tuple(one.name for one in fields(Parameters) if one.name != "engines")
_OF_ENGINE = tuple(one.name for one in fields(Engine))


def names(engines: Iterable[str]) -> list[Key]:
    """The parameters that a fit may move: the common ones, the pooled ones, and the non-zero ones of `engines`."""
    own = [(engine, name) for engine in engines for name in _OF_ENGINE if getattr(ENGINES[engine], name) > 0]
    return [*((None, name) for name in _COMMON), *((ALL, name) for name in POOLED), *own]


def width(engine: str | None, name: str) -> float:
    """The standard deviation of the logarithm of a parameter around its prior."""
    return OWN_WIDTH if engine not in (None, ALL) and name in POOLED else WIDTHS.get(name, 1.0)


def prior(engine: str | None, name: str) -> float:
    """The value of a parameter before a fit; a factor of 1 for a pooled number of all engines."""
    if engine == ALL:
        return 1.0
    return getattr(PRIOR if engine is None else ENGINES[engine], name)


def parameters_of(logarithms: np.ndarray, which: list[Key], base: Parameters = PRIOR) -> Parameters:
    """`base` with each parameter in `which` multiplied by the exponential of its logarithm. Shares are at most 1."""
    factors = {key: float(np.exp(value)) for key, value in zip(which, logarithms, strict=True)}

    def moved(engine: str | None, name: str) -> float:
        before = getattr(base if engine is None else base.engines[engine], name)
        value = before * factors.get((engine, name), 1.0)
        value *= factors.get((ALL, name), 1.0) if engine is not None else 1.0
        return min(value, 1.0) if name.endswith(("_share", "_sharing")) else value

    engines = {engine: Engine(**{name: moved(engine, name) for name in _OF_ENGINE}) for engine in base.engines}
    return Parameters(**{name: moved(None, name) for name in _COMMON}, engines=engines)
