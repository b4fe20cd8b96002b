"""Comparison: many decoders on the same prompts, with tau predicted and measured, and tokens a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_array
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.ratios import by_source, check_sources, clusters, ratio_half_width
from spectheory.core.record import Record

RESAMPLES = 2000
"""Bootstrap samples of an interval."""
COLUMNS = "emitted", "cycles", "tokens", "seconds", "equal"
"""The arrays of a comparison."""


@dataclass(frozen=True)
class Compared:
    """One decoder of a comparison, with what was predicted for it from texts of other prompts.

    Attributes:
        name: the drafter, or `HF` and the method for transformers' own decoding.
        verifier: name of the verifier; None for transformers' own decoding.
        temperature: sampling temperature; 0 is greedy decoding.
        tau, tau_low, tau_high: tokens per target call by replay, or by decoding where replay cannot follow, with the
            limits of the 95% interval; None if unknown.
        speed: tokens per second after the first token, by measured forwards or decoding; None if unknown.
    """

    name: str
    verifier: str | None
    temperature: float
    tau: float | None = None
    tau_low: float | None = None
    tau_high: float | None = None
    speed: float | None = None

    def __str__(self) -> str:
        return self.name if self.verifier is None else f"{self.name}, {self.verifier}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Record):
    """Many decoders on the same prompts. Arrays have one row for each finished prompt, one column for each decoder.

    Attributes:
        decoders: the decoders, with their predictions. One of each temperature is named `plain`.
        emitted, cycles: number of target calls after the first token, and number of tokens that they emitted, tokens
            beyond the end of the text included.
        tokens: number of tokens after the first one in the text.
        seconds: wall-clock seconds after the first token.
        equal: 1 if a greedy text equals that of plain decoding in the same loop, 0 if not; 1 for sampled texts.
        sources: where each prompt is from, such as a category. Prompts of one source are one cluster of the intervals;
            None means that each prompt is its own.
    """

    kind: ClassVar[str] = "comparison"
    schema: ClassVar[int] = 2

    decoders: tuple[Compared, ...]
    emitted: Int[np.ndarray, "prompts decoders"]
    cycles: Int[np.ndarray, "prompts decoders"]
    tokens: Int[np.ndarray, "prompts decoders"]
    seconds: Float[np.ndarray, "prompts decoders"]
    equal: Int[np.ndarray, "prompts decoders"]
    provenance: Provenance = UNKNOWN
    sources: tuple[str, ...] | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        shape = len(self.cycles), len(self.decoders)
        check_sources(self.sources, len(self.cycles))
        for name in COLUMNS:
            values = check_array(name, getattr(self, name))
            if values.shape != shape or values.size == 0 or values.dtype.kind not in "iuf" or not (values >= 0).all():
                raise InputError(
                    f"{name} must be numbers >= 0 of shape (prompts, decoders), at least one of each, got shape "
                    f"{values.shape} for {shape[1]} decoders"
                )
            object.__setattr__(self, name, values.astype(np.float64 if name == "seconds" else np.int64))
        if (self.cycles > self.emitted).any() or not (self.seconds > 0).all():
            raise InputError("cycles must be at most emitted, and seconds above 0")

    @property
    def summary(self) -> str:
        """The number of prompts and of decoders, and the fastest decoder."""
        best = self.decoders[int(self.speed.argmax())]
        return f"{len(self.cycles)} prompts by {len(self.decoders)} decoders; fastest: {best}, T={best.temperature:g}"

    @property
    def tau(self) -> Float[np.ndarray, " decoders"]:
        """Measured tokens per target call."""
        return self.emitted.sum(0) / np.maximum(self.cycles.sum(0), 1)

    def tau_half_width(self, decoder: int) -> float | None:
        """Half the 95% interval of a measured tau, with prompts or sources as clusters; None for one cluster."""
        emitted, cycles = by_source(self.sources, self.emitted[:, decoder], self.cycles[:, decoder])
        return ratio_half_width(emitted, cycles) if clusters(cycles) > 1 else None

    @property
    def speed(self) -> Float[np.ndarray, " decoders"]:
        """Tokens per second after the first token, median over prompts."""
        return np.median(self.tokens / self.seconds, axis=0)

    def ratio(self, decoder: int, other: int) -> tuple[float, float, float]:
        """Speed of `decoder` over that of `other`: median over prompts, with 95% limits by a bootstrap of clusters."""
        per_second = self.tokens / self.seconds
        ratios = per_second[:, decoder] / per_second[:, other]
        place = np.unique(self.sources or range(len(ratios)), return_inverse=True)[1]
        groups = [ratios[place == number] for number in range(place.max() + 1)]
        drawn = np.random.default_rng(0).integers(len(groups), size=(RESAMPLES, len(groups)))
        medians = [np.median(np.concatenate([groups[number] for number in row])) for row in drawn]
        low, high = np.quantile(medians, [0.025, 0.975])
        return float(np.median(ratios)), float(low), float(high)

    def error_percent(self, decoder: int) -> float | None:
        """How far the predicted tau is above the measured one, in percent of the measured one; None without it."""
        predicted = self.decoders[decoder].tau
        return None if predicted is None else 100 * (predicted / float(self.tau[decoder]) - 1)

    def agrees(self, decoder: int) -> bool | None:
        """Whether predicted and measured tau differ by less than the joint 95% interval; None without intervals."""
        one, half = self.decoders[decoder], self.tau_half_width(decoder)
        if one.tau is None or one.tau_low is None or one.tau_high is None or half is None:
            return None
        return abs(one.tau - float(self.tau[decoder])) <= float(np.hypot(half, (one.tau_high - one.tau_low) / 2))
