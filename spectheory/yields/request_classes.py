"""`RequestClasses`, easy and hard contexts instead of one table of rates, from an engine's counts by depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Real

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.ratios import share_limits
from spectheory.core.tree import Tree
from spectheory.yields.path_products import _reach

ASSUMED = "tau is predicted for easy and hard stretches of text, whose rates were fitted to the counts by depth"
LEVEL = 0.95
"""Confidence level of the limits of the counted shares of cycles."""
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
MOST_STEPS = 200
"""Maximum number of Newton steps. Ten are usual."""
GAP = 1e-3
"""The log-likelihood of the weights is at most this much below the maximum."""
HEAVY = 1e4
"""Weight of the equation that the mixing weights sum to 1, in least squares."""


class NoClassesError(InputError):
    """The counts cannot be described by classes. The message gives the reason; the table of rates still holds."""


@dataclass(frozen=True, eq=False)
class RequestClasses:
    """Classes of contexts, from easy to hard, each with acceptance rates of its own, fitted to counts by depth.

    A table of rates has three faults: it repeats its last row although rates rise with depth, because easy contexts
    survive; it multiplies rates although easy and hard contexts come in runs; and its rates hold only for the tree that
    was run, because longer drafts need fewer cycles for easy text, so that more of the cycles start in hard text.
    Classes describe all three. **A class has a share of the tokens, not of the cycles.** In class c a tree needs
    1 / tau_c cycles per token, and all classes together shares @ (1 / tau_c), so that

        tau = 1 / sum_c shares[c] / tau_c(tree).

    In class c the child of rank 0 at depth d is accepted with probability rates[c] * falls[d]; where it is not, another
    rank r is accepted with probability later[d, r - 1], in every class.

    *What is assumed.* Contexts keep their class for much longer than a cycle; within a class, cycles and depths are
    independent. Below the counted depths rates change only because easy classes survive: a draft that gets worse beyond
    the depth that was run, as heads do beyond the depth for which they were trained, is not foreseen. A longer chain
    keeps what a shorter one keeps, as greedy and top-down verifiers do; Block keeps tokens for the sake of later ones.

    *What is known.* K depths give K numbers, so that several mixtures agree with them. `block_efficiency_interval`
    covers all of them and the uncertainty of the counts. `falls` and the spread of the classes can replace each other;
    the largest falls that are likely are taken.

    Make it with `from_acceptance`.

    Attributes:
        shares: share of the tokens in each class.
        rates: rate of rank 0 at depth 0 in each class.
        falls: factor on the rates at each depth, non-increasing from 1. The last one holds for deeper nodes too.
        later: probability that a child of rank 1, 2, ... is accepted, given that the child of rank 0 is not; 0 where
            no child of these ranks was counted.
        counted: the tree whose cycles were counted; None if every position was counted.
        low, high: limits of the share of cycles, over all classes, that accept at least 1..D tokens. They hold for
            all depths at once.
    """

    shares: Float[np.ndarray, " classes"]
    rates: Float[np.ndarray, " classes"]
    falls: Float[np.ndarray, " depths"]
    later: Float[np.ndarray, "depths later_ranks"]
    counted: Tree | None
    low: Float[np.ndarray, " depths"]
    high: Float[np.ndarray, " depths"]

    @classmethod
    def from_acceptance(cls, acceptance: Acceptance, counted: Tree | None = None) -> Self:
        """The most likely classes for measured rates with counts by depth, with as few falls as the counts allow.

        Args:
            acceptance: rates with counts. Later ranks share what rank 0 misses in every class as they do in the table.
            counted: the tree whose cycles were counted; None means `acceptance.cycles_of`.

        Raises:
            InputError: the rates have no counts, or more nodes were reached at a depth than accepted before it.
            NoClassesError: fewer than 2 depths are counted, or no mixture agrees with the counts.
        """
        if acceptance.hits is None or acceptance.trials is None:
            raise InputError("acceptance must have counts to fit classes: make it with from_counts, or measure it")
        hits, trials = acceptance.hits.sum(1), acceptance.trials
        if (trials[1:] > hits[:-1]).any():
            depth = int((trials[1:] > hits[:-1]).argmax()) + 1
            raise InputError(
                f"trials[{depth}] of acceptance is {trials[depth]:,}, but only {hits[depth - 1]:,} nodes were accepted "
                f"at depth {depth}: give counts of cycles, each of which tries the depths one after another"
            )
        if len(trials) < 2:
            raise NoClassesError(
                "classes need counts of at least 2 depths, got 1, whose rate is the mean of all classes: record a "
                "chain of 2 or more tokens, or more cycles"
            )
        later, counted = _later(acceptance), counted or acceptance.cycles_of
        others = later.sum(1)
        falls = _falls(hits, trials, others)
        reached = survival(RATES, falls, others)
        weights = mixing_weights(_cells(reached), _outcomes(hits, trials))
        fitted, counts = (reached @ weights)[1:], np.cumprod(hits / trials)
        # cycles by depth: where drafts were of several lengths, trials by share (Peto); limits for all (Bonferroni)
        cycles = trials / np.append(1, counts[:-1])
        low, high = share_limits(cycles * counts, cycles * (1 - counts), 1 - (1 - LEVEL) / len(counts))
        outside = np.maximum(low - fitted, fitted - high)
        if outside.max() > MISFIT:
            depth = int(outside.argmax())
            raise NoClassesError(
                f"no mixture of classes agrees with the counts: {counts[depth]:.1%} of the cycles accept at least "
                f"{depth + 1} tokens ({low[depth]:.1%} to {high[depth]:.1%} with {LEVEL:.0%} confidence for all depths "
                f"together), the nearest mixture gives {fitted[depth]:.1%}: use the table of rates"
            )
        off = fitted - counts
        low, high = np.minimum(low, low + off).clip(0, 1), np.maximum(high, high + off).clip(0, 1)
        classes = cls(*_merged(weights), falls, later, counted, low, high)
        if counted is None:
            return classes
        tokens = classes.shares * classes.by_class(counted)
        return replace(classes, shares=tokens / tokens.sum())

    @property
    def summary(self) -> str:
        """Each class with its share of the tokens and its rate."""
        classes = ", ".join(
            f"{share:.0%} of the tokens at rate {rate:.3f}" for share, rate in zip(self.shares, self.rates, strict=True)
        )
        falls = "" if self.falls[-1] == 1 else f"; rates fall with depth to {self.falls[-1]:.2f} of these"
        return f"{len(self.shares)} class{'es' * (len(self.shares) > 1)}: {classes}{falls}"

    def reach_by_class(self, tree: Tree) -> Float[np.ndarray, "classes nodes"]:
        """Probability in each class that a cycle accepts each node."""
        return _reach(tree, self._tables(self.rates))

    def by_class(self, tree: Tree) -> Float[np.ndarray, " classes"]:
        """Tokens per target call in each class."""
        return self.reach_by_class(tree).sum(-1)

    def reach(self, tree: Tree) -> Float[np.ndarray, " nodes"]:
        """Probability that a cycle accepts each node, over the cycles of all classes."""
        reached = self.reach_by_class(tree)
        cycles = self.shares / reached.sum(-1)
        return cycles @ reached / cycles.sum()

    def block_efficiency(self, tree: Tree) -> float:
        """E[tau], the expected tokens per target call, over all classes: the harmonic mean weighted by tokens."""
        return float(1 / (self.shares / self.by_class(tree)).sum())

    def block_efficiency_interval(self, tree: Tree) -> tuple[float, float]:
        """The smallest and the largest tau of all mixtures whose shares of cycles by depth are within the limits.

        It covers the uncertainty of the counts, and that several mixtures agree with the same counts. It
        does not cover the assumptions of the class, nor the uncertainty of `falls` and `later`.

        Each end is a linear program over the token shares of all rates that a class may have.
        """
        from scipy.optimize import linprog

        tables = self._tables(RATES)
        reached = survival(RATES, self.falls, self.later.sum(1))
        if self.counted is not None:
            reached = reached / _reach(self.counted, tables).sum(-1)
        above = np.vstack([reached[1:] - np.outer(self.high, reached[0]), np.outer(self.low, reached[0]) - reached[1:]])
        cycles = 1 / _reach(tree, tables).sum(-1)
        predicted, ends = self.block_efficiency(tree), []
        for sign in (1, -1):
            found = linprog(np.full(len(RATES), sign), A_ub=above, b_ub=np.zeros(len(above)), A_eq=[cycles], b_eq=[1])
            ends.append(predicted if found.x is None else float(found.x.sum()))
        return min(ends[0], predicted), max(ends[1], predicted)

    def _tables(self, rates: np.ndarray) -> Float[np.ndarray, "classes depths ranks"]:
        """Rates by depth and rank of classes with these rates."""
        first = rates[:, None, None] * self.falls[:, None]
        return np.concatenate([first, (1 - first) * self.later], axis=-1)


def _later(acceptance: Acceptance) -> Float[np.ndarray, "depths later_ranks"]:
    """Probability that a child of rank 1, 2, ... is accepted, given that the child of rank 0 is not."""
    others, missed = acceptance.table[:, 1:], 1 - acceptance.table[:, :1]
    later = np.divide(others, missed, out=np.zeros_like(others), where=missed > 0)
    return later / np.maximum(1, later.sum(1, keepdims=True))


def survival(
    rates: Float[np.ndarray, " classes"], falls: Float[np.ndarray, " depths"], others: Float[np.ndarray, " depths"]
) -> Float[np.ndarray, "lengths classes"]:
    """The probability that a cycle of each class gets to depth 0..D."""
    first = falls[:, None] * rates
    return np.cumprod(np.vstack([np.ones_like(rates), first + (1 - first) * others[:, None]]), axis=0)


def _falls(hits: np.ndarray, trials: np.ndarray, others: np.ndarray) -> Float[np.ndarray, " depths"]:
    """Factors on the rates of all classes, non-increasing and 1 at depth 0.

    The rates of a mixture rise with depth, because the easy contexts survive. Where the counted rates fall, drafts must
    have become worse for all classes. One fall after another is added, each at the depth where it raises the
    likelihood most, as long as Schwarz's criterion accepts it: a gain of half the logarithm of the number of cycles.
    Several factors can be equally likely, with more spread classes for a deeper fall: the one nearest to 1 is taken.
    """
    outcomes, depths = _outcomes(hits, trials), len(others)
    counted = np.cumprod(np.append(1, hits / trials))
    at_most = log_likelihood(_cells(counted), outcomes)
    falls, found = np.ones(depths), _likelihood(np.ones(depths), outcomes, others)
    needed = np.log(outcomes.sum()) / 2
    while at_most - found > needed:
        options = [_best_fall(falls, depth, outcomes, others) for depth in range(1, depths)]
        best = max(likelihood for likelihood, _, _ in options)
        if best - found < needed:
            break
        _, factor, depth = max((o for o in options if o[0] >= best - SAME_LIKELIHOOD), key=lambda option: option[1])
        falls = np.append(falls[:depth], falls[depth:] * factor)
        found = _likelihood(falls, outcomes, others)
    return falls


def _best_fall(falls: np.ndarray, depth: int, outcomes: np.ndarray, others: np.ndarray) -> tuple[float, float, int]:
    """The log-likelihood of the most likely further fall from `depth` on, its factor nearest to 1, and `depth`."""
    from scipy.optimize import minimize_scalar

    def at(factor: float) -> float:
        return _likelihood(np.append(falls[:depth], falls[depth:] * factor), outcomes, others)

    found: Any = minimize_scalar(lambda x: -at(x), bounds=(LOWEST_FALL, 1), method="bounded", options={"xatol": 1e-3})
    best, low, high = -float(found.fun), float(found.x), 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) >= best - SAME_LIKELIHOOD else (low, middle)
    return best, low, depth


def _likelihood(falls: np.ndarray, outcomes: np.ndarray, others: np.ndarray) -> float:
    """The largest log-likelihood of classes with these falls."""
    cells = _cells(survival(RATES, falls, others))
    return log_likelihood(cells @ mixing_weights(cells, outcomes), outcomes)


def log_likelihood(chances: np.ndarray, counts: np.ndarray) -> float:
    """Sum of counts * log(chances) over the outcomes that were seen."""
    seen = counts > 0
    return float(counts[seen] @ np.log(chances[seen]))


def _cells(reached: np.ndarray) -> np.ndarray:
    """The probability of each of `_outcomes` in each class."""
    return np.concatenate([reached[:-1] - reached[1:], reached[1:]])


def _outcomes(hits: np.ndarray, trials: np.ndarray) -> Real[np.ndarray, " outcomes"]:
    """Number of cycles that ended at depths 0..D-1, and that still went on at depths 1..D when their draft ended."""
    return np.concatenate([trials - hits, hits - np.append(trials[1:], 0)])


def _merged(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and rates of the classes: neighbours on the grid of rates are one class, at their mean rate."""
    held = np.flatnonzero(weights > NO_WEIGHT)
    groups = np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)
    merged = np.array([weights[group].sum() for group in groups])
    rates = np.array([weights[group] @ RATES[group] for group in groups]) / merged
    return merged / merged.sum(), rates


