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

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, as_distribution
from spectheory.core.chance import fetched
from spectheory.core.errors import InputError
from spectheory.core.world import Context

HIGHEST_RATIO = 1e200
"""Maximum of the ratio observed / expected, so that a cell of probability 1e-300 does not cause an overflow."""


class Joint:
    """The joint distribution of the `length` tokens that the target emits after a context.

    A node is a prefix of 1 to `length` tokens. Level l holds the prefixes of l tokens, and the row of a prefix in its
    level is its tokens read as a number in base V. Nodes are numbered level by level.

    Attributes:
        given: `given[m]` is the (V^m, V) distribution of the next token after each prefix of m tokens.
        levels: `levels[l]` is the (V^l,) probability of each prefix of l tokens.
        offsets: `offsets[l]` is the number of the first node of level l; the last entry is the number of nodes.
    """

    def __init__(self, given: Sequence[np.ndarray]) -> None:
        self.given = list(given)
        self.length = len(self.given)
        self.vocab_size = self.given[0].shape[1]
        self.levels = [np.ones(1)]
        for distribution in self.given:
            self.levels.append((self.levels[-1][:, None] * distribution).ravel())
        sizes = [0, *(len(level) for level in self.levels[1:])]
        self.offsets = [0, *itertools.accumulate(sizes)]

    @classmethod
    def after(cls, target: Callable[[Context], Vector], context: Context, length: int, vocab_size: int) -> Joint:
        """The joint distribution after `context`. Each of the target's distributions is divided by its sum."""
        levels = [itertools.product(range(vocab_size), repeat=m) for m in range(length)]
        return cls([np.array([_distribution(target, context + tokens, vocab_size) for tokens in of]) for of in levels])

    @cached_property
    def impossible(self) -> list[bool]:
        """(nodes,) whether each prefix has probability 0. It is a list, which is faster to read entry by entry."""
        return (np.concatenate(self.levels[1:]) == 0).tolist()

    @property
    def nodes(self) -> int:
        """Number of prefixes of 1 to `length` tokens."""
        return self.offsets[-1]

    def tokens(self, node: int) -> Context:
        """The tokens of the prefix with number `node`."""
        level = next(level for level in range(1, self.length + 1) if node < self.offsets[level + 1])
        code, found = node - self.offsets[level], []
        for _ in range(level):
            code, token = divmod(code, self.vocab_size)
            found.append(token)
        return tuple(reversed(found))

    def node(self, tokens: Context) -> int:
        """The number of a prefix of 1 to `length` tokens."""
        code = 0
        for token in tokens:
            code = code * self.vocab_size + token
        return self.offsets[len(tokens)] + code

    def extended(self, ended: np.ndarray) -> list[np.ndarray]:
        """For each prefix, the expected number of runs that start with it, after the target has extended all runs.

        `ended` (nodes,) counts the emitted prefixes. The result has one array per level.
        """
        filled = np.zeros(1)
        for distribution, (start, stop) in zip(self.given, itertools.pairwise(self.offsets[1:]), strict=True):
            filled = (filled[:, None] * distribution).ravel() + ended[start:stop]
        found = [filled]
        for _ in self.given:
            found.append(found[-1].reshape(-1, self.vocab_size).sum(axis=1))
        return found[::-1]

    def expected(self, payoff: np.ndarray, level: int) -> np.ndarray:
        """(nodes,) expected payoff of each prefix, after the target has extended it.

        `payoff` (V^level,) is the payoff of each sequence of the first `level` tokens.
        """
        folded = [payoff]
        for m in range(level - 1, 0, -1):
            folded.append((self.given[m] * folded[-1].reshape(-1, self.vocab_size)).sum(axis=1))
        folded.reverse()
        for _ in range(level, self.length):
            folded.append(np.repeat(folded[-1], self.vocab_size))
        return np.concatenate(folded)


