"""The largest acceptance of any lossless solver, computed without constructing that solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, copy_of, normalised, positive_part, power, set_zero, zero_of, zeros_like
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.otlp.draft_sets import draft_sets
from spectheory.otlp.solver import _check_pair
from spectheory.otlp.without_replacement import kept_within


def optimal_acceptance(p: Vector, q: Vector, k: int, rule: DrawRule = DrawRule.IID) -> Any:
    """The largest acceptance of any lossless node solver: the value of optimal transport from drafts to tokens.

    It is the least p(H) + 1 - Q(H) over all sets H of tokens, where Q(H) is the probability that all drafts are in H:
    a token of H is emitted with probability p(H) at most, and drafts that are not all in H have probability 1 - Q(H);
    that the least is reached is max-flow = min-cut. Exact for Fractions; for float64 rounding is the only error,
    and for NO_REPLACEMENT another of less than 1e-12.

    Args:
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution.
        k: drafts at the node; 1 or 2 for HUB.
        rule: how they are drawn.

    Raises:
        InputError: p or q is not a distribution, their lengths differ, k < 1, k > 2 for HUB, or p and q are Fractions,
            drawn without replacement, on so large a vocabulary that their sums cannot be listed.

    Cost: O(V log V); for NO_REPLACEMENT some hundred passes of O(k V), in Fractions O(V^k).
    Source: arXiv 2502.18779 (Hu et al.), the dual of optimal transport and its scans; Dynamic Delayed Tree Expansion,
    Definition 5.1.
    """
    _check_pair(p, q)
    rule.check_count(k)
    return _optimal_acceptance(p, q, k, rule)


def _optimal_acceptance(p: Vector, q: Vector, k: int, rule: DrawRule) -> Any:
    """See `optimal_acceptance`; unchecked."""
    if rule is DrawRule.TOP_K:
        return p[top_tokens(q, k)].sum()
    if rule is DrawRule.TOP_K_THEN_ONE or (rule is DrawRule.HUB and k == 2):
        return _head_then_one(p, q, top_tokens(q, k - 1))
    if rule is DrawRule.NO_REPLACEMENT and k > 1:
        least = _least_cut(_on_host(p), _on_host(q), lambda ordered: _kept_without_replacement(ordered, k))
        return zero_of(p) + least
    return _least_cut(p, q, lambda ordered: power(ordered.cumsum(0), k))


def _least_cut(p: Vector, q: Vector, kept: Callable[[Vector], Vector]) -> Any:
    """The least p(H) + 1 - Q(H) over the prefixes H of the tokens by falling q / p; `kept` gives Q for each prefix.

    Some prefix is least of all sets where Q(H) = f(q(H)) with a convex f, as for independent draws: of all sets of one
    q(H) (tokens cut in parts allowed) the prefix has the least p(H), which is linear in q(H) between two prefixes, so
    that the cut is concave there and least at an end. For draws without replacement Hu et al. prove it, from what they
    call q-convexity of Q; for TOP_K_THEN_ONE it does not hold.
    """
    either = p + q
    order = (-(q / (either + (either == 0)))).argsort()
    return 1 - positive_part(kept(q[order]) - p[order].cumsum(0)).max()


def _head_then_one(p: Vector, q: Vector, head: list[int]) -> Any:
    """p(head) + sum min(p, q restricted to the others), which meets the least cut at the others with p > q."""
    others, rest = copy_of(p), copy_of(q)
    set_zero(others, head)
    set_zero(rest, head)
    return p.sum() - positive_part(others - normalised(rest, otherwise=rest)).sum()


def _kept_without_replacement(q: Vector, k: int) -> Vector:
    """(V,) probability that all of k drafts without replacement are among the first 1, 2, ... tokens."""
    if q.dtype != object:
        return kept_within(q, k)
    last = zeros_like(q)
    for drawn, chance in draft_sets(q, k, DrawRule.NO_REPLACEMENT).items():
        last[max(drawn)] += chance
    return last.cumsum()


def _on_host(distribution: Vector) -> np.ndarray:
    return np.array(distribution.tolist(), dtype=object if distribution.dtype == object else np.float64)
