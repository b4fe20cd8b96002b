"""WallClock: how fast each of several decoders wrote the same texts, side by side on one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.planning.planner import Plan
from spectheory.results.tally import ROUNDING

SAME = -1
"""In `parted`: the text is that of the baseline, or was not compared."""
COUNTS = ("tokens", "cycles", "emitted", "fourgrams", "repeated_fourgrams", "parted")
SECONDS = ("seconds", "decode_seconds", "target_seconds", "draft_seconds")
LARGEST_COUNT = 2.0**53
"""From which float64 no longer holds every whole number."""
BASELINE = 0
"""The decoder that all others are laid beside, and whose greedy texts theirs should be."""
RESAMPLES = 2000


@dataclass(frozen=True, eq=False, repr=False)
class WallClock(Record):
    """Every prompt by every decoder. Arrays have a row for each finished prompt and a column for each decoder.

    Attributes:
        decoders: their names, the baseline first.
        families: what each is: `HF`, `plain`, `chain`, `static tree`, `dynamic tree` or `model-free`.
        predicted: the plan's speedup over plain decoding in the same loop, where it says anything.
        plan: where these, the chain's length and the tree come from.
        tokens: tokens of text.
        seconds: wall clock from prompt to text.
        decode_seconds: the part of it behind the first emitted tokens.
        target_seconds, draft_seconds: the part of `decode_seconds` inside forwards of each model.
        cycles, emitted: target calls in `decode_seconds`, and what they emitted, the last one's surplus included.
        fourgrams, repeated_fourgrams: runs of four tokens in the text, and how many stood earlier in it.
        parted: the first token that is not the baseline's, `SAME` where there is none or nothing was compared.
        margin: how far apart the target's logits of the two tokens are there.
    """

    kind: ClassVar[str] = "wallclock"
    schema: ClassVar[int] = 2

    decoders: tuple[str, ...]
    families: tuple[str, ...]
    predicted: tuple[float | None, ...]
    plan: Plan
    tokens: np.ndarray
    seconds: np.ndarray
    decode_seconds: np.ndarray
    target_seconds: np.ndarray
    draft_seconds: np.ndarray
    cycles: np.ndarray
    emitted: np.ndarray
    fourgrams: np.ndarray
    repeated_fourgrams: np.ndarray
    parted: np.ndarray
    margin: np.ndarray
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        wide = len(self.decoders)
        if not wide or len(set(self.decoders)) < wide or {len(self.families), len(self.predicted)} != {wide}:
            raise InputError(f"decoders must have different names, each a family and a prediction, got {self.decoders}")
        for name in (*COUNTS, *SECONDS, "margin"):
            values = np.asarray(getattr(self, name), np.float64)
            values = values.reshape(-1, wide) if values.size == 0 else values
            if values.ndim != 2 or values.shape != (len(self.tokens), wide):
                raise InputError(f"{name} must have shape (prompts, decoders), got {values.shape}")
            if not (np.isfinite(values) & (values >= (SAME if name == "parted" else 0))).all():
                raise InputError(f"{name} must be finite and at least 0, got {values.tolist()!s:.80}")
            if name in COUNTS:
                if (values != values.round()).any() or (values >= LARGEST_COUNT).any():
                    raise InputError(f"{name} must be counts, got {values.tolist()!s:.80}")
                values = values.astype(np.int64)
            object.__setattr__(self, name, values)
        if not (self.seconds > 0).all() or not (self.tokens > 0).all():
            raise InputError("seconds and tokens must be above 0")
        if (self.decode_seconds > self.seconds * (1 + ROUNDING)).any():
            raise InputError("decode_seconds must be at most seconds, of which it is a part")
        if (self.target_seconds + self.draft_seconds > self.decode_seconds * (1 + ROUNDING)).any():
            raise InputError("target_seconds + draft_seconds must be at most decode_seconds, of which they are parts")
        if (self.repeated_fourgrams > self.fourgrams).any() or (self.cycles > self.emitted).any():
            raise InputError("repeated_fourgrams must be at most fourgrams, and cycles at most emitted")
        if any(not 0 < value < np.inf for value in self.predicted if value is not None):
            raise InputError(f"predicted must be finite and above 0, or None, got {self.predicted}")

    @classmethod
    def empty(
        cls,
        decoders: tuple[str, ...],
        families: tuple[str, ...],
        predicted: tuple[float | None, ...],
        plan: Plan,
        provenance: Provenance,
    ) -> Self:
        """No prompt yet."""
        nothing = {name: np.empty((0, len(decoders))) for name in (*COUNTS, *SECONDS, "margin")}
        return cls(decoders, families, predicted, plan, **nothing, provenance=provenance)

    def with_prompt(self, **rows: list[float]) -> Self:
        """One prompt more; a value for each decoder, for each array."""
        return replace(self, **{name: np.vstack([getattr(self, name), row]) for name, row in rows.items()})

    @property
    def summary(self) -> str:
        """Prompts and decoders, and which decoder was the fastest."""
        counted = f"{self.prompts} prompts by {len(self.decoders)} decoders"
        if not self.prompts:
            return counted
        best = int(self.speed.argmax())
        return f"{counted}; fastest is {self.decoders[best]}, {self.speed[best]:.1f} tokens per second"

    @property
    def prompts(self) -> int:
        """How many are finished."""
        return len(self.tokens)

    @property
    def speed(self) -> np.ndarray:
        """(decoders,) median tokens per second, prompts included."""
        return np.median(self.tokens / self.seconds, axis=0)

    @property
    def tau(self) -> np.ndarray:
        """(decoders,) tokens per target call; NaN where one call wrote everything."""
        cycles = self.cycles.sum(0)
        return np.where(cycles > 0, self.emitted.sum(0) / np.maximum(cycles, 1), np.nan)

    @property
    def outside_share(self) -> np.ndarray:
        """(decoders,) share of the time behind the first tokens that is outside the forwards; NaN without such time."""
        inside, whole = (self.target_seconds + self.draft_seconds).sum(0), self.decode_seconds.sum(0)
        return np.where(whole > 0, 1 - inside / np.where(whole > 0, whole, 1), np.nan)

    @property
    def repeated_share(self) -> np.ndarray:
        """(decoders,) share of four-token runs that repeat: looping text flatters every drafter."""
        return self.repeated_fourgrams.sum(0) / np.maximum(self.fourgrams.sum(0), 1)

    @property
    def loop_speedup(self) -> np.ndarray:
        """(decoders,) over plain decoding in the same loop behind the prompt, as plans predict: median of prompts."""
        plain = self.decode_seconds[:, [self.families.index("plain")]]
        return np.median(plain / np.where(self.decode_seconds > 0, self.decode_seconds, np.nan), axis=0)

    def ratio(self, decoder: int, other: int = BASELINE, level: float = 0.95) -> tuple[float, float, float]:
        """Tokens per second of a decoder over those of another: median over prompts, and its percentile bootstrap.

        Prompts are drawn anew `RESAMPLES` times, always the same ones.
        """
        per_second = self.tokens / self.seconds
        ratios = per_second[:, decoder] / per_second[:, other]
        drawn = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
        low, high = np.quantile(np.median(ratios[drawn], axis=1), [(1 - level) / 2, (1 + level) / 2])
        return float(np.median(ratios)), float(low), float(high)

    def fastest(self, *families: str) -> int | None:
        """The decoder of these families of highest ratio to the baseline; None where there is none."""
        among = [i for i, family in enumerate(self.families) if family in families]
        return max(among, key=lambda i: self.ratio(i)[0], default=None)
