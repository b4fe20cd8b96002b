"""`ServingComparison`: one load served with several schedules, and their differences, request by request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.results.serving_run import ServingRun

GROUPS = 20
"""Groups of consecutive requests, whose means are taken as independent."""
LEVEL = 0.95
FIGURES: dict[str, Callable[[ServingRun], np.ndarray]] = {
    "ttft_seconds": lambda run: run.ttft_seconds,
    "tpot_seconds": lambda run: run.tpot_seconds,
    "end_to_end_seconds": lambda run: run.end_to_end_seconds,
    "slo_share": lambda run: run.meets_slo.astype(np.float64),
}
"""The figures of a request that are compared."""


@dataclass(frozen=True)
class Difference:
    """The mean difference of a figure between two schedules on the same requests.

    Attributes:
        name: the schedule.
        figure: what is compared, such as `tpot_seconds`.
        mean: mean over the requests of the figure with the schedule, minus the figure with the first schedule.
        low, high: its 95% interval; None with too few requests.
    """

    name: str
    figure: str
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False, repr=False)
class ServingComparison(Record):
    """One load served with several schedules: the same arrivals, and the same uniform numbers for the acceptance.

    The differences are of the same requests with two schedules, so that what both share cancels. Their intervals are by
    batch means: the requests are divided into 20 groups of consecutive ones, and the means of the groups count as
    independent (Student's t). Requests that arrive close to each other meet the same queue, so that their figures are
    not independent; the intervals are right if a group lasts for much longer than a queue. Use several loads of
    different seeds with `simulate.collect` where that is in doubt.

    Attributes:
        runs: a run for each schedule, at least one; the others are compared with the first.
        provenance: where the runs come from.

    Raises:
        InputError: there is no run, two have one name, or runs served different requests.
    """

    kind: ClassVar[str] = "serving_comparison"
    derived: ClassVar[tuple[str, ...]] = ("differences",)

    runs: tuple[ServingRun, ...]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        if not names or len(set(names)) < len(names):
            raise InputError(f"runs must be at least one, of different names, got {names}: name them apart")
        for run in self.runs[1:]:
            _paired(self.runs[0], run)

    @property
    def summary(self) -> str:
        """The summaries of the runs."""
        return "\n".join(run.summary for run in self.runs)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The difference of each figure between each further run and the first one. A figure without values, such as
        the time per token of answers of one token, is left out.
        """
        found = []
        for run in self.runs[1:]:
            for figure in FIGURES:
                values = differences(self.runs[0], run, figure)
                if len(values):
                    found.append(Difference(run.name, figure, *batch_means(values)))
        return tuple(found)


def differences(first: ServingRun, second: ServingRun, figure: str) -> np.ndarray:
    """The figure of each request in the second run minus that in the first, of the requests that both completed.

    Raises:
        InputError: the figure is unknown, or the runs served different requests.
    """
    if figure not in FIGURES:
        raise InputError(f"figure must be one of {', '.join(FIGURES)}, got {figure!r}")
    rows = _paired(first, second)
    values = FIGURES[figure](second)[rows[1]] - FIGURES[figure](first)[rows[0]]
    return values[~np.isnan(values)]


def batch_means(values: np.ndarray) -> tuple[float, float | None, float | None]:
    """The mean of values in the order of time, and its 95% interval by the means of 20 groups of consecutive ones.

    The interval is None if a group would have fewer than two values.
    """
    if len(values) < 2 * GROUPS:
        return float(values.mean()), None, None
    half = _half_width(np.array([group.mean() for group in np.array_split(values, GROUPS)]))
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def _half_width(means: np.ndarray) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means)))


def _paired(first: ServingRun, second: ServingRun) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the requests that both runs completed, after a check that these are the same requests."""
    _, rows, others = np.intersect1d(first.request, second.request, assume_unique=True, return_indices=True)
    for name in ("prompt_tokens", "output_tokens", "kinds"):
        if (getattr(first, name)[rows] != getattr(second, name)[others]).any():
            raise InputError(
                f"{first.name!r} and {second.name!r} must have served the same requests, but {name} differ"
            )
    return rows, others
