"""The maximum acceptance of all lossless node solvers, computed without a solver, and the sets that drafts form."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, copy_of, positive_part, power, set_zero, without, zero_of, zeros_like
from spectheory.core.checks import check_types
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.core.errors import InputError
from spectheory.otlp.solver import _pair
from spectheory.otlp.without_replacement import kept_within

MOST_SETS = 20_000
"""Maximum number of sets of drafts that are listed: a few seconds in Fractions."""


def optimal_acceptance(p: Vector, q: Vector, k: int, rule: DrawRule = DrawRule.IID) -> Any:
    """The maximum acceptance of all lossless node solvers: the value of optimal transport from drafts to tokens.

    It is the minimum of p(H) + 1 - Q(H) over all sets H of tokens, where Q(H) is the probability that all drafts are
    in H. No solver is better: an accepted token is in H, with probability at most p(H), or is a draft outside H, and
    some draft is outside H with probability 1 - Q(H). Max-flow = min-cut says that the minimum is reached. The result
    is exact for Fractions. For float64 the only error is rounding, and for NO_REPLACEMENT an error below 1e-12.

    Args:
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution.
        k: number of drafts at the node, at least 1; 1 or 2 for HUB.
        rule: how the drafts are drawn.

    Raises:
        InputError: p or q is not a distribution, their lengths differ, k is out of range, or p and q are Fractions, the
            rule is NO_REPLACEMENT, and there are too many sets of drafts to list.

    Cost: O(V log V); for NO_REPLACEMENT some hundred passes of O(k V), in Fractions O(V^k).
    Source: arXiv 2502.18779 (Hu et al.), the dual of optimal transport and its scans; Dynamic Delayed Tree Expansion,
    Definition 5.1.
    """
    if type(k) is not int or type(rule) is not DrawRule:
        check_types(optimal_acceptance, {"k": k, "rule": rule})
    p, q = _pair(p, q)
    rule.check_count(k)
    return _optimal_acceptance(p, q, k, rule)


def _optimal_acceptance(p: Vector, q: Vector, k: int, rule: DrawRule) -> Any:
    """`optimal_acceptance`, unchecked."""
    if rule is DrawRule.TOP_K:
        return p[top_tokens(q, k)].sum()
    if rule is DrawRule.TOP_K_THEN_ONE or (rule is DrawRule.HUB and k == 2):
        return _head_then_one(p, q, top_tokens(q, k - 1))
    if rule is DrawRule.NO_REPLACEMENT and k > 1:
        least = _least_cut(_on_host(p), _on_host(q), lambda ordered: _kept_without_replacement(ordered, k))
        return zero_of(p) + least
    return _least_cut(p, q, lambda ordered: power(ordered.cumsum(0), k))


def _least_cut(p: Vector, q: Vector, kept: Callable[[Vector], Vector]) -> Any:
    """The minimum of p(H) + 1 - Q(H) over the prefixes H of the tokens in the order of falling q / p.

    `kept` returns Q for each prefix. A prefix is the minimum over all sets if Q(H) = f(q(H)) with a convex f, as for
    independent draws: among all sets with the same q(H) (parts of tokens allowed), the prefix has the smallest p(H).
    Between two prefixes p(H) is linear in q(H), so the cut is concave there, and its minimum is at an end. For draws
    without replacement Hu et al. prove the same from a property of Q that they call q-convexity. For TOP_K_THEN_ONE it
    is not true.
    """
    either = p + q
    order = (-(q / (either + (either == 0)))).argsort()
    return 1 - positive_part(kept(q[order]) - p[order].cumsum(0)).max()


def _head_then_one(p: Vector, q: Vector, head: list[int]) -> Any:
    """The minimum cut if `head` is drafted and one more token is drawn: p(head) + sum min(p, q without head)."""
    others = copy_of(p)
    set_zero(others, head)
    return p.sum() - positive_part(others - without(q, head)).sum()


def _kept_without_replacement(q: Vector, k: int) -> Vector:
    """(V,) probability that k drafts without replacement are all among the first n tokens, for n = 1, ..., V."""
    if q.dtype != object:
        return kept_within(q, k)
    last = zeros_like(q)
    for drawn, chance in draft_sets(q, k, DrawRule.NO_REPLACEMENT).items():
        last[max(drawn)] += chance
    return last.cumsum()


def _on_host(distribution: Vector) -> np.ndarray:
    return np.array(distribution.tolist(), dtype=object if distribution.dtype == object else np.float64)


def draft_sets(q: Vector, k: int, rule: DrawRule) -> dict[frozenset[int], Any]:
    """Probability of each set of tokens that k drafts by `rule` can form. Sets of probability 0 are left out.

    A set has fewer than k tokens if draws repeat, or if fewer than k tokens have q > 0.

    Raises:
        InputError: there are more than MOST_SETS sets, or k is below 1, or above 2 for HUB.
    """
    rule.check_count(k)
    one = zero_of(q) + 1
    if rule is DrawRule.TOP_K:
        return {frozenset(top_tokens(q, k)): one}
    head: list[int] = []
    if rule is DrawRule.TOP_K_THEN_ONE or (rule is DrawRule.HUB and k == 2):
        head, rule = top_tokens(q, k - 1), DrawRule.NO_REPLACEMENT
        q = without(q, head)
    weights = {token: weight for token, weight in enumerate(q.tolist()) if weight > 0}
    draws, repeats = k - len(head), rule is not DrawRule.NO_REPLACEMENT
    draws = draws if repeats else min(draws, len(weights))
    count = sum(comb(len(weights), size) for size in range(1 if repeats else draws, draws + 1))
    if count > MOST_SETS:
        raise InputError(
            f"{k} drafts from {len(weights)} tokens form {count:,} sets, at most {MOST_SETS:,} can be listed: use a "
            "smaller k, or a q with fewer tokens of positive probability"
        )
    return _drawn({frozenset(head): one}, weights, draws, repeats)


def _drawn(
    sets: dict[frozenset[int], Any], weights: dict[int, Any], draws: int, repeats: bool
) -> dict[frozenset[int], Any]:
    """The distribution of the set after `draws` further draws, one after another."""
    for _ in range(draws):
        grown: dict[frozenset[int], Any] = {}
        for chosen, chance in sets.items():
            open_to = weights if repeats else {t: w for t, w in weights.items() if t not in chosen}
            chance = chance / sum(open_to.values())
            for token, weight in open_to.items():
                drawn = chosen | {token}
                grown[drawn] = grown.get(drawn, 0) + chance * weight
        sets = {drawn: chance for drawn, chance in grown.items() if chance > 0}
    return sets
