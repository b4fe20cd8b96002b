"""WallClock: the speed of several decoders on the same prompts and the same machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import SHORTEST, check_array, check_seconds
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.planning.schedule_record import Schedule
from spectheory.results.tally import LARGEST_COUNT, ROUNDING

SAME = -1
"""Value in `first_difference`: the text equals the baseline's text, or was not compared."""
COUNTS = ("tokens", "cycles", "emitted", "fourgrams", "repeated_fourgrams", "first_difference")
SECONDS = ("seconds", "decode_seconds", "target_seconds", "draft_seconds")
BASELINE = 0
"""Index of the decoder with which all others are compared. Greedy texts of all decoders should equal its texts."""
RESAMPLES = 2000
"""Bootstrap samples of an interval."""
FAMILIES = ("HF", "plain", "chain", "static tree", "dynamic tree", "model-free")
"""The kinds of decoders."""


@dataclass(frozen=True, eq=False, repr=False)
class WallClock(Record):
    """Speeds of several decoders. Arrays have one row for each finished prompt and one column for each decoder.

    Attributes:
        decoders: names of the decoders, the baseline first.
        families: the kind of each decoder: `HF`, `plain`, `chain`, `static tree`, `dynamic tree` or `model-free`.
        planned: for each decoder, the plan with its tree and verifier, which predicts its speed; None without.
        plan: the plan that decides the length of the chain and the static tree.
        rivals: the plan that the rates alone choose, and others over which `plan` was chosen; empty if none was timed.
        tokens: number of generated tokens in the text.
        seconds: wall-clock seconds from the prompt to the finished text.
        decode_seconds: the part of `seconds` after the first emitted tokens.
        target_seconds, draft_seconds: the part of `decode_seconds` inside forwards of each model.
        cycles, emitted: number of target calls in `decode_seconds`, and number of tokens that they emitted, tokens
            beyond the end of the text included.
        fourgrams, repeated_fourgrams: number of runs of four tokens in the text, and number of these runs that
            occurred earlier in the text.
        first_difference: position of the first token that differs from the baseline's text; `SAME` if none differs or
            nothing was compared.
        margin: at that position, the difference between the target's logits of the two tokens.
    """

    kind: ClassVar[str] = "wallclock"
    schema: ClassVar[int] = 4

    decoders: tuple[str, ...]
    families: tuple[str, ...]
    planned: tuple[Schedule | None, ...]
    plan: Schedule
    rivals: tuple[Schedule, ...]
    tokens: Int[np.ndarray, "prompts decoders"]
    seconds: Float[np.ndarray, "prompts decoders"]
    decode_seconds: Float[np.ndarray, "prompts decoders"]
    target_seconds: Float[np.ndarray, "prompts decoders"]
    draft_seconds: Float[np.ndarray, "prompts decoders"]
    cycles: Int[np.ndarray, "prompts decoders"]
    emitted: Int[np.ndarray, "prompts decoders"]
    fourgrams: Int[np.ndarray, "prompts decoders"]
    repeated_fourgrams: Int[np.ndarray, "prompts decoders"]
    first_difference: Int[np.ndarray, "prompts decoders"]
    margin: Float[np.ndarray, "prompts decoders"]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        wide = len(self.decoders)
        if not wide or len(set(self.decoders)) < wide or {len(self.families), len(self.planned)} != {wide}:
            raise InputError(
                f"decoders must be different names, each with one entry in families and one in planned, "
                f"got {self.decoders}"
            )
        if unknown := [family for family in self.families if family not in FAMILIES]:
            raise InputError(f"families must be among {', '.join(FAMILIES)}, got {unknown[0]!r:.60}")
        for decoder, family, plan in zip(self.decoders, self.families, self.planned, strict=True):
            if plan and family != ("chain" if plan.tree.is_chain else "static tree"):
                raise InputError(f"planned must be None for {decoder!r:.60} of family {family}, got {plan.summary:.80}")
        for name in (*COUNTS, *SECONDS, "margin"):
            values = check_array(name, getattr(self, name))
            if values.dtype.kind not in "iuf":
                raise InputError(f"{name} must be numbers, got {values.tolist()!s:.80}")
            values = values.astype(np.float64)
            values = values.reshape(-1, wide) if values.size == 0 else values
            if values.ndim != 2 or values.shape != (len(self.tokens), wide):
                raise InputError(f"{name} must have shape (prompts, decoders), got {values.shape}")
            least = SAME if name == "first_difference" else 0
            if not (np.isfinite(values) & (values >= least)).all():
                raise InputError(f"{name} must be finite and at least {least}, got {values.tolist()!s:.80}")
            if name in COUNTS:
                if (values != values.round()).any() or (values >= LARGEST_COUNT).any():
                    raise InputError(f"{name} must be counts, got {values.tolist()!s:.80}")
                values = values.astype(np.int64)
            if name in SECONDS:
                check_seconds(name, values, least=SHORTEST if name == "seconds" else 0)
            object.__setattr__(self, name, values)
        if not (self.tokens > 0).all():
            raise InputError("tokens must be above 0")
        if (self.decode_seconds > self.seconds * (1 + ROUNDING)).any():
            raise InputError("decode_seconds is a part of seconds and must be at most seconds")
        if (self.target_seconds + self.draft_seconds > self.decode_seconds * (1 + ROUNDING)).any():
            raise InputError(
                "target_seconds and draft_seconds are parts of decode_seconds: their sum must be at most decode_seconds"
            )
        if (self.repeated_fourgrams > self.fourgrams).any() or (self.cycles > self.emitted).any():
            raise InputError("repeated_fourgrams must be at most fourgrams, and cycles at most emitted")

    @classmethod
    def empty(
        cls,
        decoders: tuple[str, ...],
        families: tuple[str, ...],
        planned: tuple[Schedule | None, ...],
        plan: Schedule,
        rivals: tuple[Schedule, ...],
        provenance: Provenance,
    ) -> Self:
        """A record without prompts."""
        nothing = {name: np.empty((0, len(decoders))) for name in (*COUNTS, *SECONDS, "margin")}
        return cls(decoders, families, planned, plan, rivals, **nothing, provenance=provenance)

    def with_prompt(self, **rows: list[float]) -> Self:
        """A copy with one more prompt: for each array, a row with one value for each decoder."""
        return replace(self, **{name: np.vstack([getattr(self, name), row]) for name, row in rows.items()})

    @property
    def summary(self) -> str:
        """The number of prompts and of decoders, and the fastest decoder."""
        counted = f"{self.prompts} prompts by {len(self.decoders)} decoders"
        if not self.prompts:
            return counted
        best = int(self.speed.argmax())
        return f"{counted}; fastest is {self.decoders[best]}, {self.speed[best]:.1f} tokens per second"

    @property
    def predicted(self) -> list[float | None]:
        """For each decoder, the predicted speedup over plain decoding in the same loop; None without a plan."""
        return [plan and plan.speedup for plan in self.planned]

    @property
    def chosen(self) -> int | None:
        """Index of the decoder with the tree and the verifier of the plan; None if it was not timed."""
        return self._decoder_of(self.plan)

    @property
    def by_rates(self) -> int | None:
        """Index of the decoder that the rates alone choose; None without rivals, or if it was not timed."""
        return self._decoder_of(self.rivals[0]) if self.rivals else None

    def _decoder_of(self, plan: Schedule) -> int | None:
        if plan.tree.budget == 0:
            return self.families.index("plain")
        wanted = plan.tree, plan.verifier
        return next((i for i, one in enumerate(self.planned) if one and (one.tree, one.verifier) == wanted), None)

    @property
    def prompts(self) -> int:
        """The number of finished prompts."""
        return len(self.tokens)

    @property
    def speed(self) -> Float[np.ndarray, " decoders"]:
        """Tokens per second, median over prompts. The time includes reading the prompt."""
        return np.median(self.tokens / self.seconds, axis=0)

    @property
    def tau(self) -> Float[np.ndarray, " decoders"]:
        """Tokens per target call; NaN for a decoder without cycles."""
        cycles = self.cycles.sum(0)
        return np.where(cycles > 0, self.emitted.sum(0) / np.maximum(cycles, 1), np.nan)

    @property
    def outside_share(self) -> Float[np.ndarray, " decoders"]:
        """Share of `decode_seconds` outside the forwards of both models; NaN if `decode_seconds` is 0."""
        inside, whole = (self.target_seconds + self.draft_seconds).sum(0), self.decode_seconds.sum(0)
        return np.where(whole > 0, 1 - inside / np.where(whole > 0, whole, 1), np.nan)

    @property
    def repeated_share(self) -> Float[np.ndarray, " decoders"]:
        """Share of four-token runs that occurred earlier in the same text."""
        return self.repeated_fourgrams.sum(0) / np.maximum(self.fourgrams.sum(0), 1)

    @property
    def loop_speedup(self) -> Float[np.ndarray, " decoders"]:
        """Speedup over plain decoding in the same loop, prompt excluded: the median over prompts.

        Plans predict this speedup.
        """
        plain = self.decode_seconds[:, [self.families.index("plain")]]
        return np.median(plain / np.where(self.decode_seconds > 0, self.decode_seconds, np.nan), axis=0)

    def ratio(self, decoder: int, other: int = BASELINE, level: float = 0.95) -> tuple[float, float, float]:
        """Speed of `decoder` divided by the speed of `other`: (median over prompts, lower limit, upper limit).

        The limits are a percentile bootstrap over prompts with `RESAMPLES` samples and a fixed seed.
        """
        per_second = self.tokens / self.seconds
        ratios = per_second[:, decoder] / per_second[:, other]
        drawn = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
        low, high = np.quantile(np.median(ratios[drawn], axis=1), [(1 - level) / 2, (1 + level) / 2])
        return float(np.median(ratios)), float(low), float(high)

    def fastest(self, *families: str) -> int | None:
        """Index of the fastest decoder in these families, relative to the baseline; None if they have no decoder."""
        among = [i for i, family in enumerate(self.families) if family in families]
        return max(among, key=lambda i: self.ratio(i)[0], default=None)
