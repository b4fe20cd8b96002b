"""A ratio of sums over clusters, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Real

from spectheory.core.errors import InputError


def clusters(denominators: np.ndarray) -> int:
    """The number of clusters that count: those whose denominator is above 0. An interval needs two."""
    return int((denominators > 0).sum())


def check_sources(sources: Sequence[str] | None, prompts: int) -> None:
    """Raise InputError if there are sources, and not one for each of this number of prompts."""
    if sources and len(sources) != prompts:
        raise InputError(f"sources must name one for each of {prompts} prompts, got {len(sources)}")


def by_source(sources: Sequence[str] | None, *rows: Real[np.ndarray, " prompts"]) -> list[np.ndarray]:
    """The sums of each row over the prompts of each source, which are one cluster; the rows if there are no sources."""
    if not sources:
        return list(rows)
    place = np.unique(sources, return_inverse=True)[1]
    return [np.bincount(place, row) for row in rows]


def share_limits(
    hits: Real[np.ndarray, "*shape"], misses: Real[np.ndarray, "*shape"], level: float
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """Lower and upper Clopper-Pearson limits of the shares hits / (hits + misses), for independent trials."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = np.nan_to_num(beta.ppf(tail, hits, misses + 1))
    return low, np.nan_to_num(beta.ppf(1 - tail, hits + 1, misses), nan=1.0)


def influence(
    numerators: Real[np.ndarray, " clusters"], denominators: Real[np.ndarray, " clusters"]
) -> Float[np.ndarray, " clusters"]:
    """How much each cluster moves sum(numerators) / sum(denominators), to first order; the sum is 0."""
    total = denominators.sum()
    return (numerators - numerators.sum() / total * denominators) / total


def ratio_half_width(
    numerators: Real[np.ndarray, " clusters"], denominators: Real[np.ndarray, " clusters"], level: float = 0.95
) -> float:
    """Half the confidence interval of sum(numerators) / sum(denominators): linearised estimator, Student's t.

    Args:
        numerators: such as the tokens of each request.
        denominators: such as the cycles of each request. Clusters count as independent, see `clusters`.
        level: of the interval.

    Raises:
        InputError: there are fewer than 2 clusters.
    """
    from scipy.stats import t

    count = clusters(denominators)
    if count < 2:
        raise InputError(f"an interval needs at least 2 requests, got {count}: record more")
    error = np.sqrt(count / (count - 1) * (influence(numerators, denominators) ** 2).sum())
    return float(t.ppf((1 + level) / 2, count - 1) * error)
