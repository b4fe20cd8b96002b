"""`node_reach`, the probability that each node of a tree is accepted, and the check of a replayed reach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.planning.by_rates import ByRates
from spectheory.replay import Replayed

ROUNDING = 1e-6
"""Rounding error of a replayed reach."""
STANDARD_ERRORS = 5
"""How many standard errors of a share of the cycles a sampled reach may be out of order."""


class NodeReach(NamedTuple):
    """The predicted reach of the nodes of a tree.

    Attributes:
        values: (budget + 1,) probability that each node is accepted.
        source: how the values were predicted, as shown to readers, such as "nodes by the rates".
    """

    values: np.ndarray
    source: str


def node_reach(tree: Tree, rates: ByRates, replayed: Replayed | None) -> NodeReach:
    """The reach by replay if the tree was replayed, otherwise by the rates."""
    if replayed is None:
        return NodeReach(rates.reach(tree), "nodes by the rates" if rates.classes is None else "nodes by the classes")
    values = kept_by_depth(replayed) if replayed.reach is None else replayed.reach
    return NodeReach(values, "nodes by replay of recorded texts")


def kept_by_depth(replayed: Replayed) -> Float[np.ndarray, " lengths"]:
    """Share of the cycles that keep at least 0..L drafted tokens, which is the reach of a chain."""
    return replayed.accepted[::-1].cumsum()[::-1] / replayed.accepted.sum()


def require_reach(tree: Tree, replayed: Replayed, *, sampled: bool) -> None:
    """Check that the reach of a replayed tree agrees with its cycles and with the tree.

    At each depth the reach sums to the share of the cycles that keep as many tokens, so that the whole sums to tau. No
    node is accepted more often than its parent. Where siblings are sampled the shares are estimates, which may be out
    of order by `STANDARD_ERRORS`. A chain needs no reach: its cycles contain it.

    Args:
        tree: the tree.
        replayed: its cycles.
        sampled: whether the siblings of this tree are sampled.

    Raises:
        InputError: they disagree, or the reach of a tree with siblings is missing.
    """
    if replayed.reach is None:
        if tree.is_chain:
            return
        raise InputError(f"reach must be given for {tree}, which has siblings: plan again with the trace")
    if len(replayed.reach) != tree.budget + 1:
        raise InputError(f"reach must have {tree.budget + 1} entries, one a node of {tree}, got {len(replayed.reach)}")
    summed, kept = np.bincount(tree.depth, replayed.reach), kept_by_depth(replayed)
    wrong = np.abs(summed - kept) > ROUNDING
    if wrong.any():
        off = int(wrong.argmax())
        raise InputError(
            f"reach at depth {off} must sum to {kept[off]:.6g}, the share of the cycles that keep {off} tokens, got "
            f"{summed[off]:.6g}"
        )
    above, allowed = replayed.reach[tree.parent[1:]], STANDARD_ERRORS / np.sqrt(replayed.cycles.sum())
    excess = np.maximum(replayed.reach[1:] - above, -replayed.reach[1:])
    if tree.budget and excess.max() > (allowed if sampled else ROUNDING):
        node = int(excess.argmax()) + 1
        raise InputError(
            f"reach of node {node} must be between 0 and the reach of its parent, "
            f"{replayed.reach[tree.parent[node]]:.6g}, got {replayed.reach[node]:.6g}"
        )
