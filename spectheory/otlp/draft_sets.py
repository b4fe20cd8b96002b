"""The distribution of the set of drafts. The optimal acceptance depends on nothing else of the drafts."""

from __future__ import annotations

from math import comb
from typing import Any

from spectheory.core.arrays import Vector, without, zeros_like
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.core.errors import InputError

MOST_SETS = 20_000
"""Maximum number of sets of drafts that are listed: a few seconds in Fractions."""


def draft_sets(q: Vector, k: int, rule: DrawRule) -> dict[frozenset[int], Any]:
    """Probability of each set of tokens that k drafts by `rule` can form. Sets of probability 0 are left out.

    A set has fewer than k tokens if draws repeat, or if fewer than k tokens have q > 0.

    Raises:
        InputError: there are more than MOST_SETS sets, or k is below 1, or above 2 for HUB.
    """
    rule.check_count(k)
    one = zeros_like(q.tolist()[0]) + 1
    if rule is DrawRule.TOP_K:
        return {frozenset(top_tokens(q, k)): one}
    head: list[int] = []
    if rule is DrawRule.TOP_K_THEN_ONE or (rule is DrawRule.HUB and k == 2):
        head, rule = top_tokens(q, k - 1), DrawRule.NO_REPLACEMENT
        for token in head:
            q = without(q, token)
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
