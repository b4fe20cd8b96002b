"""`node_reach`, the probability that each node of a tree is accepted, for drawings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spectheory.core.tree import Tree
from spectheory.planning.by_rates import ByRates
from spectheory.replay import Replayed


class NodeReach(NamedTuple):
    """The predicted reach of the nodes of a tree.

    Attributes:
        values: (budget + 1,) probability that each node is accepted.
        source: a clause for people if tau of the tree is replayed and these values are not; otherwise empty.
    """

    values: np.ndarray
    source: str = ""


def node_reach(tree: Tree, rates: ByRates, replayed: Replayed | None) -> NodeReach:
    """The reach by replay for a replayed chain, whose nodes are its depths; otherwise by the rates."""
    if replayed is not None and tree.is_chain:
        return NodeReach(replayed.accepted[::-1].cumsum()[::-1] / replayed.accepted.sum())
    values = rates.reach(tree)
    if replayed is None:
        return NodeReach(values)
    return NodeReach(values, f"nodes by the rates, which give this tree {values.sum():.3f} tokens per target call")
