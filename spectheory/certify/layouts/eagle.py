"""The layout of EAGLE: one tree as its paths, each a row of `retrieve_indices`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from spectheory.certify.layouts.drafting import Options, Setting, converted, grown, logits, shown
from spectheory.certify.play import Play
from spectheory.certify.rows import PLACEHOLDER, drawn
from spectheory.core.tree import Tree
from spectheory.core.world import Context, World


@dataclass(frozen=True)
class EagleInputs:
    """The arguments of `evaluate_posterior` in EAGLE: one tree of D nodes with m paths from the root to a leaf.

    Attributes:
        tree_candidates: (D,) id of each node; node 0 is the last token of the context.
        retrieve_indices: (m, depth + 1) nodes of each path, -1 after its leaf.
        candidates: (m, depth + 1) their ids, -1 after the leaf.
        logits: (m, depth + 1, size) logarithms of the target's distribution after each node. After the leaf of a path,
            it is that of the last node, as the index -1 gives it.
    """

    tree_candidates: Any
    retrieve_indices: Any
    candidates: Any
    logits: Any

    converted = converted


def eagle_play(
    evaluate: Callable[[EagleInputs, np.random.Generator], Any],
    world: World,
    *,
    tree: Tree,
    **options: Unpack[Options],
) -> Play:
    """A play of a function that takes one tree in EAGLE's layout. EAGLE verifies one context a call.

    The children of a node are different tokens, drawn from q without replacement. They are verified as one-hot drafts.

    Args:
        evaluate: function (inputs, rng) -> (best candidate, accept length, sample_p): a path, the number of its drafted
            tokens that are accepted, and weights (size,) of the token after them, which is drawn here.
        tree: tree of each step.
        world: world with the distributions of target and draft.
        options: as those of `vllm_play`, without `batch`.
    """
    setting = Setting(world, batch=None, **options)
    return setting.play(_EagleStep(evaluate, setting, tree), tree.max_depth)


class _EagleStep:
    """A step that drafts a tree, has it evaluated, and draws the last token."""

    def __init__(self, evaluate: Any, setting: Setting, tree: Tree) -> None:
        self.evaluate, self.table, self.vocabulary, self.tree = evaluate, setting.table, setting.vocabulary, tree
        self.paths = _paths(tree)
        self._drafts = np.zeros(tree.budget + 1, int)

    def __call__(self, context: Context, rng: np.random.Generator) -> list[int]:
        start = self.table.at(self.vocabulary.tokens(np.array([context], int)))
        tokens, nodes = (of[0] for of in grown(self.table, start, self.tree, rng))
        self._drafts = tokens
        ids = np.where(tokens >= 0, self.vocabulary.ids[tokens], 0)
        ids[0] = context[-1] if context else 0
        inputs = EagleInputs(
            tree_candidates=ids,
            retrieve_indices=self.paths,
            candidates=np.where(self.paths >= 0, ids[self.paths], PLACEHOLDER),
            logits=logits(self.vocabulary.widened(self.table.given[nodes]))[self.paths],
        )
        best, accepted, weights = (np.asarray(found) for found in self.evaluate(inputs, rng))
        path = inputs.candidates[int(best)]
        last = drawn(weights.astype(np.float64).reshape(1, -1), rng)
        return [*path[1 : int(accepted) + 1].tolist(), int(last[0])]

    def drafts(self, row: int) -> str:
        """The drafts of the last call."""
        return f"drafted {shown(self._drafts, self.tree)}"


def _paths(tree: Tree) -> np.ndarray:
    """(m, depth + 1) the nodes of each path from the root to a leaf, -1 after the leaf."""
    parents, found = tree.parent.tolist(), []
    for leaf, children in enumerate(tree.child_lists):
        if not children:
            path = [leaf]
            while path[-1]:
                path.append(parents[path[-1]])
            found.append(path[::-1])
    return np.array([[*path, *[PLACEHOLDER] * (tree.max_depth + 1 - len(path))] for path in found])
