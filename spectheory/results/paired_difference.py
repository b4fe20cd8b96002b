"""The relative difference of two ratios on the same clusters, with its interval and the smallest one it could show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters, influence


@dataclass(frozen=True, eq=False)
class Ratio:
    """The sums of one run over the clusters, such as tokens and cycles of each prompt."""

    numerators: Float[np.ndarray, " clusters"]
    denominators: Float[np.ndarray, " clusters"]

    @property
    def value(self) -> float:
        """The ratio of the sums."""
        return float(self.numerators.sum() / self.denominators.sum())

    @property
    def influence(self) -> Float[np.ndarray, " clusters"]:
        """How much each cluster moves `value`."""
        return influence(self.numerators, self.denominators)


@dataclass(frozen=True)
class PairedDifference:
    """By how much one group of runs is above another on the same clusters.

    Attributes:
        percent: mean ratio of the group divided by the mean ratio of the other group, minus 1, in percent.
        error: standard error of `percent`, over clusters and over runs.
        degrees: degrees of freedom of `error`, by Satterthwaite's formula.
    """

    percent: float
    error: float
    degrees: float

    def half_width(self, level: float) -> float:
        """Half the confidence interval of `percent`."""
        from scipy.stats import t

        return float(t.ppf((1 + level) / 2, self.degrees) * self.error)


def mean_half_width(runs: Sequence[Ratio], level: float) -> float:
    """Half the confidence interval of the mean ratio of these runs, over clusters.

    Raises:
        InputError: as `paired_difference`.
    """
    from scipy.stats import t

    count = _clusters(runs)
    error = np.sqrt(count / (count - 1) * (np.mean([run.influence for run in runs], 0) ** 2).sum())
    return float(t.ppf((1 + level) / 2, count - 1) * error)


def _clusters(runs: Sequence[Ratio]) -> int:
    """The number of clusters that count in every run. Raises InputError if there are fewer than 2, or no runs."""
    if not runs:
        raise InputError("runs must be at least one, got none")
    count = min(clusters(run.denominators) for run in runs)
    if count < 2:
        raise InputError(f"an interval needs at least 2 prompts with cycles, got {count}: give more prompts")
    return count


def paired_difference(group: Sequence[Ratio], other: Sequence[Ratio], *, by_run: bool = False) -> PairedDifference:
    """The difference of the mean ratios of two groups of runs on the same clusters.

    Clusters are independent and runs of a group are independent, as prompts and seeds of training are. The variance is
    the sum of a part between clusters and of a part between the runs of each group. Both parts hold what a cluster and
    a run do together, so that the interval is at least as wide as its level demands. Between the runs of a group of one
    the variance is unknown and left out.

    Args:
        group: runs whose mean ratio is compared.
        other: runs that they are compared with.
        by_run: run i of one group belongs to run i of the other, as trainings of one seed from one start do. The part
            between runs is then the variance of their differences.

    Raises:
        InputError: a group is empty, fewer than 2 clusters have a denominator, or `by_run` is given for groups of
            different sizes.
    """
    if by_run and len(group) != len(other):
        raise InputError(f"by_run needs groups of the same size, got {len(group)} and {len(other)} runs: leave it out")
    count = min(_clusters(group), _clusters(other))
    means = [float(np.mean([run.value for run in runs])) for runs in (group, other)]
    ratio = means[0] / means[1]
    moved = [
        np.mean([run.influence for run in runs], 0) / mean for runs, mean in zip((group, other), means, strict=True)
    ]
    parts = [(float(ratio**2 * count / (count - 1) * ((moved[0] - moved[1]) ** 2).sum()), count - 1)]
    values = [np.array([run.value for run in runs]) / mean for runs, mean in zip((group, other), means, strict=True)]
    for spread in [values[0] - values[1]] if by_run else values:
        if len(spread) > 1:
            parts.append((float(ratio**2 * np.var(spread, ddof=1) / len(spread)), len(spread) - 1))
    variance = sum(part for part, _ in parts)
    shares = sum(part**2 / degrees for part, degrees in parts)
    degrees = variance**2 / shares if shares else float(count - 1)
    return PairedDifference(100 * (ratio - 1), 100 * float(np.sqrt(variance)), degrees)
