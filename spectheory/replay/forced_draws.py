"""Drafts at a node that contain a given token, with weights that make up for forcing it in."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import Vector, one_of, without
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.core.random_source import RandomSource

WeightedDrafts = list[tuple[Any, list[int]]]


def forced_draws(rule: DrawRule, q: Vector, k: int, token: int, rng: RandomSource) -> WeightedDrafts:
    """Drafts that all contain `token`, each with a weight: the sum of weight * f(drafts) is an unbiased estimate of
    E[1{token is drafted} f(drafts)], for every f, over k drafts from q by `rule`.

    A token that is unlikely to be drafted costs no variance in this way. It is put at each place in turn, with the
    probability of that place as the weight; the other drafts are drawn from q without the token. For draws without
    replacement with S_j the mass drawn before place j, the weight of place r is

        q(token) / (1 - S_r) * product over j < r of (1 - q(token) - S_j) / (1 - S_j).

    For independent draws it is (1 - q(token))^r q(token), and the drafts after place r are drawn from q itself.

    Args:
        rule: how children are drawn.
        q: (V,) the draft's distribution.
        k: number of drafts, at least 1.
        token: the token that must be among them.
        rng: a `numpy.random.Generator`, or a `Branch` to enumerate all that can be drawn.
    """
    chance = q[token]
    if not chance > 0:
        return []
    if rule is DrawRule.TOP_K:
        drafts = top_tokens(q, k)
        return [(one_of(q), drafts)] if token in drafts else []
    if k == 1:
        return [(chance, [token])]
    others = without(q, token)
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        free = DrawRule.IID.children(q, k - 1, rng)
        missing = DrawRule.IID.children(others, k - 1, rng) if chance < 1 else []
        weights = ((1 - chance) ** place * chance for place in range(len(missing) + 1))
        return [(weight, [*missing[:place], token, *free[place:]]) for place, weight in enumerate(weights)]
    if rule is DrawRule.NO_REPLACEMENT:
        return in_every_place(q, token, DrawRule.NO_REPLACEMENT.children(others, k - 1, rng) if chance < 1 else [])
    head = top_tokens(q, k - 1)
    rest = q
    for top in head:
        rest = without(rest, top)
    if rule is DrawRule.TOP_K_THEN_ONE:
        if token not in head:
            return [(rest[token], [*head, token])]
        return [(one_of(q), [*head, *_one_draw(rest, rng)])]
    (hub,) = head
    if token != hub:
        return [(chance, [token, hub]), (q[hub] * rest[token], [hub, token])]
    other = _one_draw(rest, rng)
    return [(1 - chance, [*other, hub]), (chance, [hub, *other])] if other else [(one_of(q), [hub])]


def in_every_place(q: Vector, token: int, others: list[int]) -> WeightedDrafts:
    """`token` at each place among draws without replacement from the others."""
    weighted, drawn, passed = [], 0, one_of(q)
    for place in range(len(others) + 1):
        left = max(1 - drawn, q[token])  # rounding must not leave less than the token's own probability
        weighted.append((passed * q[token] / left, [*others[:place], token, *others[place:]]))
        if place < len(others):
            passed = passed * (left - q[token]) / left
            drawn = drawn + q[others[place]]
    return weighted


def _one_draw(q: Vector, rng: RandomSource) -> list[int]:
    """One draw from q; none where q is all 0."""
    return DrawRule.NO_REPLACEMENT.children(q, 1, rng)
