"""Where the cycles of one tree and verifier end on recorded texts, and tau of better drafts on the same texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.replay.replays import Replays
from spectheory.verify import Verifier

CLOSER = (0.25, 0.5)
"""How much closer to the target the better drafts are."""


@dataclass(frozen=True, eq=False)
class CycleEnds:
    """Where cycles end, as shares of the cycles that `Replays.replay` counts, and what two better drafts would give.

    Attributes:
        tau: tokens per target call with the recorded draft.
        reached: share of the cycles that keep at least 0..L drafted tokens.
        no_child: share of the cycles that end after so many because nothing was drafted below.
        missed: share that ends there because no child was the next token of the text and was kept.
        without_misses: tau of a draft that never misses after 0..L-1 kept tokens: there the first child is always the
            next token of the text, and is kept; everything else is as recorded.
        closer: tau of drafts that are closer to the target, by how much closer they are; see `Replays.replay`.
    """

    tau: float
    reached: Float[np.ndarray, " lengths"]
    no_child: Float[np.ndarray, " lengths"]
    missed: Float[np.ndarray, " lengths"]
    without_misses: Float[np.ndarray, " depths"]
    closer: Mapping[float, float]


def where_cycles_end(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule | None = None) -> CycleEnds:
    """Where the cycles of a static tree end on recorded texts, and tau of two better drafts.

    Args:
        replays: the texts.
        tree: a static tree with at least one drafted node.
        verifier: the verifier; `Greedy` for greedy text.
        rule: how children are drawn; greedy decoding draws nothing.

    Raises:
        InputError: the tree has no drafted node, or cannot be replayed on the texts with this verifier.
    """
    if not tree.budget:
        raise InputError("tree must have at least one drafted node, got the root alone")
    reach = replays.reach(tree, verifier, rule)
    leaves = np.bincount(tree.parent[1:], minlength=tree.budget + 1) == 0
    reached, no_child = (np.bincount(tree.depth, share) for share in (reach, reach * leaves))
    depths = range(tree.max_depth)
    return CycleEnds(
        tau=float(reach.sum()),
        reached=reached,
        no_child=no_child,
        missed=reached - np.append(reached[1:], 0) - no_child,
        without_misses=np.array([replays.replay(tree, verifier, rule, perfect=depth).tau for depth in depths]),
        closer={share: replays.replay(tree, verifier, rule, closer=share).tau for share in CLOSER},
    )
