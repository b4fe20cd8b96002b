"""`Block`, block verification: one path is judged as a whole, from its last node to the root."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, one_of
from spectheory.core.draft import Draft
from spectheory.verify.outcome import coin, judged_outcome, judged_sample, shortfall
from spectheory.verify.verifier import SinglePath, path_tokens


@dataclass(frozen=True)
class Block(SinglePath):
    """Keep the longest prefix x_1..x_i of the path whose coin, of probability h_i, succeeds.

    Then emit a token of N((w_i p - q)+), or of p after the whole path. With w_0 = 1,
    w_i = min(1, w_(i-1) p(x_i) / q(x_i)) and S_i = sum (w_i p - q)+ at x_i, the probabilities of the coins are h_0 = 1,
    h_L = w_L and h_i = S_i / (S_i + 1 - w_i) for 0 < i < L. Section 3.1 of Dynamic Delayed Tree Expansion uses w_i for
    inner nodes instead of h_i, which is lossy for L >= 2.

    Lossless: given x_1..x_i, this prefix is kept with probability w_i, alone or as part of a longer one. The next token
    should then have the mass w_i p. Longer prefixes have min(w_i p, q) of it, and the coins are such that
    N((w_i p - q)+) supplies exactly the rest.

    Acceptance: sum_i i h_i prod_(j > i) (1 - h_j) tokens given the path; on average over paths, sum_i E[w_i].
    Cost: O(L V).
    Source: arXiv 2403.10444, Algorithm 2.
    """

    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        return judged_outcome(_judged(tokens, p, q), p)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return self._path_sample(path_tokens(draft), p, draft.q, rng)

    def _path_sample(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector], rng: np.random.Generator
    ) -> tuple[int, int]:
        """Draw (accepted tokens, next token) along a path; see SinglePath._path_outcome."""
        return judged_sample(_judged(tokens, p, q), rng)


def _judged(tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]) -> Iterator[tuple[int, Any, Vector]]:
    """Yield (node, its coin's probability, next-token distribution) from the last node to the root."""
    weights = [one_of(p[0])]
    for node, token in enumerate(tokens):
        weights.append(accept_ratio(weights[-1] * p[node][token], q[node][token]))
    yield len(tokens), weights[-1], p[len(tokens)]
    for node in reversed(range(len(tokens))):
        lacking, distribution = shortfall(weights[node], p[node], q[node])
        yield node, coin(lacking, weights[node]) if node else 1, distribution