def _distribution(target: Callable[[Context], Vector], context: Context, vocab_size: int) -> np.ndarray:
    given = target(context)
    distribution = as_distribution(f"target({context})", given if hasattr(given, "dtype") else np.asarray(given))
    if len(distribution) != vocab_size:
        raise InputError(
            f"target({context}) must be a distribution on vocab_size = {vocab_size} tokens, got {len(distribution)}: "
            "set vocab_size to the number of tokens that the target knows"
        )
    return fetched(distribution)


class Wager:
    """The bettors of one context, one for the prefixes of each level, each with the same share of the capital.

    One more bettor never bets, which bounds the loss of the average. The caller must handle a run that has probability
    0 under the target.

    Attributes:
        ended: (nodes,) number of runs that emitted each prefix, cut at `length` tokens.
        runs: total number of runs.
        logs: log of the wealth of each bettor; the first one never bets.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.ended = np.zeros(joint.nodes)
        self.runs = 0
        self.logs = np.zeros(joint.length + 1)

    def settle(self, batch: np.ndarray) -> None:
        """Add a batch of runs, as (nodes,) counts. All its runs are paid by the payoffs chosen before the batch."""
        came = np.flatnonzero(batch)
        for i, payoff in enumerate(self._payoffs(), 1):
            self.logs[i] += batch[came] @ np.log(payoff[came])
        self.ended += batch
        self.runs += int(batch.sum())

    def log_wealth(self) -> float:
        """Log of the average wealth."""
        return log_mean(self.logs)

    def _payoffs(self) -> Iterator[np.ndarray]:
        """For each bettor, (nodes,) what it will be paid for each emitted prefix."""
        seen = self.joint.extended(self.ended)
        for level in range(1, self.joint.length + 1):
            yield self.joint.expected(_shrunk(self.joint.levels[level], seen[level]), level)


def _shrunk(distribution: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The likelihood ratio of the distribution seen so far, mixed with keeping the money.

    The seen distribution is smoothed by half a run for each possible cell, spread by `distribution` itself. Its share
    is the James-Stein weight 1 - degrees of freedom / Pearson's statistic. So almost nothing is bet while the
    deviations may be chance, and a small bias of many cells does not first have to win back earlier losses.
    """
    runs, spread = counts.sum(), np.count_nonzero(distribution) / 2
    statistic = distribution @ (_ratio(distribution, counts) - runs).clip(max=1e100) ** 2 / runs if runs else 0.0
    freedom = np.count_nonzero(distribution) - 1
    weight = 1 - freedom / statistic if statistic > freedom else 0.0
    ratio = (_ratio(distribution, counts) + spread) / (runs + spread)
    return _fair(distribution, 1 - weight + weight * _fair(distribution, ratio))


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


PARTS = 3
"""The interval from 0 to 1 is cut into this many equal parts."""
FREEDOM = (PARTS - 1) ** 2
"""Degrees of freedom of Pearson's statistic for the independence of two numbers."""
CHANCE = 1e-3
"""Probability that chance makes any two numbers of right rows suspicious at a look."""


