"""Tally: the counts and times of a decoding run or a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, final

import numpy as np
from jaxtyping import Int

from spectheory.core.checks import check_array, check_seconds, check_types, check_whole
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.ratios import by_source, check_sources, ratio_half_width
from spectheory.core.record import Record

LARGEST_COUNT = 2**53
"""Counts must be below this number. Above it, float64 does not hold every whole number."""
ROUNDING = 1e-9
"""Parts of a time may add up to more than the whole by this share, because of rounding."""
COUNTS = ("new_tokens", "plain_tokens", "fourgrams", "repeated_fourgrams", "compared", "identical")
SECONDS = ("seconds", "target_seconds", "draft_seconds", "plain_seconds")
IDENTITY = ("tree", "verifier", "temperature", "top_k", "top_p", "target", "draft")
"""Tallies can only be added if they agree in these fields of their provenance."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tally(Record):
    """Counts of draft-and-verify cycles, by request. Tallies of one tree, verifier, sampling and pair can be added.

    Attributes:
        emitted: tokens emitted by the cycles: the accepted tokens, plus one token per cycle.
        cycles: number of cycles. Each is one target call; the call that reads the prompt does not count.
        accepted_histogram: number of cycles with exactly 0, 1, ... accepted tokens.
        new_tokens: tokens of text produced in `seconds`. Tokens of a request's last cycle beyond the end of its text do
            not count.
        seconds: wall-clock seconds of decoding after the prompt; 0 if nothing was timed.
        target_seconds, draft_seconds: the part of `seconds` spent in each model's forwards.
        plain_tokens, plain_seconds: tokens and seconds of plain autoregressive decoding of the same prompts in the same
            loop.
        fourgrams, repeated_fourgrams: number of runs of four tokens in the texts, and number of these that occurred
            earlier in the same text.
        compared, identical: number of requests whose text was compared with plain decoding, and number of equal texts.
        sources: where the prompt of each request is from, such as a category. Requests of one source are one cluster;
            None means that each request is its own.
    """

    kind: ClassVar[str] = "tally"
    schema: ClassVar[int] = 2

    emitted: Int[np.ndarray, " requests"]
    cycles: Int[np.ndarray, " requests"]
    accepted_histogram: Int[np.ndarray, " lengths"]
    new_tokens: int = 0
    seconds: float = 0.0
    target_seconds: float = 0.0
    draft_seconds: float = 0.0
    plain_tokens: int = 0
    plain_seconds: float = 0.0
    fourgrams: int = 0
    repeated_fourgrams: int = 0
    compared: int = 0
    identical: int = 0
    provenance: Provenance = UNKNOWN
    sources: tuple[str, ...] | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        check_types(Tally, vars(self))
        check_sources(self.sources, len(self.cycles))
        for name in ("emitted", "cycles", "accepted_histogram"):
            counts = check_array(name, getattr(self, name))
            if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
                raise InputError(f"{name} must be a list of counts >= 0, got {counts.tolist()!s:.80}")
            if (counts >= LARGEST_COUNT).any():
                raise InputError(f"{name} must be counts below 2**53, got {counts.tolist()!s:.80}")
            object.__setattr__(self, name, counts.astype(np.int64))
        accepted = int(self.accepted_histogram @ np.arange(len(self.accepted_histogram)))
        cycles = int(self.cycles.sum())
        if len(self.emitted) != len(self.cycles) or self.accepted_histogram.sum() != cycles:
            raise InputError("emitted, cycles and accepted_histogram must count the same requests and cycles")
        if self.emitted.sum() != accepted + cycles:
            raise InputError(f"emitted must sum to accepted + cycles = {accepted} + {cycles}, got {self.emitted.sum()}")
        most = self.cycles * len(self.accepted_histogram)
        if (self.emitted < self.cycles).any() or (self.emitted > most).any():
            raise InputError(
                "emitted must be at least 1 and at most accepted + 1 tokens per cycle of each request, got "
                f"{self.emitted.tolist()!s:.60} in {self.cycles.tolist()!s:.60} cycles"
            )
        for name in COUNTS:
            check_whole(name, getattr(self, name), 0, most=LARGEST_COUNT - 1)
        for name in SECONDS:
            check_seconds(name, getattr(self, name), least=0)
        bounds = {
            "target_seconds + draft_seconds": (self.target_seconds + self.draft_seconds, "seconds", self.seconds),
            "repeated_fourgrams": (self.repeated_fourgrams, "fourgrams", self.fourgrams),
            "identical": (self.identical, "compared", self.compared),
            "compared": (self.compared, "requests", len(self.cycles)),
        }
        for name, (value, other, most) in bounds.items():
            if value > most * (1 + ROUNDING):
                raise InputError(f"{name} must be at most {other}={most}, got {value}")

    @property
    def summary(self) -> str:
        """Requests, cycles, tau, and the speedup if it was measured."""
        counted = f"{len(self.cycles):,} requests, {int(self.cycles.sum()):,} cycles"
        tau = f"; tau {self.tau:.3f}" if self.cycles.any() else ""
        return f"{counted}{tau}" + (f"; {self.speedup:.2f}x the plain speed" if self.speedup else "")

    @property
    def wanted(self) -> int:
        """Number of requests that the run set out to count. After an interruption, fewer are counted."""
        return max(len(self.cycles), self.provenance.requests or 0)

    @property
    def tau(self) -> float:
        """Measured tokens per target call, the mean of accepted + 1 over the cycles."""
        if not self.cycles.any():
            raise InputError("tau needs at least one cycle, this tally has none")
        return float(self.emitted.sum() / self.cycles.sum())

    def tau_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of tau, with requests or their sources as clusters; see `ratio_half_width`.

        Clusters count as independent, cycles of one request do not. A request without a cycle does not count. The
        limits are cut to the range that a cycle can emit: from 1 token to one more than the depth of the tree.

        Raises:
            InputError: fewer than 2 clusters have a cycle.
        """
        emitted, cycles = by_source(self.sources, self.emitted, self.cycles)
        half = ratio_half_width(emitted, cycles, level)
        return max(1.0, self.tau - half), min(self.tau + half, float(len(self.accepted_histogram)))

    @property
    def speedup(self) -> float | None:
        """Seconds per token of plain decoding divided by seconds per token of this run; None if nothing was timed."""
        if not (self.seconds and self.new_tokens and self.plain_tokens and self.plain_seconds):
            return None
        return (self.plain_seconds / self.plain_tokens) / (self.seconds / self.new_tokens)

    @property
    def repeated_share(self) -> float | None:
        """Share of four-token runs that occurred earlier in the same text; None if none was counted.

        Looping text is easy to draft, so a high share makes every drafter look better.
        """
        return self.repeated_fourgrams / self.fourgrams if self.fourgrams else None

    def __add__(self, other: Tally) -> Self:
        """The sum of both tallies, with the provenance of the first.

        Raises:
            InputError: the tallies have different trees, verifiers, samplings, targets or drafts, or one has sources.
        """
        if not isinstance(other, Tally):
            return NotImplemented
        for name in IDENTITY:
            mine, theirs = getattr(self.provenance, name), getattr(other.provenance, name)
            if mine != theirs:
                raise InputError(f"tallies with different {name} cannot be added: {mine} and {theirs}")
        histogram = np.zeros(max(len(self.accepted_histogram), len(other.accepted_histogram)), np.int64)
        for tally in (self, other):
            histogram[: len(tally.accepted_histogram)] += tally.accepted_histogram
        return replace(
            self,
            emitted=np.concatenate([self.emitted, other.emitted]),
            cycles=np.concatenate([self.cycles, other.cycles]),
            accepted_histogram=histogram,
            sources=(*(self.sources or ()), *(other.sources or ())) or None,
            **{name: getattr(self, name) + getattr(other, name) for name in (*COUNTS, *SECONDS)},
        )
