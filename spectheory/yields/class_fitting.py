"""Fitting classes of contexts, each with a rate of its own, to the counts of accepted tokens by depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Num, Real

from spectheory.core.errors import InputError
from spectheory.core.ratios import ratio_half_width, share_limits
from spectheory.yields.mixing_weights import log_likelihood, mixing_weights

RATES = np.unique(np.concatenate([np.linspace(0, 1, 101), 1 - np.geomspace(0.001, 0.01, 6)]))
"""The rates that a class may have. Near 1 they are closer together, because the lengths of runs differ most there."""
LOWEST_FALL = 0.1
"""The smallest factor by which the rates of all classes may fall from one depth to the next."""
SAME_LIKELIHOOD = 0.5
"""Log-likelihoods that differ by less, one standard error of one parameter, count as equal."""
NO_WEIGHT = 1e-7
"""Smaller weights of a class are rounding."""
MISFIT = 0.01
"""A fitted share of cycles may lie outside the confidence limits of the counted share by this much: counts of millions
of cycles show differences that do not matter."""


class NoClassesError(InputError):
    """The counts cannot be described by classes. The message gives the reason; the table of rates still holds."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How often nodes at each depth were accepted, and how often the cycle went on from there, by request.

    Attributes:
        hits: how often a child of a node at depth d was accepted.
        trials: how often a node at depth d was accepted, so that one of its children could be. With
            several requests, every cycle tries all depths that it reaches.
        others: probability that a child of another rank is accepted, given that the child of rank 0 is not. 0 if
            only rank 0 was drafted, or counted.
    """

    hits: Real[np.ndarray, "requests depths"]
    trials: Real[np.ndarray, "requests depths"]
    others: Float[np.ndarray, " depths"]

    @property
    def rates(self) -> Float[np.ndarray, " depths"]:
        """Counted rates."""
        return self.hits.sum(0) / self.trials.sum(0)

    @property
    def survival(self) -> Float[np.ndarray, " depths"]:
        """Counted share of the cycles that accept at least 1..D tokens (Kaplan-Meier)."""
        return np.cumprod(self.rates)

    @property
    def outcomes(self) -> Num[np.ndarray, " outcomes"]:
        """Number of cycles that ended at depths 0..D-1, and that were still going on at depths 1..D when their
        draft or the counting ended.
        """
        hits, trials = self.hits.sum(0), self.trials.sum(0)
        return np.concatenate([trials - hits, hits - np.append(trials[1:], 0)])

    def limits(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Confidence limits of `survival`, both (D,), that hold for all depths together (Bonferroni).

        With several requests, requests count as independent and their cycles do not. With one, all cycles count as
        independent (Clopper-Pearson). Where drafts were of several lengths, the number of cycles at a depth is the
        number of trials there divided by the share of cycles that reach it (Peto).
        """
        each, share = 1 - (1 - level) / len(self.others), self.survival
        cycles = self.trials.sum(0) / np.append(1, share[:-1])
        low, high = share_limits(cycles * share, cycles * (1 - share), each)
        if len(self.hits) == 1:
            return low, high
        half = np.array([ratio_half_width(column, self.trials[:, 0], each) for column in self.hits.T])
        return np.minimum(low, share - half).clip(0), np.maximum(high, share + half).clip(None, 1)


@dataclass(frozen=True, eq=False)
class FittedClasses:
    """The most likely classes.

    Attributes:
        weights: share of each class among the cycles that were counted.
        rates: rate of rank 0 in each class, at depth 0.
        falls: the factor on these rates at each depth, which all classes share.
        survival: share of the cycles that accept at least 1..D tokens, all classes together.
    """

    weights: Float[np.ndarray, " classes"]
    rates: Float[np.ndarray, " classes"]
    falls: Float[np.ndarray, " depths"]
    survival: Float[np.ndarray, " depths"]


def survival(
    rates: Float[np.ndarray, " classes"], falls: Float[np.ndarray, " depths"], others: Float[np.ndarray, " depths"]
) -> Float[np.ndarray, "lengths classes"]:
    """The probability that a cycle of each class gets to depth 0..D."""
    first = falls[:, None] * rates
    return np.cumprod(np.vstack([np.ones_like(rates), first + (1 - first) * others[:, None]]), axis=0)


