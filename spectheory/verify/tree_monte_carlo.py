"""`TreeMonteCarlo`: the probabilities to leave the path at each node are updated along the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector, accept_ratio, one_of
from spectheory.verify.outcome import share, shortfall
from spectheory.verify.verifier import SinglePath


@dataclass(frozen=True)
class TreeMonteCarlo(SinglePath):
    """Keep the mass a on the path and the mass of every exit (prefix, next token). Each step scales all exits.

    At the prefix x_1..x_i with the drafted next token x, let g = (q - a p)+, D = sum g and t = g(x) / (D q(x)). All
    exits are multiplied by t, the mass t (a p - q)+ is added as exits of this prefix, and a becomes
    a' = min(1, a p(x) / q(x)). At the end, one exit or the whole path is drawn by these masses. After the whole path a
    token of p is emitted. The code uses g(x) / q(x) = 1 - a' and D = 1 - a + sum (a p - q)+.

    Lossless: the mean of t over x ~ q is 1, so the exits keep their mean mass, and a p is split into min(a p, q), which
    stays on the path, and (a p - q)+, which leaves it. Given the path, the distribution is the same as for Block, with
    a_i = w_i.

    Acceptance: the mean over paths of sum_i a_i, where a_i is the mass on the path after its first i tokens.
    Cost: O(L^2 + L V).
    Source: Hu and Huang, ICML 2024 (PMLR 235:19216), and the code of its authors.
    """

    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        on_path = one_of(p[0])
        exits, next_token = [], []
        for node, token in enumerate(tokens):
            leaving, distribution = shortfall(on_path, p[node], q[node])
            kept = accept_ratio(on_path * p[node][token], q[node][token])
            thinned = share(1 - kept, leaving + (1 - on_path))
            exits = [thinned * mass for mass in exits] + [thinned * leaving]
            next_token.append(distribution)
            on_path = kept
        return [*exits, on_path], [*next_token, p[len(tokens)]]
