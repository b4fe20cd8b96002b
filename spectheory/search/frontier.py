"""The one search behind every dynamic policy: what the draft has shown so far, in the order of worth.

A policy only says which nodes to expand next and when to stop. Nodes stand in the order of (probability on the path,
depth, rank, place of the parent). A child is nowhere before its parent in it, nor before the sibling of the rank
before: path products do not rise, in floating point too, and equal ones go to the smaller depth. So the first n nodes
are a tree for every n, and no tree of n of the nodes seen is worth more. The order does not depend on the calls in
which the nodes came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spectheory.search.drafted import UNKNOWN_TOKEN, Drafted
from spectheory.search.drafter import DraftedPath, Drafter, ask
from spectheory.tree import Tree


class Nodes(NamedTuple):
    """Nodes as columns of equal length; `parent` is a place in the order, and the root is its own."""

    probability: np.ndarray
    depth: np.ndarray
    rank: np.ndarray
    parent: np.ndarray
    token: np.ndarray
    taken: np.ndarray

    def order(self) -> np.ndarray:
        """Indices in the order of the module's text."""
        order = np.argsort(-self.probability, kind="stable")  # nearly sorted, where four keys cost up to 40 times that
        falling = self.probability[order]
        if (falling[1:] == falling[:-1]).any():
            return np.lexsort((self.parent, self.rank, self.depth, -self.probability))
        return order

    def at(self, places: np.ndarray) -> Nodes:
        """The rows at `places`."""
        return Nodes(*(column[places] for column in self))

    def merged(self, new: Nodes) -> Nodes:
        """Both in order, parents renumbered; `self` is in order, and the parents of `new` are among `self`."""
        both = Nodes(*(np.concatenate(columns) for columns in zip(self, new, strict=True)))
        order = both.order()
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return both._replace(parent=place[both.parent]).at(order)


class Frontier:
    """The nodes seen, in order, the root first.

    Args:
        draft: what is asked.
        budget: most drafted nodes of the tree wanted.

    Attributes:
        nodes: of them, `probability` is the product on the path, and `taken` says what `take` has given out.
    """

    def __init__(self, draft: Drafter, budget: int) -> None:
        self._draft, self._budget = draft, budget
        self._calls = self._fed = 0
        zero = np.zeros(1, np.int64)
        self.nodes = Nodes(np.ones(1), zero, zero, zero, zero + UNKNOWN_TOKEN, np.zeros(1, bool))

    @property
    def worth(self) -> float:
        """Sum of the probabilities of the best tree among the nodes seen, without the root: OPT-Tree's E_sub."""
        return float(self.nodes.probability[1 : self._budget + 1].sum())

    def floor(self, among: np.ndarray | None = None) -> float:
        """Probability of the last node of the best tree of the whole budget, 0 while nodes are too few for it.

        Args:
            among: (m,) bool, nodes that count; None for all.
        """
        probability = self.nodes.probability if among is None else self.nodes.probability[among]
        return float(probability[self._budget]) if len(probability) > self._budget else 0.0

    def take(self, count: int) -> np.ndarray:
        """The first `count` nodes that were not taken before; fewer where there are fewer."""
        nodes = np.flatnonzero(~self.nodes.taken)[:count]
        self.nodes.taken[nodes] = True
        return nodes

    def expand(self, nodes: np.ndarray, fanout: int, most: int, least: float = 0.0) -> None:
        """Ask the draft, in one call, for the children of `nodes`; places in the order change.

        Args:
            nodes: places, at least one, none expanded before.
            fanout: children of each node that are looked at.
            most: children that are kept in all, the first in the order.
            least: no child of a lower probability is kept, nor any of 0.
        """
        tokens, law = ask(self._draft, self._paths(nodes), fanout)
        self._calls += 1
        self._fed += len(nodes)
        value = self.nodes.probability[nodes, None] * law
        if value.size > most:
            least = max(least, np.partition(value, -most, axis=None)[-most])
        row, rank = np.nonzero((value >= least) & (value > 0))
        parent = nodes[row]
        depth, taken = self.nodes.depth[parent] + 1, np.zeros(len(row), bool)
        children = Nodes(value[row, rank], depth, rank, parent, tokens[row, rank], taken)
        self.nodes = self.nodes.merged(children.at(children.order()[:most]) if len(row) > most else children)

    def drafted(self, among: np.ndarray | None = None) -> Drafted:
        """The best tree of at most the budget, and what it took.

        Args:
            among: (m,) bool, nodes that may be in it, each with its parent; None for all.
        """
        places = np.arange(len(self.nodes.depth)) if among is None else np.flatnonzero(among)
        places = places[: self._budget + 1]
        kept = self.nodes.at(places)
        parent = np.searchsorted(places, kept.parent)
        parent[0] = -1
        return Drafted(Tree(parent), kept.token, kept.probability, self._budget, self._calls, self._fed)

    def _paths(self, nodes: np.ndarray) -> list[DraftedPath]:
        steps, node = [], nodes
        while node.any():
            steps.append(self.nodes.token[node])
            node = self.nodes.parent[node]
        rows = np.array(steps[::-1], np.int64).reshape(len(steps), len(nodes)).T.tolist()
        depths = self.nodes.depth[nodes].tolist()
        return [tuple(row[len(row) - depth :]) for row, depth in zip(rows, depths, strict=True)]