def fitted_classes(counts: ClassCounts, level: float) -> FittedClasses:
    """The most likely mixture of classes for the counts, with as few falls of the rates as the counts allow.

    Raises:
        NoClassesError: fewer than 2 depths are counted, or a fitted share of cycles lies more than `MISFIT` outside the
            confidence limits of the counted one.
    """
    if len(counts.others) < 2:
        raise NoClassesError(
            "classes need counts of at least 2 depths, got 1, whose rate is the mean of all classes: record a chain of "
            "2 or more tokens, or more cycles"
        )
    falls = _falls(counts)
    reached = survival(RATES, falls, counts.others)
    weights = mixing_weights(_cells(reached), counts.outcomes)
    fitted = (reached @ weights)[1:]
    _require_fit(counts, fitted, level)
    return FittedClasses(*_merged(weights), falls, fitted)


def _falls(counts: ClassCounts) -> Float[np.ndarray, " depths"]:
    """Factors on the rates of all classes, non-increasing and 1 at depth 0.

    The rates of a mixture rise with depth, because the easy contexts survive. Where the counted rates fall, drafts must
    have become worse for all classes. One fall after another is added, each at the depth where it raises the
    likelihood most, as long as Schwarz's criterion accepts it: a gain of half the logarithm of the number of cycles.
    Several factors can be equally likely, with more spread classes for a deeper fall: the one nearest to 1 is taken.
    """
    outcomes, depths = counts.outcomes, len(counts.others)
    counted = np.cumprod(np.append(1, counts.rates))
    at_most = log_likelihood(_cells(counted[:, None]), outcomes, np.ones(1))
    falls, found = np.ones(depths), _likelihood(np.ones(depths), counts)
    needed = np.log(outcomes.sum()) / 2
    while at_most - found > needed:
        options = [_best_fall(falls, depth, counts) for depth in range(1, depths)]
        best = max(likelihood for likelihood, _, _ in options)
        if best - found < needed:
            break
        _, factor, depth = max((o for o in options if o[0] >= best - SAME_LIKELIHOOD), key=lambda option: option[1])
        falls = _with_fall(falls, depth, factor)
        found = _likelihood(falls, counts)
    return falls


def _best_fall(falls: np.ndarray, depth: int, counts: ClassCounts) -> tuple[float, float, int]:
    """The log-likelihood of the most likely further fall from `depth` on, its factor nearest to 1, and `depth`."""
    from scipy.optimize import minimize_scalar

    def at(factor: float) -> float:
        return _likelihood(_with_fall(falls, depth, factor), counts)

    found: Any = minimize_scalar(lambda x: -at(x), bounds=(LOWEST_FALL, 1), method="bounded", options={"xatol": 1e-3})
    best, low, high = -float(found.fun), float(found.x), 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) >= best - SAME_LIKELIHOOD else (low, middle)
    return best, low, depth


def _with_fall(falls: np.ndarray, depth: int, factor: float) -> np.ndarray:
    return np.where(np.arange(len(falls)) < depth, falls, falls * factor)


def _likelihood(falls: np.ndarray, counts: ClassCounts) -> float:
    """The largest log-likelihood of classes with these falls."""
    cells = _cells(survival(RATES, falls, counts.others))
    return log_likelihood(cells, counts.outcomes, mixing_weights(cells, counts.outcomes))


def _cells(reached: np.ndarray) -> Float[np.ndarray, "outcomes classes"]:
    """The probability of each of `ClassCounts.outcomes` in each class."""
    return np.vstack([reached[:-1] - reached[1:], reached[1:]])


def _require_fit(counts: ClassCounts, fitted: np.ndarray, level: float) -> None:
    low, high = counts.limits(level)
    outside = np.maximum(low - fitted, fitted - high)
    if outside.max() > MISFIT:
        depth = int(outside.argmax())
        raise NoClassesError(
            f"no mixture of classes agrees with the counts: {counts.survival[depth]:.1%} of the cycles accept at least "
            f"{depth + 1} tokens ({low[depth]:.1%} to {high[depth]:.1%} with {level:.0%} confidence for all depths "
            f"together), the nearest mixture gives {fitted[depth]:.1%}: use the table of rates"
        )


def _merged(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and rates of the classes: neighbours on the grid of rates are one class, at their mean rate."""
    held = np.flatnonzero(weights > NO_WEIGHT)
    groups = np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)
    merged = np.array([weights[group].sum() for group in groups])
    rates = np.array([weights[group] @ RATES[group] for group in groups]) / merged
    return merged / merged.sum(), rates
