"""Bets against the claim that a decoding step keeps the target's distribution: what is won is evidence, at any time.

Under the claim the emitted tokens, extended by the target up to `length`, have the target's joint distribution J. A
payoff f >= 0 on the joint cells with E_J f = 1 is a fair bet; its expectation over the target's extension of what was
emitted, E[f | emitted], is one too, and needs no extension to be drawn. No condition is laid on how much a run
emitted: the length of a run depends on its tokens, so looking at the longer runs alone would find a bias in a right
step.

Each bettor starts with 1 and puts all it has on such a payoff, chosen from earlier runs only, so that its wealth is a
nonnegative martingale from 1; so is an average of bettors. By Ville's inequality a nonnegative martingale from 1 ever
reaches 1 / alpha with probability at most alpha, whatever the rule for stopping.
Source: Ville 1939; Ramdas, Grunwald, Vovk, Shafer in arXiv 2210.01948.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from spectheory.certify.joint import Joint

ODDS = np.exp([sign * size for size in (0.05, 0.2, 0.7, 2.5) for sign in (1, -1)])
"""Factors on the odds of a cell that the fixed bets are made for."""
HIGHEST_RATIO = 1e200
"""Observed over expected is cut off here, so that a cell of probability 1e-300 overflows nothing."""


class Wager:
    """The bettors of one context, each with the same share of the capital.

    One keeps its cash, which bounds what the others can lose. For the prefixes of each level, and for the token at
    each position, two bet on the distribution seen so far: `_bold` and `_shrunk`; and a group bets on each cell alone,
    at fixed factors on its odds, which finds a bias in few cells before the distribution is learned. A run of
    probability 0 under the
    target is left to the caller: it settles the matter.

    Attributes:
        ended: (nodes,) number of runs that emitted each prefix, cut at `length` tokens.
        runs: their sum.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.ended = np.zeros(joint.nodes)
        self.runs = 0
        self._learned = np.zeros(2 * (2 * joint.length - 1))

    def settle(self, batch: np.ndarray) -> None:
        """Pay for a batch of runs, (nodes,) counts, all on the payoffs chosen before it."""
        came = np.flatnonzero(batch)
        for i, payoff in enumerate(self._payoffs()):
            self._learned[i] += batch[came] @ np.log(payoff[came])
        self.ended += batch
        self.runs += int(batch.sum())

    def logs(self) -> np.ndarray:
        """Log of the wealth of each bettor, a group counted as one."""
        return np.array([0.0, *self._learned, *(log_mean(group) for group in self._fixed())])

    def log_wealth(self) -> float:
        """Log of the average wealth."""
        return log_mean(self.logs())

    def _payoffs(self) -> Iterator[np.ndarray]:
        """(nodes,) what each emitted prefix pays next to each bettor that learns."""
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
        """Log wealth of the bets on single cells: the prefixes of each level, the tokens at each position.

        With A a cell, h = P(A | emitted) and a factor r on the odds, a run pays (1 + (r - 1) h) / (1 + (r - 1) J(A)),
        of mean 1 as E h = J(A). Nothing is learned, so that the counts so far say all.
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
        """Add the runs that ended too early to tell: `counts` of them have the `chances` (., cells) to hit.

        With `rows`, each row of chances speaks of the cells below one prefix alone.
        """
        gain = counts[:, None] * np.log1p((ODDS - 1)[:, None, None] * chances)
        if rows is None:
            self.logs += gain.sum(axis=1)
        else:
            self.logs.reshape(len(ODDS), -1, chances.shape[1])[:, rows] += gain

    def possible(self) -> np.ndarray:
        """Those of the cells that the target can hit."""
        return self.logs[:, self.distribution > 0].ravel()


def _bold(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Likelihood ratio of the distribution seen so far, with half a run for each possible cell spread by the
    distribution itself.
    """
    spread = np.count_nonzero(distribution) / 2
    return _fair(distribution, (_ratio(distribution, counts) + spread) / (counts.sum() + spread))


def _shrunk(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The bold payoff mixed with cash by the share of Pearson's statistic that chance does not explain.

    The James-Stein weight 1 - degrees of freedom / statistic: next to no bet while all that is seen may be chance, so
    that a small bias of many cells does not have to win back what was lost before it could be seen.
    """
    runs = counts.sum()
    statistic = distribution @ (_ratio(distribution, counts) - runs).clip(max=1e100) ** 2 / runs if runs else 0.0
    freedom = np.count_nonzero(distribution) - 1
    weight = 1 - freedom / statistic if statistic > freedom else 0.0
    return _fair(distribution, 1 - weight + weight * _bold(distribution, counts))


def _ratio(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The ratio counts / distribution, and the number of runs where the distribution has none."""
    with np.errstate(over="ignore"):
        found = np.divide(counts, distribution, out=np.full(len(distribution), counts.sum()), where=distribution > 0)
    return found.clip(max=HIGHEST_RATIO)


def _fair(distribution: np.ndarray, payoff: np.ndarray) -> np.ndarray:
    """The payoff brought to mean 1 under the distribution."""
    return payoff / (distribution @ payoff)


def log_mean(logs: np.ndarray) -> float:
    """Log of the mean of numbers given by their logs."""
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def pooled(logs: Sequence[float]) -> float:
    """Log of the wealth over all contexts, from that of each: half on their mean, half on their product.

    Each run belongs to one context and pays in no other, so that the product is a martingale as each factor is, and
    the half of the two is one. The mean finds what is wrong in one context of many, at a price of log(contexts); the
    product finds what is slightly wrong in all of them.
    """
    return float(np.logaddexp(log_mean(np.array(logs)), np.sum(logs)) - math.log(2))
