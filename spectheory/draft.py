"""A draft: a tree with tokens, the draft's laws, and how and in which order its children were drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from spectheory.tree import Tree


class DrawRule(Enum):
    """How the children of a node were drawn from the draft's law q there."""

    IID = "independent draws, with repeats"
    NO_REPLACEMENT = "draws without replacement, in draw order"
    TOP_K = "the k tokens of highest probability, in that order"


@dataclass(frozen=True, eq=False)
class Draft:
    """One drafted tree, as a verifier sees it.

    Attributes:
        tree: its shape, with n drafted nodes.
        tokens: (n + 1,) token at each node; the root's is the last committed token.
        q: (n + 1, V) law from which the children of each node were drawn; rows of leaves are not read.
        draws: draws[u] lists the child nodes of u in draw order, repeats included.
        rule: how they were drawn.

    Raises:
        ValueError: shapes disagree, or `draws` does not name exactly the children of each node.
    """

    tree: Tree
    tokens: Any
    q: Any
    draws: tuple[tuple[int, ...], ...]
    rule: DrawRule

    def __post_init__(self) -> None:
        nodes = self.tree.budget + 1
        if len(self.tokens) != nodes or len(self.q) != nodes or len(self.draws) != nodes:
            raise ValueError(
                f"tokens, q and draws must have one entry for each of the {nodes} nodes, "
                f"got {len(self.tokens)}, {len(self.q)} and {len(self.draws)}"
            )
        for node, drawn in enumerate(self.draws):
            children = self.tree.children(node).tolist()
            if sorted(set(drawn)) != children:
                raise ValueError(f"draws[{node}] must name the children {children} of that node, got {list(drawn)}")
        if self.rule is not DrawRule.IID and any(len(set(drawn)) < len(drawn) for drawn in self.draws):
            raise ValueError(f"draws repeat a child, which {self.rule} cannot give: use DrawRule.IID")

    @classmethod
    def in_order(cls, tree: Tree, tokens: Any, q: Any, rule: DrawRule) -> Draft:
        """A draft without repeats whose children were drawn in order of rank."""
        draws = tuple(tuple(tree.children(node).tolist()) for node in range(tree.budget + 1))
        return cls(tree, tokens, q, draws, rule)

    def drafted(self, node: int) -> list[int]:
        """(k,) tokens drafted below `node`, in draw order with repeats."""
        return [int(self.tokens[child]) for child in self.draws[node]]
