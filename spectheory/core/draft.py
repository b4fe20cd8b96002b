"""`Draft`, a drafted tree: its tokens, the distributions they were drawn from, and how they were drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from jaxtyping import Shaped

from spectheory.core.arrays import Distributions, RandomSource, Vector, copy_of, set_zero, without
from spectheory.core.chance import draw
from spectheory.core.checks import check_types
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree


class DrawRule(Enum):
    """How the children of a node were drawn from q, the draft's distribution at the node."""

    IID = "independent draws; equal tokens share a node"
    IID_APART = "independent draws; each has a node of its own"
    NO_REPLACEMENT = "draws without replacement, in draw order"
    TOP_K = "the k tokens of highest probability, in that order"
    TOP_K_THEN_ONE = "the k - 1 tokens of highest probability, then one draw from the others"
    HUB = "one draw and the most probable token; if both are equal, the second is one draw from the other tokens"

    def __repr__(self) -> str:
        return str(self)

    def check_count(self, k: int) -> None:
        """Check that this rule can draw k children. Raises InputError if k is below 1, or above 2 for HUB."""
        if k < 1 or (self is DrawRule.HUB and k > 2):
            raise InputError(f"k must be {'1 or 2 for HUB' if self is DrawRule.HUB else 'at least 1'}, got {k}")

    def children(self, q: Vector, k: int, rng: RandomSource) -> list[int]:
        """Draw the tokens of up to k children from q, in draw order, with repeats.

        The result has fewer than k tokens if q has no further token of positive probability. Of equal probabilities the
        lower token comes first. `rng` is a `numpy.random.Generator` or a `Branch`.

        Raises:
            InputError: k is below 1, or above 2 for HUB, where k = 1 is a plain draw.
        """
        self.check_count(k)
        if self in (DrawRule.IID, DrawRule.IID_APART):
            return [draw(q, rng) for _ in range(k)]
        if self is DrawRule.TOP_K:
            return top_tokens(q, k)
        if self is DrawRule.HUB and k == 2:
            first, hub = draw(q, rng), top_tokens(q, 1)[0]
            return [first, hub] if first != hub else [first, *_draw_apart(without(q, hub), 1, rng)]
        head = top_tokens(q, k - 1) if self is DrawRule.TOP_K_THEN_ONE else []
        return head + _draw_apart(without(q, head) if head else q, k - len(head), rng)


def top_tokens(q: Vector, k: int) -> list[int]:
    """The k most probable tokens of positive probability; of equal ones the lower token comes first. Cost: O(kV)."""
    rest, found = copy_of(q), []
    while len(found) < k and rest[top := int(rest.argmax())] > 0:
        found.append(top)
        set_zero(rest, top)
    return found


def _draw_apart(q: Vector, k: int, rng: RandomSource) -> list[int]:
    """Up to k draws from q without replacement."""
    drawn: list[int] = []
    while len(drawn) < k and q.sum() > 0:
        drawn.append(draw(q, rng))
        q = without(q, drawn[-1])
    return drawn


@dataclass(frozen=True, eq=False)
class Draft:
    """One drafted tree, as a verifier sees it.

    Attributes:
        tree: the tree, with n drafted nodes.
        tokens: token of each of the n + 1 nodes; the token of the root is the last committed token.
        q: distribution from which the children of each node were drawn; those of leaves are not read.
        draws: draws[u] lists the child nodes of node u in draw order, with repeats.
        rule: how the children were drawn.

    Raises:
        InputError: shapes disagree, `draws` does not list exactly the children of each node, or two siblings have the
            same token although the rule puts equal tokens into one node.
    """

    tree: Tree
    tokens: Shaped[Any, " nodes"]
    q: Distributions
    draws: tuple[tuple[int, ...], ...]
    rule: DrawRule

    def __post_init__(self) -> None:
        check_types(Draft, vars(self))
        nodes = self.tree.budget + 1
        flat = getattr(self.tokens, "ndim", 1) == 1
        if not flat or {len(self.tokens), len(self.q), len(self.draws)} != {nodes}:
            raise InputError(
                f"tokens, q and draws must have one entry for each of the {nodes} nodes, "
                f"got {len(self.tokens)}, {len(self.q)} and {len(self.draws)}"
            )
        for node, (drawn, children) in enumerate(zip(self.draws, self.tree.child_lists, strict=True)):
            if sorted(set(drawn)) != list(children):
                raise InputError(f"draws[{node}] must name its children {list(children)}, got {list(drawn)}")
            tokens = [int(self.tokens[child]) for child in children]
            if self.rule is not DrawRule.IID_APART and len(set(tokens)) < len(tokens):
                raise InputError(
                    f"the children of node {node} have tokens {tokens}: under {self.rule} equal tokens share one node, "
                    "which draws repeats; join them, or use DrawRule.IID_APART"
                )
        if self.rule is not DrawRule.IID and any(len(set(drawn)) < len(drawn) for drawn in self.draws):
            raise InputError(f"draws contains a child twice, which {self.rule} never draws: use DrawRule.IID")

    @classmethod
    def _unchecked(
        cls,
        tree: Tree,
        tokens: Shaped[Any, " nodes"],
        q: Distributions,
        draws: tuple[tuple[int, ...], ...],
        rule: DrawRule,
    ) -> Draft:
        """`Draft(...)` without checks, for code that builds thousands of drafts that are correct by construction."""
        draft = object.__new__(cls)
        vars(draft).update(tree=tree, tokens=tokens, q=q, draws=draws, rule=rule)
        return draft

    @classmethod
    def in_order(cls, tree: Tree, tokens: Shaped[Any, " nodes"], q: Distributions, rule: DrawRule) -> Draft:
        """A draft without repeats, in which the children of each node were drawn in order of rank."""
        return cls(tree, tokens, q, tree.child_lists, rule)

    def drafted(self, node: int) -> list[int]:
        """The tokens of the children of `node`, in draw order, with repeats."""
        return [int(self.tokens[child]) for child in self.draws[node]]

    def context(self, node: int) -> tuple[int, ...]:
        """The drafted tokens on the path from the root to `node`, the token of `node` included; () for the root."""
        path: list[int] = []
        while node:
            path.append(int(self.tokens[node]))
            node = int(self.tree.parent[node])
        return tuple(reversed(path))
