"""Bets against the claim that a decoding step keeps the target's distribution. The wealth that they win is evidence.

If the claim is true, the emitted tokens, extended by the target up to `length`, have the target's joint distribution
J. A payoff f >= 0 on the joint cells with E_J f = 1 is a fair bet. So is its expectation over the target's extension
of the emitted tokens, E[f | emitted], and for this bet no extension has to be drawn. All runs count, whatever number
of tokens they emit: this number depends on the tokens, so the longer runs alone would show a bias in a correct step.

Each bettor starts with wealth 1 and bets all of it on such a payoff, which it chooses from earlier runs only. Its
wealth is thus a nonnegative martingale that starts at 1, and so is the average wealth of several bettors. By Ville's
inequality such a martingale ever reaches 1 / alpha with probability at most alpha, whatever rule stops the test.
Source: Ville 1939; Ramdas, Grunwald, Vovk, Shafer in arXiv 2210.01948.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from spectheory.certify.joint import Joint

ODDS = np.exp([sign * size for size in (0.05, 0.2, 0.7, 2.5) for sign in (1, -1)])
"""Each fixed bet assumes that the odds of a cell are wrong by one of these factors."""
HIGHEST_RATIO = 1e200
"""Maximum of the ratio observed / expected, so that a cell of probability 1e-300 does not cause an overflow."""


class Wager:
    """The bettors of one context, each with the same share of the capital.

    One bettor never bets, which bounds the loss of the average. For the prefixes of each level, and for the token at
    each position, two bettors bet on the distribution seen so far: `_bold` and `_shrunk`. A group of bettors bets on
    single cells, at fixed factors on their odds. It finds a bias in a few cells before the distribution is learned. The
    caller must handle a run that has probability 0 under the target.

    Attributes:
        ended: (nodes,) number of runs that emitted each prefix, cut at `length` tokens.
        runs: total number of runs.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.ended = np.zeros(joint.nodes)
        self.runs = 0
        self._learned = np.zeros(2 * (2 * joint.length - 1))

    def settle(self, batch: np.ndarray) -> None:
        """Add a batch of runs, as (nodes,) counts. All its runs are paid by the payoffs chosen before the batch."""
        came = np.flatnonzero(batch)
        for i, payoff in enumerate(self._payoffs()):
            self._learned[i] += batch[came] @ np.log(payoff[came])
        self.ended += batch
        self.runs += int(batch.sum())

    def logs(self) -> np.ndarray:
        """Log of the wealth of each bettor. A group counts as one bettor."""
        return np.array([0.0, *self._learned, *(log_mean(group) for group in self._fixed())])

    def log_wealth(self) -> float:
        """Log of the average wealth."""
        return log_mean(self.logs())

    def _payoffs(self) -> Iterator[np.ndarray]:
        """For each bettor that learns, (nodes,) what it will be paid for each emitted prefix."""
        size, seen = self.joint.vocab_size, self.joint.extended(self.ended)
        for level in range(1, self.joint.length + 1):
            distribution = self.joint.levels[level]
            for payoff in (_bold(distribution, seen[level]), _shrunk(distribution, seen[level])):
                yield self.joint.expected(payoff, level)
            if level > 1:
                distribution, counts = (values.reshape(-1, size).sum(axis=0) for values in (distribution, seen[level]))
                for payoff in (_bold(distribution, counts), _shrunk(distribution, counts)):
                    yield self.joint.expected(np.tile(payoff, size ** (level - 1)), level)

    def _fixed(self) -> Iterator[np.ndarray]:
        """Log wealth of the bets on single cells: on prefixes of each level, and on tokens at each position.

        For a cell A, h = P(A | emitted) and a factor r on the odds, a run pays (1 + (r - 1) h) / (1 + (r - 1) J(A)).
        Its mean is 1, because E h = J(A). These bets do not depend on earlier runs, so the counts determine the wealth.
        """
        size, ends, begun = self.joint.vocab_size, self.joint.by_level(self.ended), self.joint.begun(self.ended)
        for level in range(1, self.joint.length + 1):
            distribution = self.joint.levels[level]
            cells = _Cells(distribution, begun[level], self.runs)
            tokens = _Cells(
                distribution.reshape(-1, size).sum(axis=0), begun[level].reshape(-1, size).sum(axis=0), self.runs
            )
            for m in range(1, level):
                rows = np.flatnonzero(ends[m])
                if not len(rows):
                    continue
                chances = self.joint.below(m, rows, level)
                cells.extend(chances, ends[m][rows], rows)
                tokens.extend(chances.reshape(len(rows), -1, size).sum(axis=1), ends[m][rows])
            yield cells.possible()
            if level > 1:
                yield tokens.possible()


