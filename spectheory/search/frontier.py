"""The one search behind every dynamic policy: what the draft has shown so far, in the order of worth.

A policy only says which nodes to expand next and when to stop. Nodes stand in the order of (probability on the path,
depth, rank, place of the parent). A child is nowhere before its parent in it, nor before the sibling of the rank
before: path products do not rise, in floating point too, and equal ones go to the smaller depth. So the first n nodes
are a tree for every n, and no tree of n of the nodes seen is worth more. The order does not depend on the calls in
which the nodes came.

Nodes are tuples in sorted lists: trees that are drafted have some dozens of them, and between two forwards of a model,
which leave a processor's caches cold, a few comparisons take less time than the calls of an array library.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spectheory.core.tree import Tree
from spectheory.search.draft_models import DraftedPath, DraftModel, ask
from spectheory.search.drafted_tree import UNKNOWN_TOKEN, Drafted


class Node(NamedTuple):
    """A node that was seen; as tuples, nodes compare in the order of the module's text.

    Attributes:
        negated: minus the product of the probabilities on the path.
        depth: edges from the root.
        rank: among the draft's children of the parent.
        parent: None for the root.
        path: tokens from the root to the node.
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
    """The nodes seen, in order, the root first.

    Args:
        draft: what is asked.
        budget: most drafted nodes of the tree wanted.
    """

    def __init__(self, draft: DraftModel, budget: int) -> None:
        self._draft, self._budget = draft, budget
        self._calls = self._fed = 0
        self.nodes = [ROOT]

    @property
    def worth(self) -> float:
        """Sum of the probabilities of the best tree among the nodes seen, without the root: OPT-Tree's E_sub."""
        return total(self.nodes[1 : self._budget + 1])

    def floor(self, among: Sequence[Node] | None = None) -> float:
        """Probability of the last node of the best tree of the whole budget, 0 while nodes are too few for it.

        Args:
            among: nodes that count, in order; None for all.
        """
        nodes = self.nodes if among is None else among
        return nodes[self._budget].probability if len(nodes) > self._budget else 0.0

    def expand(self, nodes: Sequence[Node], fanout: int, most: int, least: float = 0.0) -> list[Node]:
        """Ask the draft, in one call, for the children of `nodes`, and give those that are kept, in order.

        Args:
            nodes: at least one, none expanded before.
            fanout: children of each node that are looked at.
            most: children that are kept in all, the first in the order; at least 1.
            least: no child of a lower probability is kept, nor any of 0.
        """
        tokens, distribution = ask(self._draft, [node.path for node in nodes], fanout)
        self._calls += 1
        self._fed += len(nodes)
        children = _best_children(nodes, tokens, distribution, fanout, most, least)
        self.nodes = sorted(self.nodes + children)
        return children

    def drafted(self, among: Sequence[Node] | None = None) -> Drafted:
        """The best tree of at most the budget, and what it took.

        Args:
            among: nodes that may be in it, in order, each with its parent; None for all.
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
    """Sum of the probabilities of nodes."""
    return -sum(node.negated for node in nodes)


def _best_children(
    nodes: Sequence[Node], tokens: np.ndarray, distribution: np.ndarray, fanout: int, most: int, least: float
) -> list[Node]:
    """The first `most` of them; see Frontier.expand. Rows of `distribution` fall: a child that is too late ends its
    row.
    """
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
