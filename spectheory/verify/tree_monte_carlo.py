"""Tree Monte Carlo: the mass that has left the path is carried along it as an exit measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector, accept_ratio, one_of
from spectheory.verify.shortfall import shortfall
from spectheory.verify.single_path import SinglePath


@dataclass(frozen=True)
class TreeMonteCarlo(SinglePath):
    """Carry the mass a still on the path and exits (prefix, token); each step thins all exits by one factor t.

    At prefix x_1..x_i, with g = (q - a p)+ and D = sum g: t = g(x) / (D q(x)) for the drafted x = x_(i+1), all exits
    are multiplied by t, t (a p - q)+ leaves here, and a becomes a' = min(1, a p(x) / q(x)). The end is drawn from the
    exits and from a, which stands for the whole path and a token of p. As computed here g(x) / q(x) = 1 - a' and
    D = 1 - a + sum (a p - q)+.

    Lossless: t averages to 1 over x ~ q, so exits keep their mass on average while the path grows, and a p is split
    into min(a p, q), which goes on, and (a p - q)+, which leaves. Its distribution given the path is that of Block: a_i
    is w_i.

    Acceptance: sum_i a_i tokens over paths, a_i the mass on the path after i of its tokens.
    Cost: O(L^2 + L V).
    Source: Hu and Huang, ICML 2024 (PMLR 235:19216), and the code of its authors.
    """

    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        """See SinglePath._path_outcome."""
        on_path = one_of(p[0])
        exits, next_token = [], []
        for node, token in enumerate(tokens):
            leaving, distribution = shortfall(on_path, p[node], q[node])
            kept = accept_ratio(on_path * p[node][token], q[node][token])
            total = leaving + (1 - on_path)
            thinned = (1 - kept) / (total + (total == 0)) + (total == 0)
            exits = [thinned * mass for mass in exits] + [thinned * leaving]
            next_token.append(distribution)
            on_path = kept
        return [*exits, on_path], [*next_token, p[len(tokens)]]
