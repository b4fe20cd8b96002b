"""Predicted against measured tau of many combinations of policy, verifier and temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from spectheory.core.provenance import UNKNOWN, Provenance

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

    @property
    def error_percent(self) -> float | None:
        """Positional over measured tau, less one, in percent."""
        return None if self.positional is None else 100 * (self.positional / self.tau - 1)


@dataclass(frozen=True)
class Calibration:
    """All combinations that were measured, and why verifiers were left out, by name."""

    rows: tuple[Calibrated, ...]
    left_out: dict[str, str]
    provenance: Provenance = UNKNOWN

    @property
    def widest_z(self) -> float | None:
        """The z of largest size; None where all is greedy."""
        return max((row.z for row in self.rows if row.z is not None), key=abs, default=None)

    @property
    def level(self) -> float:
        """Correct predictions leave the bound somewhere with at most this probability: normal tails, added up."""
        return math.erfc(BOUND / math.sqrt(2)) * sum(row.z is not None for row in self.rows)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_dict` gave."""
        names = [field.name for field in fields(Calibrated)]
        rows = tuple(Calibrated(**{name: row[name] for name in names}) for row in data["rows"])
        return cls(rows, data["left_out"], Provenance(**data["provenance"]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "kind": "calibration",
            "schema": 1,
            "rows": [asdict(row) | {"error_percent": row.error_percent} for row in self.rows],
            "widest_z": self.widest_z,
            "level": self.level,
            "left_out": self.left_out,
            "provenance": asdict(self.provenance),
        }