class Pairs:
    """The bets on pairs of rows of a batch, over all calls of the step of one `Play`.

    Noise that is shared between the rows of a batch leaves the distribution of each row right. It shows in pairs of
    rows. Each emitted token becomes a uniform number: the probability, given the tokens before it, of the tokens below
    it, plus a random part of its own probability. A position that the row did not reach gets a random number. If the
    step is correct and its rows are independent, all these numbers are independent and uniform. So the numbers of two
    rows fall with equal probability into each of `PARTS` x `PARTS` squares, whatever the contexts of the rows are.

    A bettor bets on the squares that it has seen. There is one for each distance of rows and each pair of positions,
    and one that bets on each number and that of an earlier row with which it was seen to be most dependent. A payoff
    has mean 1 given the number of the earlier row, and no number is the later one in two pairs of a bettor. So its
    wealth is a martingale: given all rows before it, what a row adds has mean 1.
    """

    def __init__(self, joints: Sequence[Joint], batch: int, rng: np.random.Generator) -> None:
        from scipy.special import chdtri

        self.rng, self.batch, self.length, self.calls = rng, batch, joints[0].length, 0
        self._edges = [np.cumsum([joint.given[m] for joint in joints], axis=2) for m in range(self.length)]
        self._new = list[np.ndarray]()
        self._row = np.arange(batch * self.length) // self.length
        self._both = np.zeros((len(self._row), PARTS) * 2, np.float32)
        self._counts = np.zeros((batch - 1, self.length, self.length, PARTS, PARTS))
        self._logs, self._log_of_partners = np.zeros(self._counts.shape[:3]), 0.0
        self._partner, self._strength = np.zeros(len(self._row), int), 0.0
        self._chance = float(chdtri(FREEDOM, CHANCE / (len(self._row) ** 2 / 2)))

    def add(self, contexts: np.ndarray, texts: np.ndarray) -> None:
        """Add the rows of one call: the index of each context (n,), and the emitted tokens (n, length), -1 for none.

        Calls of fewer than `batch` rows are left out.
        """
        if len(texts) == self.batch:
            parts = np.minimum((self._uniform(contexts, texts) * PARTS).astype(np.int8), PARTS - 1)
            self._new.append(parts[:, :, None] == np.arange(PARTS))

    def _uniform(self, contexts: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """(n, length) the uniform number of each position."""
        found, codes = self.rng.random(texts.shape), np.zeros(len(texts), int)
        for m, edges in enumerate(self._edges):
            rows = np.flatnonzero(texts[:, m] >= 0)
            tokens, of = texts[rows, m], (contexts[rows], codes[rows])
            low = np.where(tokens > 0, edges[(*of, np.maximum(tokens - 1, 0))], 0)
            found[rows, m] = low + found[rows, m] * (edges[(*of, tokens)] - low)
            codes[rows] = codes[rows] * edges.shape[-1] + tokens
        return found

    def settle(self) -> None:
        """Settle the bets on the calls since the last time, by payoffs chosen before them."""
        if not self._new:
            return
        cells = np.reshape(self._new, (len(self._new), -1)).astype(np.float32)
        both = (cells.T @ cells).reshape(self._both.shape)
        later = np.flatnonzero(self._row)
        payoffs = _payoffs(self._both[self._partner[later], :, later], self._chance)
        self._log_of_partners += float((both[self._partner[later], :, later] * np.log(payoffs)).sum())
        of_rows = both.reshape((self.batch, self.length, PARTS) * 2)
        counts = np.array([np.trace(of_rows, distance, 0, 3) for distance in range(1, self.batch)]).swapaxes(2, 3)
        self._logs += (counts * np.log(_payoffs(self._counts))).sum(axis=(3, 4))
        self._counts += counts
        self._both += both
        self.calls += len(self._new)
        self._new.clear()
        self._find_partners()

    def _find_partners(self) -> None:
        """Find, for each number, the one of an earlier row with which it was seen to be most dependent."""
        margins = np.einsum("iaia->ia", self._both)
        apart = self._both - margins[:, :, None, None] * (margins / self.calls)
        statistic = np.where(self._row[:, None] < self._row, (apart**2).sum(axis=(1, 3)), 0) * PARTS**2 / self.calls
        self._partner, self._strength = statistic.argmax(axis=0), float(statistic.max())

    @property
    def is_suspicious(self) -> bool:
        """Whether two numbers were seen to be more dependent than chance explains."""
        return self._strength > self._chance

    def log_wealth(self) -> float:
        """Log of the average wealth of the bettors, one of which never bets."""
        return log_mean(np.array([0.0, self._log_of_partners, *self._logs.ravel()]))

    def variation(self) -> tuple[float, int]:
        """Largest observed total variation of the squares from equal ones, and the calls; (1, 1) without calls."""
        if not self.calls:
            return 1.0, 1
        apart = np.abs(self._both / self.calls - 1 / PARTS**2).sum(axis=(1, 3)) / 2
        return float(apart[self._row[:, None] < self._row].max()), self.calls


def _payoffs(counts: np.ndarray, least: float = FREEDOM) -> np.ndarray:
    """Payoffs of squares that were seen so often, (..., PARTS, PARTS); the mean of each row is 1.

    They are the ratios of the counts to those of independent numbers, mixed with keeping the money as in `_shrunk`,
    where `least` is the statistic up to which it is kept.
    """
    runs = counts.sum(axis=(-2, -1), keepdims=True).clip(1)
    apart = counts - counts.sum(axis=-1, keepdims=True) * counts.sum(axis=-2, keepdims=True) / runs
    statistic = (apart**2).sum(axis=(-2, -1), keepdims=True) * PARTS**2 / runs
    weight = 1 - least / statistic.clip(least)
    payoff = 1 + weight * (apart / (runs / PARTS**2 + 1 / 2)).clip(-1)
    return payoff / payoff.mean(axis=-1, keepdims=True)


LARGEST_STAKE = 0.95
Seen = tuple[Any, ...]
"""A thing that a bettor sees in an answer, such as the first token in its context."""


class TwoSamples:
    """Bets against the claim that two samplers have one distribution, on pairs of independent answers in one context.

    If the claim is true, each of the two answers is the first sampler's with probability 1/2, whatever came before. A
    bettor predicts from earlier pairs that it is a certain one with probability (1 + v) / 2. It wins or loses the share
    s v of its wealth, where the stake s is (sum of v won - sum of v lost) / (1 + sum of v^2) over the earlier pairs.

    There is one bettor for each kind of things that it can see in an answer, such as the tokens. Each thing adds to the
    log odds: the log of the ratio of its counts, times the James-Stein weight 1 - 1 / z^2 of their difference, if that
    is positive. So a difference that may be chance adds little.
    Source: Shekhar, Ramdas in arXiv 2112.09162; the stake: Waudby-Smith, Ramdas in arXiv 2010.09686.
    """

    def __init__(self) -> None:
        self.counts: defaultdict[Seen, list[int]] = defaultdict(lambda: [0, 0])
        self._logs, self._won, self._squares = np.zeros((3, 1))

    def settle(self, first: Sequence[Sequence[Seen]], second: Sequence[Sequence[Seen]]) -> None:
        """Settle the bets on an answer of either sampler, given as what each bettor sees."""
        odds = [sum(map(self._log_ratio, a)) - sum(map(self._log_ratio, b)) for a, b in zip(first, second, strict=True)]
        won = np.tanh(np.array(odds) / 2)
        stake = (self._won / (1 + self._squares)).clip(0, LARGEST_STAKE)
        self._logs, self._won, self._squares = (
            self._logs + np.log1p(stake * won), self._won + won, self._squares + won**2
        )  # fmt: skip
        for side, kinds in enumerate((first, second)):
            for cell in itertools.chain(*kinds):
                self.counts[cell][side] += 1

    def _log_ratio(self, cell: Seen) -> float:
        one, other = self.counts.get(cell, (0, 0))
        apart, both = (one - other) ** 2, one + other
        return (1 - both / apart) * math.log((one + 0.5) / (other + 0.5)) if apart > both else 0.0

    def log_wealth(self) -> float:
        """Log of the average wealth of the bettors, one of which never bets."""
        return log_mean(np.array([0.0, *self._logs]))

    def worst(self) -> tuple[Seen, list[int]]:
        """What was seen with the counts that differ most, relative to chance, and its counts of either sampler."""
        return max(self.counts.items(), key=lambda seen: (seen[1][0] - seen[1][1]) ** 2 / sum(seen[1]))
