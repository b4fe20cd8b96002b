"""`Frontier`, the search that all drafting policies share: the nodes that the draft has returned so far, best first.

A policy only decides which nodes to expand next and when to stop. The nodes are ordered by falling probability of the
path, then by smaller depth, then by lower rank, then by the order of their parents. A child always comes after its
parent and after its earlier siblings, because products of probabilities never rise along a path, in floating point too,
and of equal nodes the shallower comes first. So the first n nodes are a tree for every n, and no other tree of n of
these nodes is worth more. The order does not depend on the calls in which the nodes were returned.

Nodes are tuples in sorted lists, not arrays: a drafted tree has some dozens of nodes, and the forwards of the model
before and after leave the caches of the processor cold, so a few comparisons are faster than calls of an array library.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.tree import Tree
from spectheory.search.draft_models import UNKNOWN_TOKEN, Drafted, DraftedPath, DraftModel, ask


class Node(NamedTuple):
    """A node that the draft has returned. Nodes compare as tuples, in the order described at the top of the module.

    Attributes:
        negated: minus the product of the probabilities on the path.
        depth: number of edges from the root.
        rank: rank among the children that the draft returned for the parent.
        parent: the parent, None for the root.
        path: the drafted tokens from the root to the node.
    """

    negated: float
    depth: int
    rank: int
    parent: Node | None
    path: DraftedPath

    @property
    def probability(self) -> float:
        """The product of the probabilities on the path."""
        return -self.negated


ROOT = Node(-1.0, 0, 0, None, ())


class Frontier:
    """The nodes that the draft has returned so far, in order, the root first.

    Args:
        draft: the draft model.
        budget: maximum number of drafted nodes of the tree.
    """

    def __init__(self, draft: DraftModel, budget: int) -> None:
        self._draft, self._budget = draft, budget
        self._calls = self._fed = 0
        self.nodes = [ROOT]

    @property
    def worth(self) -> float:
        """Sum of the probabilities of the best tree so far, without the root: OPT-Tree's E_sub."""
        return total(self.nodes[1 : self._budget + 1])

    def floor(self, among: Sequence[Node] | None = None) -> float:
        """Probability of the last node of the best tree of `budget` nodes; 0 while there are fewer nodes.

        Args:
            among: the nodes to choose from, in order; None for all.
        """
        nodes = self.nodes if among is None else among
        return nodes[self._budget].probability if len(nodes) > self._budget else 0.0

    def expand(self, nodes: Sequence[Node], fanout: int, most: int, least: float = 0.0) -> list[Node]:
        """Call the draft once for the children of `nodes`, keep the best children, and return them in order.

        Args:
            nodes: the nodes to expand, at least one, none of them expanded before.
            fanout: maximum number of children of each node that are considered.
            most: maximum number of children that are kept, over all nodes; at least 1.
            least: children of a lower path probability are dropped. Children of probability 0 are always dropped.
        """
        tokens, distribution = ask(self._draft, [node.path for node in nodes], fanout)
        self._calls += 1
        self._fed += len(nodes)
        children = _best_children(nodes, tokens, distribution, fanout, most, least)
        self.nodes = sorted(self.nodes + children)
        return children

    def drafted(self, among: Sequence[Node] | None = None) -> Drafted:
        """The best tree of at most `budget` drafted nodes, with the draft calls so far.

        Args:
            among: the nodes to choose from, in order, each with its parent; None for all.
        """
        root, *nodes = (self.nodes if among is None else among)[: self._budget + 1]
        place = {root.path: 0}
        for node in nodes:
            place[node.path] = len(place)
        tree = Tree._unchecked([-1, *(place[node.path[:-1]] for node in nodes)])
        tokens = np.array([UNKNOWN_TOKEN, *(node.path[-1] for node in nodes)])
        probability = np.array([1.0, *(node.probability for node in nodes)])
        return Drafted(tree, tokens, probability, self._budget, self._calls, self._fed)


def total(nodes: Sequence[Node]) -> float:
    """Sum of the path probabilities of `nodes`."""
    return -sum(node.negated for node in nodes)


def _best_children(
    nodes: Sequence[Node],
    tokens: Int[np.ndarray, "paths children"],
    distribution: Float[np.ndarray, "paths children"],
    fanout: int,
    most: int,
    least: float,
) -> list[Node]:
    """The `most` best children; see `Frontier.expand`. Rows of `distribution` fall: a dropped child ends its row."""
    children: list[Node] = []
    for row, node in enumerate(nodes):
        for rank in range(min(fanout, distribution.shape[1])):
            negated = node.negated * distribution.item(row, rank)
            if negated == 0 or -negated < least:
                break
            if len(children) >= most and negated > children[most - 1].negated:
                break
            insort(children, Node(negated, node.depth + 1, rank, node, (*node.path, tokens.item(row, rank))))
    return children[:most]
