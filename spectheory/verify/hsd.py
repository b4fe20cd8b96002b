"""`HSD`, hierarchical speculative decoding with the capped ratio: the same distribution as block verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, excess, normalised, one_of
from spectheory.core.draft import Draft
from spectheory.verify.outcome import judged_outcome, judged_sample
from spectheory.verify.single_path import SinglePath, path_tokens


@dataclass(frozen=True)
class HSD(SinglePath):
    """Keep the longest prefix of the path whose coin succeeds; the coins compare missing and excess mass of branches.

    r(x_1..x_i) is the ratio of the joint probabilities of target and draft. The capped ratio r* starts again at 1 after
    the prefix at which r was largest, if r was above 1 there (Definitions 4 and 5 of the paper). Summed over the next
    tokens y after x_1..x_i, with the r* of x_1..x_i y, the missing mass is D(p, q) = sum (r* q - q)+ and the excess
    mass D(q, p) = sum (q - r* q)+. The coins are h_L = min(1, r*) and h_i = D(p, q) / max(D(p, q), D(q, p)) for i < L.
    After the prefix a token of N((r* q - q)+) is emitted, after the whole path a token of p.

    This is `Block`, coin by coin, although the paper reports more accepted tokens than block verification. r* divides r
    by the largest r so far, so min(1, r*(x_1..x_i)) is the weight w_i = min(1, w_(i-1) p / q) of Block, r* of a next
    token y is w_i p(y) / q(y), D(p, q) is S_i, and D(q, p) = S_i + 1 - w_i. Block keeps as many tokens of one path as
    any lossless rule can, so no rule of this kind keeps more.

    Two other forms are not here. Without the cap (Algorithm 1 of the paper, "naive"), the tokens after the first
    corrected one are drawn from further residuals, up to the length of the draft, with a target call for each. They are
    not a continuation by the target, so this is not a verifier of this package; `tests/verify/test_bottom_up.py` shows
    that it is lossless. The code of the authors keeps the whole path by the ratio without cap, and emits one token. It
    is lossy, and is in the zoo of the certifier as "hsd-clever".

    Acceptance: sum_i i h_i prod_(j > i) (1 - h_j) tokens given the path; on average over paths sum_i E[min(1, r*)].
    Cost: O(L V).
    Source: arXiv 2601.05724v2, Definitions 4 to 6, Equations 16 to 20 and Algorithm 2. Equation 19 leaves out the
        maximum of Equation 11, which changes nothing: with the cap D(p, q) <= D(q, p).
    """

    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        return judged_outcome(_judged(tokens, p, q), p)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return judged_sample(_judged(path_tokens(draft), p, draft.q), rng)


def _judged(tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]) -> Iterator[tuple[int, Any, Vector]]:
    """Yield (node, its coin's probability, next-token distribution), from the last node to the root."""
    capped = [one_of(p[0])]
    for node, token in enumerate(tokens):
        capped.append(accept_ratio(capped[-1] * p[node][token], q[node][token]))
    yield len(tokens), capped[-1], p[len(tokens)]
    for node in reversed(range(len(tokens))):
        reached = capped[node] * p[node]
        missing = excess(reached, q[node])
        lacking, over = missing.sum(), excess(q[node], reached).sum()
        largest = lacking * (lacking >= over) + over * (lacking < over)
        chance = lacking / (largest + (largest == 0)) + (largest == 0)
        yield node, chance if node else 1, normalised(missing, otherwise=p[node])