class _Cells:
    """Log wealth of the fixed bets on the cells of one distribution, (ODDS, cells)."""

    def __init__(self, distribution: np.ndarray, begun: np.ndarray, runs: int) -> None:
        self.distribution = distribution
        self.logs = np.outer(np.log(ODDS), begun) - runs * np.log1p(np.outer(ODDS - 1, distribution))

    def extend(self, chances: np.ndarray, counts: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Add runs that ended before their cell was decided.

        `counts[i]` of these runs would hit the cells with the probabilities `chances[i]`, (., cells). With `rows`, row
        i has only the cells below the prefix `rows[i]`.
        """
        gain = counts[:, None] * np.log1p((ODDS - 1)[:, None, None] * chances)
        if rows is None:
            self.logs += gain.sum(axis=1)
        else:
            self.logs.reshape(len(ODDS), -1, chances.shape[1])[:, rows] += gain

    def possible(self) -> np.ndarray:
        """The log wealth for the cells that the target can hit."""
        return self.logs[:, self.distribution > 0].ravel()


def _bold(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Likelihood ratio of the distribution seen so far, smoothed by half a run for each possible cell.

    The half runs are spread over the cells by `distribution` itself.
    """
    spread = np.count_nonzero(distribution) / 2
    return _fair(distribution, (_ratio(distribution, counts) + spread) / (counts.sum() + spread))


def _shrunk(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The bold payoff, mixed with keeping the money.

    Its share is the James-Stein weight 1 - degrees of freedom / Pearson's statistic. So almost nothing is bet while the
    deviations may be chance, and a small bias of many cells does not first have to win back earlier losses.
    """
    runs = counts.sum()
    statistic = distribution @ (_ratio(distribution, counts) - runs).clip(max=1e100) ** 2 / runs if runs else 0.0
    freedom = np.count_nonzero(distribution) - 1
    weight = 1 - freedom / statistic if statistic > freedom else 0.0
    return _fair(distribution, 1 - weight + weight * _bold(distribution, counts))


def _ratio(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The ratio counts / distribution, at most `HIGHEST_RATIO`; where the distribution is 0, the sum of the counts."""
    with np.errstate(over="ignore"):
        found = np.divide(counts, distribution, out=np.full(len(distribution), counts.sum()), where=distribution > 0)
    return found.clip(max=HIGHEST_RATIO)


def _fair(distribution: np.ndarray, payoff: np.ndarray) -> np.ndarray:
    """The payoff, scaled to mean 1 under the distribution."""
    return payoff / (distribution @ payoff)


def log_mean(logs: np.ndarray) -> float:
    """Log of the mean of numbers given by their logs."""
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def pooled(logs: Sequence[float]) -> float:
    """Log of the wealth over all contexts, from the log wealth of each: the mean of their mean and their product.

    Each run belongs to one context, so the product is a martingale like each factor, and so is the result. The mean
    detects a fault in one of many contexts, at the price of log(contexts). The product detects a small fault in all.
    """
    return float(np.logaddexp(log_mean(np.array(logs)), np.sum(logs)) - math.log(2))
