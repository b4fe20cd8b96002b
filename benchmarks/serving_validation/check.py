"""`Check`: one figure of the simulator compared with the value that theory gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import t

LEVEL = 1e-6
"""Probability that a random check fails although the simulator is right, two-sided."""


@dataclass(frozen=True)
class Check:
    """One figure of the simulator compared with the value that theory gives.

    Attributes:
        group: what is checked.
        case: the settings.
        simulated: the figure of the simulator.
        expected: the value by theory.
        slack: largest difference that passes: rounding, or `LEVEL` of a mean over independent runs.
        unit: unit of the three.
    """

    group: str
    case: str
    simulated: float
    expected: float
    slack: float
    unit: str

    @property
    def good(self) -> bool:
        """Whether the check passes."""
        return abs(self.simulated - self.expected) <= self.slack

    @classmethod
    def of_runs(cls, group: str, case: str, figures: Sequence[float], expected: float, unit: str) -> Self:
        """The mean of independent runs; its slack is the half-width of Student's interval at `LEVEL`."""
        error = float(np.std(figures, ddof=1)) / len(figures) ** 0.5
        slack = float(t.isf(LEVEL / 2, len(figures) - 1)) * error
        return cls(group, case, float(np.mean(figures)), expected, slack, unit)
