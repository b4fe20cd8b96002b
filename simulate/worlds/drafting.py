"""Drafts of static trees, of draw policies and of policies that search a draft model, in a world with tokens."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from typing import Any

from spectheory import Draft, DrawPolicy, DrawRule, InputError, MarkovDraft, Tree, World, branches
from spectheory.core.random_source import RandomSource
from spectheory.core.world import Growth
from spectheory.search.policy_comparison import Policy
from spectheory.yields.expected import MOST_DRAFTS

Shape = Tree | DrawPolicy | Policy
"""What is drafted: a static tree, a policy that draws, or a policy that searches a draft model."""


def check_shape(shape: Any, rule: DrawRule | None) -> None:
    """Refuse what is not a shape, a tree without a rule, and a rule given with a policy. Raises InputError."""
    if isinstance(shape, Tree):
        if rule is None:
            raise InputError("rule must say how the children of a tree are drawn, such as DrawRule.NO_REPLACEMENT")
    elif not isinstance(shape, DrawPolicy) and not callable(getattr(shape, "grow", None)):
        raise InputError(
            f"shape must be a Tree, a DrawPolicy such as Levels, or a policy such as OptTree(16), got {shape!r:.60}"
        )
    elif rule not in (None, own := shape.rule if isinstance(shape, DrawPolicy) else DrawRule.TOP_K):
        raise InputError(f"rule must be left out for a policy, or be the rule of the policy, {own.name}, got {rule}")


def drawn(shape: Shape, rule: DrawRule | None, world: World, draft: MarkovDraft, rng: RandomSource) -> Draft:
    """Draw one draft. `rng` is a `numpy.random.Generator`, or a `Branch` to enumerate all drafts."""
    if isinstance(shape, Tree):
        assert rule
        return _filled(shape, rule, world, draft.start, rng)
    if isinstance(shape, DrawPolicy):
        return shape.grow(world, rng)
    found = shape.grow(draft)
    tokens = found.tokens.copy()
    tokens[0] = draft.start
    distributions = [world.q((int(token),)) for token in tokens]
    return Draft(found.tree, tokens, distributions, found.tree.child_lists, DrawRule.TOP_K)


def every(shape: Shape, rule: DrawRule | None, world: World, draft: MarkovDraft) -> list[tuple[Draft, Fraction]]:
    """Every draft with its probability.

    Raises:
        InputError: there are more than `MOST_DRAFTS`.
    """
    found = list(islice(branches(lambda rng: drawn(shape, rule, world, draft, rng)), MOST_DRAFTS + 1))
    if len(found) > MOST_DRAFTS:
        raise InputError(
            f"shape {shape} has more than {MOST_DRAFTS:,} drafts in this world: take a smaller one for exact values; "
            "walks have no such limit"
        )
    return [(one, chance) for one, chance in found if chance]


def _filled(tree: Tree, rule: DrawRule, world: World, start: int, rng: RandomSource) -> Draft:
    """A static tree filled with tokens. Distinct draws fill the children in order; nodes without one are left out."""
    growth, planned = Growth(rule, start), [0]
    for node, place in enumerate(planned):  # the list grows during the loop
        q, children = world.q(growth.contexts[node]), tree.child_lists[place]
        if children:
            new = growth.add(node, q, rule.children(q, len(children), rng))
            planned += children[: len(new)]
    return growth.draft()
