"""The numbers of `EngineCosts` that a fit may move, what each was before any fit, and how far it may be moved.

A number starts at a value with a source, its prior, and a fit moves it as far as rows of named sources support. What no
row supports stays at its prior. No number belongs to a source of rows; each belongs to an engine or to all engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.validation.rows import Row
from spectheory.hardware.engine_costs import ANY, NAMES, CostRow, EngineCosts, split

Key = tuple[str | None, str]
"""A parameter: the engine, None for the numbers that no engine has of its own, and the name."""
ALL = "all engines"
"""The name under which a number that engines share is fitted: each engine has a factor of its own besides."""

COMMON = {
    "flops_share": 0.75,
    "cache_share": 1.0,
    "memory_share": 0.9,
    "expert_share": 0.8,
    "text_share": 0.7,
    "batch_share": 0.8,
    "prefill_share": 0.5,
    "expert_seconds": 0.5e-6,
    "moe_layer_seconds": 10e-6,
    "reduce_seconds": 10e-6,
    "reduce_gpu_seconds": 2e-6,
    "exchange_seconds": 100e-6,
    "exchange_token_seconds": 0.1e-6,
    "tree_mask_seconds": 0.0,
}
"""The priors of the numbers that no engine has of its own."""
OF_ENGINE = {
    "bandwidth_share": 0.8,
    "eight_bit_share": 0.9,
    "four_bit_share": 0.85,
    "packed_flops_share": 0.5,
    "packed_large_share": 0.97,
    "low_precision_share": 0.5,
    "layer_seconds": 9e-6,
    "eager_seconds": 0.0,
    "step_seconds": 1.2e-3,
    "sequence_seconds": 20e-6,
    "spec_step_seconds": 0.3e-3,
    "spec_sequence_seconds": 40e-6,
    "level_seconds": 0.21e-3,
}
"""The priors of the numbers of an engine, unless it has other ones in `OWN`."""
EDGE = dict.fromkeys(("bandwidth_share", "eight_bit_share", "four_bit_share"), 0.95)
OF_2025 = {"spec_sequence_seconds": 68e-6}
"""Of SGLang and vLLM in their versions of 2025."""
OWN: dict[str, dict[str, float]] = {
    "vllm": {"spec_step_seconds": 0.1e-3},
    "vllm<0.10": OF_2025,
    "vllm<0.8": OF_2025,
    "sglang": OF_2025,
    "sglang<0.5": OF_2025,
    "trtllm": {},
    "hf": {"eager_seconds": 0.45e-3, "step_seconds": 1e-3},
    "gpt-fast": {"step_seconds": 0.3e-3},
    "llama.cpp": EDGE | {"packed_flops_share": 0.23, "step_seconds": 0.2e-3},
    "trt-edge": {"step_seconds": 0.2e-3},
    ANY: {},
}
"""The engines with numbers of their own, also for some versions, and the priors in which they differ."""
VARIANTS = {
    "vllm<0.10": ("vllm", ">=0.8,<0.10"),
    "vllm<0.8": ("vllm", "<0.8"),
    "sglang<0.5": ("sglang", "<0.5"),
}
"""The engine and its versions for each of them that holds for some versions only."""
FIXED = ("memory_share",)
"""Numbers that no fit moves. A number whose prior is 0 stays 0 too."""

PRIOR_SOURCES = {
    "bandwidth_share": "aiconfigurator, mem_bw_empirical_scaling_factor 0.8; llama.cpp and edge engines 0.95 to 1.0 "
    "(issue 16)",
    "packed_flops_share": "issue 16: T(n) of a Q4_0 8B on a 3090 rises by 0.16 T(1) a token up to 8; others guessed",
    "layer_seconds": "aiconfigurator, three kernels of 3 us",
    "eager_seconds": "issue 16: TinyLlama, 22 layers, adds 9.8 ms a level; 0 for engines that capture graphs",
    "step_seconds": "SpecDecode-Bench, fit to vLLM on H100; others a guess",
    "exchange_seconds": "DeepEP, docs/legacy.md: dispatch and combine of 8 x 128 tokens on 8 H800 take 191 us",
    "exchange_token_seconds": "DeepEP, as above",
    "spec_step_seconds": "with three levels, the drafting time of SpecDecode-Bench; how it is divided is a guess; the "
    "newest vLLM has almost none (issue 16)",
    "spec_sequence_seconds": "issue 16: 68 us in SGLang of 2025, of that order in vLLM of 2025; others a guess",
    "level_seconds": "with the step, the drafting time of SpecDecode-Bench, over three assumed levels",
    "flops_share": "SpecDecode-Bench, fit to vLLM on H100",
    "cache_share": "SpecDecode-Bench, fit to vLLM on H100",
    "memory_share": "vLLM, default of gpu_memory_utilization",
    "tree_mask_seconds": "not measured",
}
"""Sources of the priors; a number that is not listed is a guess of its order of magnitude."""

WIDTHS = {
    "bandwidth_share": 0.15,
    "eight_bit_share": 0.15,
    "four_bit_share": 0.2,
    "packed_flops_share": 0.5,
    "packed_large_share": 1.0,
    "layer_seconds": 0.25,
    "eager_seconds": 0.2,
    "step_seconds": 0.4,
    "sequence_seconds": 0.6,
    "spec_step_seconds": 0.7,
    "spec_sequence_seconds": 0.7,
    "level_seconds": 0.3,
    "flops_share": 0.1,
    "low_precision_share": 0.5,
    "cache_share": 0.15,
    "expert_share": 0.3,
    "text_share": 0.4,
    "batch_share": 0.3,
    "reduce_seconds": 0.7,
    "prefill_share": 0.7,
}
"""Standard deviation of the logarithm of each number around its prior; 1 where it is not listed."""

POOLED = (
    "low_precision_share",
    "sequence_seconds",
    "spec_step_seconds",
    "spec_sequence_seconds",
    "level_seconds",
)
"""Numbers of which engines are expected to have similar ones: what one engine shows moves the others too."""
OWN_WIDTHS = {
    "low_precision_share": 0.8,
    "sequence_seconds": 0.5,
    "spec_step_seconds": 1.5,
    "spec_sequence_seconds": 0.7,
    "level_seconds": 0.7,
}
"""Standard deviation of the logarithm of an engine's own factor on a pooled number. One version of an engine runs its
drafting loop in one graph, another launches every kernel by itself, so these factors are wide."""
SPREADS = {"spec_step_seconds": 1.0}
"""Standard deviation of the logarithm of a number from one deployment of an engine to another; its width where it is
not listed. Deployments of one engine differ less than engines do: calibrations with the source left out move the
overhead of a speculative step by 0.85 (root mean square over 20 sources; 0.76 to 0.87 without any one of them), and
leave some uncertainty."""


@dataclass(frozen=True)
class Parameters:
    """The costs of every engine; `*` is an engine that has none of its own."""

    engines: Mapping[str, EngineCosts]

    def of(self, engine: str) -> EngineCosts:
        """The costs of an engine, or those of `*`."""
        return self.engines.get(engine, self.engines[ANY])

    def of_row(self, row: Row) -> EngineCosts:
        """The costs of the engine of a row, in its version."""
        return self.of(variant_of(row))


PRIOR = Parameters({engine: EngineCosts(**(COMMON | OF_ENGINE | own)) for engine, own in OWN.items()})
"""Where each number comes from before a fit is listed in `PRIOR_SOURCES`."""


def variant_of(row: Row) -> str:
    """The engine among `OWN` whose numbers a row has, by its engine and version; `*` if there is none."""
    _, version = split(row.engine_version)
    for variant, (engine, versions) in VARIANTS.items():
        if engine == row.engine and CostRow(engine, versions, "", 0, 0, "").holds(version):
            return variant
    return row.engine if row.engine in OWN else ANY


def names(engines: Iterable[str]) -> list[Key]:
    """The parameters that a fit may move: the common ones, the pooled ones, and the non-zero ones of `engines`."""
    common = [(None, name) for name in NAMES if name in COMMON and COMMON[name] > 0 and name not in FIXED]
    own = [(engine, name) for engine in engines for name in NAMES if name in OF_ENGINE and prior(engine, name) > 0]
    return [*common, *((ALL, name) for name in POOLED), *own]


def width(engine: str | None, name: str) -> float:
    """The standard deviation of the logarithm of a parameter around its prior."""
    return OWN_WIDTHS[name] if engine not in (None, ALL) and name in POOLED else WIDTHS.get(name, 1.0)


def spread(engine: str | None, name: str) -> float:
    """The standard deviation of the logarithm of a number from one deployment to another; 0 if it may not move."""
    movable = prior(engine, name) > 0 and name not in FIXED
    return SPREADS.get(name, width(engine, name)) if movable else 0.0


def prior(engine: str | None, name: str) -> float:
    """The value of a parameter before a fit; a factor of 1 for a pooled number of all engines."""
    return 1.0 if engine == ALL else getattr(PRIOR.of(engine or ANY), name)


def logarithms_of(parameters: Parameters, which: list[Key]) -> np.ndarray:
    """Logarithms from which `parameters_of` makes `parameters`.

    What all engines share gets the part of a pooled number that is most probable by the priors.
    """
    whole = {
        (engine, name): float(np.log(getattr(parameters.of(engine or ANY), name) / prior(engine, name)))
        for engine, name in which
        if engine != ALL
    }
    shared = {name: _shared([value for key, value in whole.items() if key[1] == name], name) for name in POOLED}
    return np.array(
        [
            shared[name] if engine == ALL else whole[engine, name] - (shared[name] if name in POOLED else 0.0)
            for engine, name in which
        ]
    )


def _shared(of_engines: list[float], name: str) -> float:
    """The most probable logarithm of the factor of all engines on a pooled number, by the factors of the engines."""
    own, common = 1 / OWN_WIDTHS[name] ** 2, 1 / WIDTHS[name] ** 2
    return own * sum(of_engines) / (own * len(of_engines) + common)


def highest(which: list[Key]) -> np.ndarray:
    """The largest logarithms of parameters: those of shares make them 1, others have no limit."""
    return np.array([-np.log(prior(*key)) if key[0] != ALL and key[1].endswith("_share") else np.inf for key in which])


def parameters_of(logarithms: np.ndarray, which: list[Key]) -> Parameters:
    """`PRIOR` with each parameter in `which` multiplied by the exponential of its logarithm. Shares are at most 1."""
    factors = {key: float(np.exp(value)) for key, value in zip(which, logarithms, strict=True)}

    def moved(engine: str) -> dict[str, float]:
        before, after = PRIOR.engines[engine], {}
        for name in NAMES:
            own = (None,) if name in COMMON else (engine, ALL)
            value = getattr(before, name) * np.prod([factors.get((of, name), 1.0) for of in own])
            after[name] = min(float(value), 1.0) if name.endswith("_share") else float(value)
        return after

    return Parameters({engine: replace(costs, **moved(engine)) for engine, costs in PRIOR.engines.items()})
