"""What a tree that was replayed must hold together with its verifier, its draw rule and its cycles."""

from __future__ import annotations

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.replay import Replayed
from spectheory.verify import Greedy, verifier_of


def require_verified(tree: Tree, verifier: str | None, rule: str | None, replayed: Replayed | None) -> None:
    """Check the verifier, the draw rule and the replayed cycles of a tree; all are None if tau is not replayed.

    Raises:
        InputError: only some are given, or they contradict each other or the tree.
    """
    if verifier is None and rule is None and replayed is None:
        return
    if verifier is None or rule is None or replayed is None:
        raise InputError("verifier, rule and replayed must be given together: plan with a trace")
    chosen = verifier_of(verifier)
    if chosen.takes != "trees" and not tree.is_chain:
        raise InputError(f"verifier of {tree} must verify trees, got {verifier}, which verifies {chosen.takes}")
    rules = ["TOP_K"] if isinstance(chosen, Greedy) else [known.name for known in chosen.rules]
    if rule not in rules:
        raise InputError(f"rule must be one of {verifier}, {', '.join(rules)}, got {rule!r:.60}")
    if (depth := len(replayed.accepted) - 1) != tree.max_depth:
        raise InputError(f"replayed must be of the tree, which is {tree.max_depth} deep, got {depth}")
