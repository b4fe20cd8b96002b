"""The numbers of the table of costs: what each was before any fit, and how far a fit may move it.

`priors.csv` has the rows of the table in the same order. The `value` is the prior, with its `source`, and `width` is
the standard deviation of its logarithm in a fit; 0 is a number that no fit moves. A number belongs to all engines, or
to the engines that the row names, never to a source of rows.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from spectheory.hardware.engine_costs import CostRow, EngineCosts, chosen, parsed

_TEXT = Path(__file__).with_name("priors.csv").read_text(encoding="utf-8")
PRIORS: tuple[CostRow, ...] = parsed(_TEXT)
"""The rows of the table before a fit."""
_WIDTHS = [float(line["width"]) for line in csv.DictReader(_TEXT.splitlines())]
FREE = tuple(place for place, width in enumerate(_WIDTHS) if width > 0)
"""The places of the numbers that a fit may move, the parameters."""
WIDTHS = np.array([_WIDTHS[place] for place in FREE])
"""The standard deviation of the logarithm of each parameter around its prior."""
HIGHEST = np.array(
    [-np.log(PRIORS[place].value) if PRIORS[place].name.endswith("_share") else np.inf for place in FREE]
)
"""The largest logarithms of parameters: those of shares make them 1, others have no limit."""


@dataclass(frozen=True)
class Parameters:
    """The values of the rows of `PRIORS`."""

    values: tuple[float, ...]

    def of(self, engine: str) -> EngineCosts:
        """The costs of an engine, such as `vllm` or `vllm@0.11`."""
        return _costs(self.values, engine)

    @property
    def logarithms(self) -> np.ndarray:
        """The logarithms of the parameters over their priors, from which `parameters_of` makes them."""
        return np.log([self.values[place] / PRIORS[place].value for place in FREE])


PRIOR = Parameters(tuple(row.value for row in PRIORS))


def parameters_of(logarithms: Sequence[float] | np.ndarray) -> Parameters:
    """`PRIOR` with each parameter multiplied by the exponential of its logarithm. Shares are at most 1."""
    values = list(PRIOR.values)
    for place, logarithm in zip(FREE, logarithms, strict=True):
        found = float(values[place] * np.exp(logarithm))
        values[place] = min(found, 1.0) if PRIORS[place].name.endswith("_share") else found
    return Parameters(tuple(values))


@cache
def places(engine: str) -> dict[str, int]:
    """For each number of an engine, the place of its row."""
    return {name: PRIORS.index(row) for name, row in chosen(PRIORS, engine).items()}


@lru_cache(maxsize=1000)
def _costs(values: tuple[float, ...], engine: str) -> EngineCosts:
    return EngineCosts(**{name: values[place] for name, place in places(engine).items()})
