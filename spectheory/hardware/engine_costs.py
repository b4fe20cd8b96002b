"""`EngineCosts`: the shares of peak rates that an engine reaches and the overheads that it adds, by engine and version.

The table is `data/engine_costs.csv`, in long form: a row is one number, with its source and the engines that have it.
These are `*`, all engines, or names that share the number, such as `vllm>=0.10 trtllm`. Of several rows that hold for
an engine, the last counts. A number is an engine's own only where at least three sources move it or its maker states
it; docs/validation.md lists the exceptions. The `spread` of a number is the standard deviation of its logarithm from
one deployment to another, as far as a measurement there may move it. The command
`python -m benchmarks.validation --fit-to FILE` writes the table.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from spectheory.core.acceptance import LEAST_SHARE
from spectheory.core.errors import InputError, unknown
from spectheory.core.files import shipped
from spectheory.core.plugins import plugins

ANY = "*"
"""The engine of the table whose numbers hold for every engine that has none of its own."""
ON_TRANSFORMERS = ("eagle", "medusa", "sequoia")
"""Engines that run on Hugging Face Transformers and have its costs."""
Parallel = Literal["tensor", "expert", "layers"]
"""How several GPUs share a model: tensor parallelism, expert parallelism with data-parallel attention, or a split by
layers."""
SPLIT_BY_LAYERS = ("hf", "llama.cpp")
"""Engines that split the layers over several GPUs unless they are told otherwise."""
PADDED = ("sglang", "trtllm")
"""Engines that verify as many tokens of each sequence if a lookup finds nothing: SGLang, ngram_worker.py; TensorRT-LLM,
drafter.py, for CUDA graphs. vLLM, llama.cpp and Transformers verify nothing then."""
LOOKUP_RATE = 0.7
"""The rate at which tokens that an n-gram lookup finds are accepted, one after the other (docs/validation.md)."""
DEFAULT_ENGINE = "vllm"
WITHOUT_COSTS = "mlx-lm", "ollama"
"""Engines that have the costs of the engine `*`."""
VERSIONS = {"vllm": ("0.7", "0.33"), "sglang": ("0.4", "0.5"), "trtllm": ("1.0", "1.3")}
"""The oldest and the newest versions with known costs."""
FITTED, PRIOR = "fitted to ", "prior: "
"""How the source of a number begins: sources of published measurements follow, or the source of the prior."""
NEWEST = (10**9,)
"""The numbers of a version above every version."""
VOCABULARY = 128_256
"""The vocabulary for which `sequence_seconds` is stated, that of Llama 3."""


@dataclass(frozen=True)
class Overheads:
    """The times of steps outside the forwards, by the names that they have in `Latency`."""

    plain_overhead_seconds: float
    overhead_seconds: float
    level_overhead_seconds: float


@dataclass(frozen=True)
class EngineCosts:
    """The shares of the maker's peak rates that an engine reaches, and the overheads that it adds.

    Attributes:
        bandwidth_share: share of the peak bandwidth while 16-bit weights are read.
        eight_bit_share, four_bit_share: the bandwidth share of packed weights, relative to 16 bit.
        packed_flops_share: share of the peak of operations in the kernels that unpack weights for up to 8 tokens.
        packed_large_share: for more tokens, what these kernels reach of `flops_share`.
        flops_share: share of the dense peak of operations per second.
        low_precision_share: the same for multiplications in fp8, int8 and fp4, relative to 16 bit.
        cache_share: share of the peak bandwidth while the KV cache is read.
        state_share: the same while the state of a layer with linear attention is kept for tokens after the first.
        memory_share: share of the memory that weights and KV cache may fill; activations and graphs need the rest.
        expert_share: the bandwidth share of experts, relative to other weights.
        low_precision_expert_share: the bandwidth share of experts in fp8, int8 or fp4 that are multiplied as they are,
            relative to other experts.
        independent_share: one less the correlation of two tokens' use of an expert. At 1 each token chooses its experts
            at random; at 0 all use the experts of the first.
        prefill_share: share of the operations of `prefill_tokens` that a step carries. Prompts come in few large steps,
            so a median step carries less than the mean.
        layer_seconds: overhead of a layer in a forward.
        moe_layer_seconds: overhead of a layer with experts, besides `layer_seconds`.
        linear_layer_seconds: overhead of a layer with linear attention, besides `layer_seconds`: its kernels are more.
        state_seconds: what each token after the first adds to it.
        eager_seconds: time of the host to launch a layer, if launches are not captured in a graph; 0 if they are.
        reduce_seconds, reduce_gpu_seconds: an all-reduce of tensor parallelism, and what each GPU adds to it; a layer
            has two.
        exchange_seconds, exchange_token_seconds: the exchange of tokens in a layer of expert parallelism, and what
            each token adds.
        step_seconds: overhead of a plain step outside its forward.
        sequence_seconds: time of each sequence in a step outside the forward: scheduling, sampling, detokenising. It is
            for the 128,256 tokens of Llama 3 and grows in proportion to the vocabulary.
        spec_step_seconds, spec_sequence_seconds: what a speculative step adds to the two before.
        spec_shared_seconds: what it adds besides if several GPUs share each layer.
        level_seconds: overhead of a drafted level outside the draft's forward.

    >>> EngineCosts.of("vllm").memory_share
    0.9
    """

    bandwidth_share: float
    eight_bit_share: float
    four_bit_share: float
    packed_flops_share: float
    packed_large_share: float
    flops_share: float
    low_precision_share: float
    cache_share: float
    state_share: float
    memory_share: float
    expert_share: float
    low_precision_expert_share: float
    independent_share: float
    prefill_share: float
    layer_seconds: float
    moe_layer_seconds: float
    linear_layer_seconds: float
    state_seconds: float
    eager_seconds: float
    reduce_seconds: float
    reduce_gpu_seconds: float
    exchange_seconds: float
    exchange_token_seconds: float
    step_seconds: float
    sequence_seconds: float
    spec_step_seconds: float
    spec_sequence_seconds: float
    spec_shared_seconds: float
    level_seconds: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.endswith("_share") and not 0 < value <= 1:
                raise InputError(f"{name} must be above 0 and at most 1, got {value}")
            if name.endswith("_seconds") and not 0 <= value < float("inf"):
                raise InputError(f"{name} must be finite and at least 0, got {value}")

    @classmethod
    def of(cls, engine: str) -> EngineCosts:
        """The costs of an engine such as `vllm`, or of one of its versions such as `vllm@0.11`; default: the newest.

        An engine that the table does not have gets the costs of the engine `*`.

        Raises:
            InputError: the engine is unknown, or the version is not a number, or its costs are not known.
        """
        require_known(engine)
        return _costs(engine)


@dataclass(frozen=True)
class CostRow:
    """A row of the table: one number, the engines that have it, and its source."""

    engines: str
    name: str
    value: float
    spread: float
    source: str

    @property
    def names(self) -> list[str]:
        """The names of the engines, without versions."""
        return [re.split("[<>]", one)[0] for one in self.engines.split()]

    def holds(self, name: str, version: tuple[int, ...]) -> bool:
        """Whether the row holds for a version of an engine."""
        for one in self.engines.split():
            engine, limit, number = re.fullmatch(r"([^<>]+)(>=|<|)([\d.]*)", one).groups()  # type: ignore[union-attr]
            if engine == ANY or (engine == name and (not limit or (version < _numbers(number)) == (limit == "<"))):
                return True
        return False


COLUMNS = tuple(field.name for field in fields(CostRow))
NAMES = tuple(field.name for field in fields(EngineCosts))
"""The names of all numbers."""


def parsed(text: str) -> tuple[CostRow, ...]:
    """The rows in the text of a table."""
    return tuple(
        CostRow(line["engines"], line["name"], float(line["value"]), float(line["spread"]), line["source"])
        for line in csv.DictReader(text.splitlines())
    )


def chosen(rows: Sequence[CostRow], engine: str) -> dict[str, CostRow]:
    """For each number, the last row that holds for `engine`, such as `vllm` or `vllm@0.11`.

    Raises:
        InputError: the version is not a version number.
    """
    name, version = split(engine)
    of = "hf" if name in ON_TRANSFORMERS else name
    return {row.name: row for row in rows if row.holds(of, version)}


def split(engine: str) -> tuple[str, tuple[int, ...]]:
    """The name and the numbers of the version in `vllm@0.11`; without a version, numbers above those of every version.

    Raises:
        InputError: the engine is not a name, or the version is not a version number.
    """
    name, _, version = engine.partition("@") if isinstance(engine, str) else ("", "", "")
    if not name:
        raise InputError(f"engine must be a name such as vllm or vllm@0.11, got {engine!r:.60}")
    found = re.match(r"[vVb]?(\d+(?:\.\d+)*)", version)
    if version and found is None:
        raise InputError(f"the version of {name} must be a number such as 0.11, got {version!r:.60}")
    return name, _numbers(found[1]) if found else NEWEST


def require_known(engine: str) -> None:
    """Refuse an engine that neither this package nor an installed one knows, and a version outside of `VERSIONS`."""
    name, version = split(engine)
    known = {*ON_TRANSFORMERS, *WITHOUT_COSTS, *(one for row in shipped_rows() for one in row.names)}
    if name not in known and name not in [
        one.name for one in plugins("spectheory.engines", name_of=lambda one: one.name)
    ]:
        raise InputError(unknown("engine", name, known))
    oldest, newest = VERSIONS.get(name, ("0", ""))
    if version < _numbers(oldest) or (newest and version[:2] > _numbers(newest) and version != NEWEST):
        raise InputError(f"no costs of {engine} are known: name a version of {name} from {oldest} to {newest}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@cache
def shipped_rows() -> tuple[CostRow, ...]:
    """The rows of the shipped table."""
    return parsed(shipped("engine_costs.csv"))


def origin(engine: str) -> str:
    """A sentence on where the costs of `engine` come from, for the assumptions of a plan."""
    rows = chosen(shipped_rows(), engine).values()
    fitted = [row.source.removeprefix(FITTED) for row in rows if row.source.startswith(FITTED)]
    sources = {source for listed in fitted for source in listed.rpartition(" (")[0].split("; ")}
    own = any(row.engines != ANY for row in rows)
    known = "" if own else f" (no costs of {split(engine)[0]} are known: those of any engine are used)"
    return (
        f"the engine has the costs of {engine}{known}: {len(fitted)} of {len(rows)} numbers are fitted to "
        f"{len(sources)} sources (see engine_costs.csv); the other {len(rows) - len(fitted)} are priors"
    )


@cache
def _costs(engine: str) -> EngineCosts:
    return EngineCosts(**{name: row.value for name, row in chosen(shipped_rows(), engine).items()})


def usual_parallel(engine: str) -> Parallel:
    """How an engine shares a model among several GPUs by default."""
    return "layers" if split(engine)[0] in SPLIT_BY_LAYERS else "tensor"


def lookup_share(engine: str, tau: float, length: int, counted: float | None = None) -> float:
    """The share of the sequences for which a step verifies `length` tokens if drafts are looked up.

    In `PADDED` engines it is 1. Elsewhere it is the `counted` one, or the one with which steps yield `tau` tokens.
    """
    if split(engine)[0] in PADDED:
        return 1.0
    kept = sum(LOOKUP_RATE**depth for depth in range(1, length + 1))
    return counted or min(1.0, max(LEAST_SHARE, (tau - 1) / kept))
