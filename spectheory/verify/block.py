"""Block verification: one path is judged as a whole, from its far end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.arrays import Vector, accept_ratio
from spectheory.verify.shortfall import coin, shortfall
from spectheory.verify.single_path import SinglePath


@dataclass(frozen=True)
class Block(SinglePath):
    """Keep the longest beginning x_1..x_i of the path whose coin h_i succeeds; then a token of N((w_i p - q)+) follows.

    With w_0 = 1, w_i = min(1, w_(i-1) p(x_i) / q(x_i)) and S_i = sum (w_i p - q)+ at x_i, the coins have h_0 = 1,
    h_L = w_L (then a token of p follows) and h_i = S_i / (S_i + 1 - w_i) between. Section 3.1 of Dynamic Delayed Tree
    Expansion accepts inner nodes with w_i instead, which is lossy from L = 2 on.

    Lossless: x_1..x_i is kept with probability w_i given x_1..x_i. Of the mass w_i p that its next tokens should have,
    the draft brings min(w_i p, q), and the coins are such that N((w_i p - q)+) is emitted just as often as is lacking.

    Acceptance: sum_i i h_i prod_(j > i) (1 - h_j) tokens given the path, h_0 = 1; sum_i E[w_i] over paths.
    Cost: O(L V).
    Source: arXiv 2403.10444, Algorithm 2.
    """

    def path_law(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        """See SinglePath.path_law."""
        one = p[0].sum() * 0 + 1
        weight, coins, next_token = one, [], []
        for node, token in enumerate(tokens):
            lacking, law = shortfall(weight, p[node], q[node])
            coins.append(coin(lacking, weight) if node else one)
            next_token.append(law)
            weight = accept_ratio(weight * p[node][token], q[node][token])
        left, stop = one, []
        for chance in reversed([*coins, weight]):
            stop.append(left * chance)
            left = left * (1 - chance)
        return stop[::-1], [*next_token, p[len(tokens)]]
