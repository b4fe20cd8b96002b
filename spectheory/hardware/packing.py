"""`Packing`, how weights are stored and multiplied, and `Formats`, the mean bytes of the weights of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from spectheory.hardware.design import Design
from spectheory.hardware.shape import Use, Weights

Arithmetic = Literal["fp4", "fp8", "int8", "bf16", "fp32"]


@dataclass(frozen=True)
class Packing:
    """How the weights of a matrix are stored and multiplied.

    Attributes:
        bits: bits of a weight.
        columns, rows: inputs and outputs that share a scale; None: all of them.
        scale_bits: bits of a scale, with its zero point.
        arithmetic: the number format of the multiplications; `bf16` if the weights are unpacked to 16 bits.
    """

    bits: float
    columns: int | None = None
    rows: int | None = 1
    scale_bits: float = 0.0
    arithmetic: Arithmetic = "bf16"

    def bytes_of(self, weights: Weights) -> float:
        """Bytes of the weights with their scales."""
        scales = weights.rows / (self.rows or weights.rows) * weights.columns / (self.columns or weights.columns)
        return (weights.size * self.bits + scales * self.scale_bits) / 8


@dataclass(frozen=True)
class Formats:
    """Mean bytes per parameter by use, bytes of a number in the KV cache, and the arithmetic of the multiplications.

    `weight_format` is the name of the format of most matrices, such as `q4_0`; empty if a config.json states it.
    """

    linear_bytes: float
    expert_bytes: float
    other_bytes: float
    lookup_bytes: float
    kv_bytes_per_value: float
    arithmetic: Arithmetic
    weight_format: str = ""


Rule = Callable[[Weights], Packing | None]
"""The packing of weights; None if they are not packed."""


def formats_of(design: Design, rule: Rule, size: float, kv_bytes_per_value: float) -> Formats:
    """Mean bytes by use; weights without a packing have `size` bytes each."""
    totals: Counter[Use] = Counter()
    stored: dict[Use, float] = {}
    votes: Counter[Arithmetic] = Counter()
    for one in design.weights:
        packing = rule(one)
        totals[one.use] += one.size
        stored[one.use] = stored.get(one.use, 0.0) + (packing.bytes_of(one) if packing else one.size * size)
        if one.use in ("matrix", "expert"):
            votes[packing.arithmetic if packing else "fp32" if size == 4 else "bf16"] += one.size

    def mean(*uses: Use) -> float:
        total = sum(totals[use] for use in uses)
        return sum(stored.get(use, 0.0) for use in uses) / total if total else size

    arithmetic = votes.most_common(1)[0][0] if votes else "bf16"
    other = mean("other", "head", "borrowed", "expert other")
    return Formats(mean("matrix"), mean("expert"), other, mean("lookup"), kv_bytes_per_value, arithmetic)


def is_linear(weights: Weights) -> bool:
    """Whether the weights are a matrix of a layer or of an expert."""
    return weights.use in ("matrix", "expert")
