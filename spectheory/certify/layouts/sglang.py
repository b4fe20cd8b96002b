"""The layout of SGLang's tree verification: trees as links to the first child and the next sibling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from spectheory.certify.layouts.drafting import BatchOptions, Setting, converted, grown, shown
from spectheory.certify.play import Play
from spectheory.certify.rows import PLACEHOLDER, rows_of_indices
from spectheory.core.tree import Tree
from spectheory.core.world import World


@dataclass(frozen=True)
class SglangInputs:
    """The arguments of `tree_speculative_sampling_target_only` in SGLang: n rows with trees of up to D nodes.

    Attributes:
        candidates: (n, D) id of each node; node 0 is the last token of the context.
        retrieve_index: (n, D) number of each node in flat arrays: row * D + node.
        retrieve_next_token: (n, D) first child of each node, -1 for none.
        retrieve_next_sibling: (n, D) next sibling of each node, -1 for none.
        uniform_samples: (n, D) uniform numbers, above 0 and below 1.
        uniform_samples_for_final_sampling: (n,) uniform numbers, above 0 and below 1.
        target_probs: (n, D, size) the target's distribution after each node.
        draft_probs: (n, D, size) zeros, which the sampler may overwrite.
        num_speculative_tokens: largest number of tokens that a row can emit.
    """

    candidates: Any
    retrieve_index: Any
    retrieve_next_token: Any
    retrieve_next_sibling: Any
    uniform_samples: Any
    uniform_samples_for_final_sampling: Any
    target_probs: Any
    draft_probs: Any
    num_speculative_tokens: int

    converted = converted


def sglang_play(
    sample: Callable[[SglangInputs, np.random.Generator], Any],
    world: World,
    *,
    tree: Tree,
    ragged: bool = True,
    **options: Unpack[BatchOptions],
) -> Play:
    """A play of a sampler that takes trees in SGLang's layout.

    The children of a node are different tokens, drawn from q without replacement. The uniform numbers are never exactly
    0, at which a sampler that accepts by `<=` emits a token of probability 0.

    Args:
        sample: function (inputs, rng) -> (predict, accept_index): (n * D,) ids, in which the entry of an accepted node
            is the token after it, and (n, num_speculative_tokens) the accepted nodes in the numbers of
            `retrieve_index`, the root first, -1 after the last one. Further results are ignored.
        tree: tree of each row.
        ragged: whether rows have different numbers of nodes: the first ones of the tree, by chance.
        world: world with the distributions of target and draft.
        options: as those of `vllm_play`.
    """
    setting = Setting(world, **options)
    return setting.play(_SglangStep(sample, setting, tree, ragged), tree.max_depth)


class _SglangStep:
    """A step that drafts trees and gives them to the sampler."""

    def __init__(self, sample: Any, setting: Setting, tree: Tree, ragged: bool) -> None:
        self.sample, self.tree, self.ragged = sample, tree, ragged
        self.table, self.vocabulary = setting.table, setting.vocabulary
        self._drafts = np.zeros((0, tree.budget + 1), int)

    def __call__(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows, count = len(contexts), self.tree.budget + 1
        starts = self.table.at(self.vocabulary.tokens(contexts))
        tokens, nodes = grown(self.table, starts, self.tree, rng)
        kept = rng.integers(1, count + 1, rows) if self.ragged else np.full(rows, count)
        self._drafts = tokens = np.where(np.arange(count) < kept[:, None], tokens, PLACEHOLDER)
        child, sibling = self._links(kept)
        target_probs = self.vocabulary.widened(self.table.given[nodes])
        inputs = SglangInputs(
            candidates=self._candidates(contexts, tokens),
            retrieve_index=np.arange(rows * count).reshape(rows, count),
            retrieve_next_token=child,
            retrieve_next_sibling=sibling,
            uniform_samples=_uniform(rng, (rows, count)),
            uniform_samples_for_final_sampling=_uniform(rng, (rows,)),
            target_probs=target_probs,
            draft_probs=np.zeros_like(target_probs),
            num_speculative_tokens=self.tree.max_depth + 1,
        )
        predict, accepted = self.sample(inputs, rng)[:2]
        return rows_of_indices(predict, accepted)

    def _candidates(self, contexts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        candidates = np.where(tokens >= 0, self.vocabulary.ids[tokens], 0)
        candidates[:, 0] = np.maximum(contexts[:, -1], 0)
        return candidates

    def _links(self, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First child and next sibling of each node, among the first `kept` nodes of each row."""
        child, sibling = np.full((2, len(kept), self.tree.budget + 1), PLACEHOLDER)
        for node, children in enumerate(self.tree.child_lists):
            for before, after in zip([None, *children], children, strict=False):
                links, at = (child, node) if before is None else (sibling, before)
                links[:, at] = np.where(after < kept, after, PLACEHOLDER)
        return child, sibling

    def drafts(self, row: int) -> str:
        """The drafts of a row of the last call."""
        return f"drafted {shown(self._drafts[row], self.tree) or 'nothing'}"


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.maximum(rng.random(shape, np.float32), np.float32(2**-25))
