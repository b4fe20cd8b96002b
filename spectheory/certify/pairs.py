"""Bets against the claim that the rows of a batch are independent of each other.

Noise that is shared between the rows of a batch leaves the distribution of each row right. It shows in pairs of rows.
Each emitted token becomes a uniform number: the probability, given the tokens before it, of the tokens below it, plus a
random part of its own probability. A position that the row did not reach gets a random number. If the step is correct
and its rows are independent, all these numbers are independent and uniform. So the numbers of two rows fall with equal
probability into each of `PARTS` x `PARTS` squares, whatever the contexts of the rows are.

For each pair of positions, two bettors bet on the squares that they have seen, as in `betting`. For each position, one
more bets half of its money that both rows have the same token there. A batch has disjoint pairs, at distances 1, 2, 4,
... in turn from call to call, so that their wealth is a martingale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectheory.certify.betting import log_mean
from spectheory.certify.joint import Joint
from spectheory.certify.step_certificate import power_of_ten

PARTS = 6
"""The interval from 0 to 1 is cut into this many equal parts."""


class Pairs:
    """The bets on pairs of rows of a batch, over all calls of the step of one `Play`.

    Attributes:
        runs: number of pairs whose bets are settled.
    """

    def __init__(self, joints: Sequence[Joint], rng: np.random.Generator) -> None:
        self.rng, self.length = rng, joints[0].length
        self._batch = np.zeros((self.length**2, PARTS**2))
        self._counts, self._logs = np.zeros_like(self._batch), np.zeros((2, self.length**2))
        self._given = [np.array([joint.given[m] for joint in joints]) for m in range(self.length)]
        self._edges = [np.cumsum(given, axis=2) for given in self._given]
        self._same = np.zeros(self.length)
        self._calls = 0

    @property
    def runs(self) -> int:
        """Number of pairs whose bets are settled."""
        return int(self._counts[0].sum())

    def add(self, contexts: np.ndarray, texts: np.ndarray) -> None:
        """Add the rows of one call: the index of each context (n,), and the emitted tokens (n, length), -1 for none."""
        distances = 1 << np.arange(max(1, (len(texts) - 1).bit_length()))
        distance, rows = int(distances[self._calls % len(distances)]), np.arange(len(texts))
        left = rows[(rows & distance == 0) & (rows + distance < len(texts))]
        self._calls += 1
        self._bet_on_same(contexts, texts, left, left + distance)
        parts = np.minimum((self._uniform(contexts, texts) * PARTS).astype(int), PARTS - 1)
        squares = parts[left][:, :, None] * PARTS + parts[left + distance][:, None, :]
        tables = np.arange(self.length**2) * PARTS**2
        counted = np.bincount((squares.reshape(-1, len(tables)) + tables).ravel(), minlength=self._batch.size)
        self._batch += counted.reshape(self._batch.shape)

    def _bet_on_same(self, contexts: np.ndarray, texts: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        """Settle the bets that two rows have the same token at a position that both have reached."""
        codes = np.zeros(len(texts), int)
        for m, given in enumerate(self._given):
            both = (texts[left, m] >= 0) & (texts[right, m] >= 0)
            a, b = left[both], right[both]
            chance = (given[contexts[a], codes[a]] * given[contexts[b], codes[b]]).sum(axis=1)
            share = np.divide(texts[a, m] == texts[b, m], chance, out=np.ones(len(a)), where=chance > 0)
            self._same[m] += np.log((1 + share) / 2).sum()
            codes = codes * given.shape[-1] + np.maximum(texts[:, m], 0)

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
        for i, payoffs in enumerate(self._payoffs()):
            self._logs[i] += (self._batch * np.log(payoffs)).sum(axis=1)
        self._counts += self._batch
        self._batch[:] = 0

    def _payoffs(self) -> list[np.ndarray]:
        """Of the bettors `_bold` and `_shrunk` of `betting`, on equally likely cells."""
        cells, runs = PARTS**2, self._counts.sum(axis=1, keepdims=True)
        bold = (self._counts + 0.5) * cells / (runs + cells / 2)
        statistic = ((self._counts - runs / cells) ** 2).sum(axis=1, keepdims=True) * cells / np.maximum(runs, 1)
        weight = np.where(statistic > cells - 1, 1 - (cells - 1) / np.maximum(statistic, 1), 0)
        return [bold, 1 - weight + weight * bold]

    def log_wealth(self) -> float:
        """Log of the average wealth of the bettors, one of which never bets."""
        return log_mean(np.array([0.0, *self._same, *self._logs.ravel()]))

    def __str__(self) -> str:
        """What the bettor with the most money has found, in words."""
        begin = f"rows of a batch depend on each other (evidence {power_of_ten(self.log_wealth())}): "
        if self._same.max() > self._logs.max():
            return f"{begin}two rows have the same token {int(self._same.argmax()) + 1} too often"
        table = int(self._logs.max(axis=0).argmax())
        first, second = (position + 1 for position in divmod(table, self.length))
        shares = self._counts[table] / max(1, self.runs)
        square = int(np.abs(shares - 1 / PARTS**2).argmax())
        low, high = (part + 1 for part in divmod(square, PARTS))
        return (
            f"{begin}token {first} of a row is in part {low} of {PARTS} of its distribution and token {second} of "
            f"another in part {high} in {shares[square]:.1%} of pairs, not {1 / PARTS**2:.1%}"
        )
