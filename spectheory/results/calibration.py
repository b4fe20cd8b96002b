"""Predicted against measured tau of many combinations of policy, verifier and temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record

BOUND = 4.0
"""Within which every z of correct predictions belongs."""


@dataclass(frozen=True)
class Calibrated:
    """One combination: what was measured, and what two predictions say. None where there is nothing to say.

    Attributes:
        family: what kind of policy it is.
        requests, cycles: texts, and draft-and-verify cycles in them.
        nodes: mean of drafted nodes in a cycle.
        tau: measured tokens per target call.
        tau_low, tau_high: 95% limits, requests as clusters.
        exact: mean over the cycles of E[tau | draft, p] by the verifier's law; tau itself for greedy decoding.
        z: sum of tau - E over the root of the sum of Var[tau | draft, p]; None where nothing was left to chance.
        positional: tau by the rates of a trace of other prompts, by depth and rank.
        positional_low, positional_high: 95% limits by the counts behind those rates.
        repeated_share: share of the texts' four-token runs that repeat.
        compared, identical: texts laid beside plain greedy decoding, and those equal to it.
        widest_parting: largest difference of the two logits where texts part.
    """

    policy: str
    family: str
    verifier: str
    temperature: float
    requests: int
    cycles: int
    nodes: float
    tau: float
    tau_low: float | None
    tau_high: float | None
    exact: float
    z: float | None
    positional: float | None
    positional_low: float | None
    positional_high: float | None
    repeated_share: float | None
    compared: int
    identical: int
    widest_parting: float | None

    def __post_init__(self) -> None:
        for name in ("requests", "cycles", "compared", "identical"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be a count >= 0, got {getattr(self, name)}")
        for name in ("tau", "tau_low", "tau_high", "exact", "positional", "positional_low", "positional_high"):
            value = getattr(self, name)
            if value is not None and not 1 <= value < math.inf:
                raise InputError(f"{name} must be finite and at least 1, got {value}")
        if not self.identical <= self.compared <= self.requests:
            raise InputError(
                f"identical must be at most compared, and that at most requests, got {self.identical}, "
                f"{self.compared} and {self.requests}"
            )

    @property
    def error_percent(self) -> float | None:
        """Positional over measured tau, less one, in percent."""
        return None if self.positional is None else 100 * (self.positional / self.tau - 1)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Record):
    """All combinations that were measured, and why verifiers were left out, by name."""

    kind: ClassVar[str] = "calibration"
    schema: ClassVar[int] = 2
    derived: ClassVar[tuple[str, ...]] = ("widest_z", "level")

    rows: tuple[Calibrated, ...]
    left_out: dict[str, str]
    provenance: Provenance = UNKNOWN

    @property
    def summary(self) -> str:
        """How many combinations were measured, and the widest z."""
        z = "" if self.widest_z is None else f"; widest z {self.widest_z:.2f}"
        return f"{len(self.rows)} combinations{z}"

    @property
    def widest_z(self) -> float | None:
        """The z of largest size; None where all is greedy."""
        return max((row.z for row in self.rows if row.z is not None), key=abs, default=None)

    @property
    def level(self) -> float:
        """Correct predictions leave the bound somewhere with at most this probability: normal tails, added up."""
        return math.erfc(BOUND / math.sqrt(2)) * sum(row.z is not None for row in self.rows)
