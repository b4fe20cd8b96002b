"""`ReplayedTree`, a tree with its verifier, its draw rule and its cycles on recorded texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

from spectheory.core.errors import InputError
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.planning.node_reach import require_reach
from spectheory.planning.replayed_options import Option
from spectheory.replay import Replayed, Replays
from spectheory.verify import Greedy, name_of, verifier_of


@final
@dataclass(frozen=True, eq=False, repr=False)
class ReplayedTree(Record):
    """A tree that was replayed.

    Attributes:
        tree: the tree.
        verifier: the name of its verifier.
        rule: the name of the `DrawRule` by which children are drawn.
        replayed: the cycles of this tree and verifier on recorded texts, with the reach of the nodes if the tree has
            siblings.

    Raises:
        InputError: the fields contradict each other.
    """

    kind: ClassVar[str] = "replayed_tree"
    schema: ClassVar[int] = 2

    tree: Tree
    verifier: str
    rule: str
    replayed: Replayed

    def __post_init__(self) -> None:
        if self.tree.budget == 0:
            raise InputError(f"verifier of a tree without drafted nodes must be None, got {self.verifier!r:.60}")
        chosen = verifier_of(self.verifier)
        if chosen.takes != "trees" and not self.tree.is_chain:
            raise InputError(
                f"verifier of {self.tree} must verify trees, got {self.verifier}, which verifies {chosen.takes}"
            )
        rules = ["TOP_K"] if isinstance(chosen, Greedy) else [known.name for known in chosen.rules]
        if self.rule not in rules:
            raise InputError(f"rule must be one of {self.verifier}, {', '.join(rules)}, got {self.rule!r:.60}")
        if (depth := len(self.replayed.accepted) - 1) != self.tree.max_depth:
            raise InputError(f"replayed must be of the tree, which is {self.tree.max_depth} deep, got {depth}")
        require_reach(self.tree, self.replayed, sampled=not (isinstance(chosen, Greedy) or self.tree.is_chain))

    @classmethod
    def of(cls, option: Option, replays: Replays) -> Self:
        """An option as a record, with the reach of its nodes on the texts that it was replayed on."""
        tree, verifier, replayed = option.tree, option.verifier, option.replayed
        if not tree.is_chain:
            replayed = replace(replayed, reach=replays.reach(tree, verifier, option.rule))
        return cls(tree, name_of(verifier), option.rule.name, replayed)


def replayed_tree(tree: Tree, verifier: str | None, rule: str | None, replayed: Replayed | None) -> ReplayedTree | None:
    """A tree with what was replayed of it; None if nothing was, so that the other arguments are None too.

    Raises:
        InputError: only some are given, or they contradict each other or the tree.
    """
    if verifier is None and rule is None and replayed is None:
        return None
    if verifier is None or rule is None or replayed is None:
        raise InputError("verifier, rule and replayed must be given together: plan with a trace")
    return ReplayedTree(tree, verifier, rule, replayed)