def mixing_weights(
    cells: Float[np.ndarray, "outcomes columns"], counts: Real[np.ndarray, " outcomes"]
) -> Float[np.ndarray, " columns"]:
    """The weights w, at least 0 and of sum 1, for which sum(counts * log(cells @ w)) is largest.

    The function is concave in w. At the maximum the gradient is at most the number of counts in every component, and
    what it exceeds that number by bounds what is missing to the maximum (Lindsay's theorem), which ends the steps.

    Args:
        cells: the probability of each of M outcomes (rows) under each of G distributions (columns).
        counts: how often each outcome was seen; at least one of them more than 0.

    Cost: each step is one least-squares problem of M + 1 equations with G unknowns that are at least 0.

    Source: Lindsay 1983, "The geometry of mixture likelihoods"; the step is the quadratic one of Wang 2007, "On fast
    computation of the non-parametric maximum likelihood estimate of a mixing distribution".
    """
    from scipy.optimize import nnls

    seen = counts > 0
    cells, shares = cells[seen], counts[seen] / counts.sum()
    weights = np.full(cells.shape[1], 1 / cells.shape[1])
    root = np.sqrt(shares)
    for _ in range(MOST_STEPS):
        fitted = cells @ weights
        if ((shares / fitted) @ cells).max() - 1 <= max(GAP / counts.sum(), 1e-12):
            break
        system = np.vstack([(root / fitted)[:, None] * cells, np.full(len(weights), HEAVY)])
        target, _ = nnls(system, np.append(2 * root, HEAVY), maxiter=20 * len(weights))
        step = target / target.sum() - weights
        with np.errstate(divide="ignore"):  # an outcome may be impossible after the whole step
            while shares @ np.log(cells @ (weights + step)) < shares @ np.log(fitted):
                step /= 2
        weights = weights + step
    return weights
