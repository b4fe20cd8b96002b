"""`DraftRun`, what one draft did on the texts of a comparison, and the calibration error of its probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.replay.reliability import BINS, RANKS

ROUNDING = 1e-6
"""Relative rounding error of sums of expected counts."""


@dataclass(frozen=True, eq=False)
class DraftRun:
    """One draft on the texts of P prompts: a draft model or a head, as one run of training left it.

    Attributes:
        group: name of the row; runs of one group differ in the seed of training only.
        name: folder of the draft.
        weights: hash of its weights.
        emitted: expected tokens of the cycles in the texts of each prompt.
        cycles: expected number of these cycles.
        root_tokens: sum over the roots of the expected tokens of a cycle that starts there; None for dynamic
            trees, which are drafted only where cycles start.
        accepted: expected number of cycles in all texts together that keep 0..L drafted tokens.
        reliability: what the draft promised where cycles have kept 0..L-1 tokens: for its
            tokens of rank 0, 1, ... and for `BINS` equal parts of the probabilities from 0 to 1, the expected number
            of such places, the sum of the draft's probabilities, and the sum of the target's probabilities of the same
            tokens. At temperature 0 the target's are 0 or 1, and the draft's are those of temperature 1.
    """

    group: str
    name: str
    weights: str
    emitted: Float[np.ndarray, " prompts"]
    cycles: Float[np.ndarray, " prompts"]
    root_tokens: Float[np.ndarray, " prompts"] | None
    accepted: Float[np.ndarray, " lengths"]
    reliability: Float[np.ndarray, "depths ranks bins 3"]

    @property
    def tau(self) -> float:
        """Expected tokens per target call, over the texts."""
        return float(self.emitted.sum() / self.cycles.sum())

    @property
    def acceptance(self) -> Float[np.ndarray, " depths"]:
        """Share of the cycles that keep a token at depth 1..L, of those that kept one before; NaN where none."""
        kept = self.accepted[::-1].cumsum()[::-1]
        return _ratio(kept[1:], kept[:-1])

    @property
    def hits(self) -> Float[np.ndarray, "depths ranks"]:
        """How often the draft's token of each rank is the target's token, by depth; NaN without visits."""
        _, _, hits = np.moveaxis(self.reliability.sum(2), -1, 0)
        return _ratio(hits, self.reliability[..., 0].sum(2))

    @property
    def confidence(self) -> Float[np.ndarray, "depths ranks"]:
        """By depth and rank: the mean draft probability of its token of that rank; NaN without visits."""
        return _ratio(self.reliability[..., 1].sum(2), self.reliability[..., 0].sum(2))

    @property
    def calibration_error(self) -> Float[np.ndarray, "depths ranks"]:
        """Expected calibration error by depth and rank; NaN without visits. See `calibration_error`."""
        return calibration_error(self.reliability)

    def joined(self, other: DraftRun) -> DraftRun:
        """The run on the prompts of both."""
        tokens = None
        if self.root_tokens is not None and other.root_tokens is not None:
            tokens = np.concatenate([self.root_tokens, other.root_tokens])
        return replace(
            self,
            emitted=np.concatenate([self.emitted, other.emitted]),
            cycles=np.concatenate([self.cycles, other.cycles]),
            root_tokens=tokens,
            accepted=self.accepted + other.accepted,
            reliability=self.reliability + other.reliability,
        )

    def check(self, prompts: int) -> None:
        """Refuse a run whose arrays do not fit each other and `prompts` prompts, or contradict each other.

        Raises:
            InputError: the message names the array.
        """
        depths = len(self.accepted) - 1
        shapes = {
            "emitted": (prompts,),
            "cycles": (prompts,),
            "root_tokens": (prompts,),
            "accepted": (depths + 1,),
            "reliability": (depths, RANKS, BINS, 3),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values is not None and (np.shape(values) != shape or not np.isfinite(values).all()):
                raise InputError(
                    f"{name} of {self.name} must be finite and have the shape {shape}, got {np.shape(values)}"
                )
        if not self.cycles.sum() > 0:
            raise InputError(f"cycles of {self.name} must sum to more than 0: give texts that are longer than a cycle")
        for name, counted in (("cycles", self.accepted.sum()), ("emitted", self.accepted @ np.arange(1, depths + 2))):
            if abs((total := getattr(self, name).sum()) - counted) > ROUNDING * max(1, counted):
                raise InputError(
                    f"the sum of {name} of {self.name} must be {counted:.9g}, computed from accepted, got {total:.9g}"
                )


def calibration_error(reliability: Float[np.ndarray, "*tables bins 3"]) -> Float[np.ndarray, "*tables"]:
    """The expected calibration error (ECE) of tables; NaN without visits.

    In each bin, how far the mean probability of the draft is from the target's, weighted with the visits. Chance alone
    makes it larger than 0, and more so with fewer visits.
    """
    visits, promised, hits = np.moveaxis(reliability, -1, 0)
    return _ratio(abs(promised - hits).sum(-1), visits.sum(-1))


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    known = denominators > 0
    return np.where(known, numerators / np.where(known, denominators, 1), np.nan)
