"""`TreeObjective`, the objective of TALF, whose trees the target builds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head
from reference.losses import BeamTrees, Talf, beam_trees, on_draft_vocabulary, unroll_tree
from reference.train.forests import HeadForest, TargetForest
from reference.train.objectives.lessons import Batching, HeadObjective, at_rows
from spectheory.core.checks import check_whole


class TreeObjective(HeadObjective):
    """TALF: the target builds a tree at some roots of each text.

    Args:
        roots: number of roots in each text, drawn anew at each step.
    """

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: Talf, roots: int) -> None:
        super().__init__(head, target, batching)
        check_whole("roots", roots, 1)
        self.loss, self.roots = loss, roots

    def __call__(self, step: int) -> Tensor:
        """See Objective."""
        batch = self.batching.texts.batch(self.batching.numbers(step))
        lesson = self.lesson(batch)
        places, kept = chosen_roots(lesson.mask, self.roots, self.batching.rng(step))
        known = at_rows(lesson.target, places)
        expand = TargetForest(self.target, batch.tokens, places + 1, known)
        trees = beam_trees(expand, known.shape[0] * known.shape[1], self.loss.k, self.loss.depth)
        forest = HeadForest(self.head, self.head.fuse(lesson.states), lesson.tokens, places)
        logits = unroll_tree(forest, *forest.at_roots, trees)
        return self.loss(logits, self._on_vocabulary(trees), kept.flatten())

    def _on_vocabulary(self, trees: BeamTrees) -> BeamTrees:
        """The trees with distributions given the draft vocabulary, without nodes whose likeliest token is outside."""
        if self.inside is None:
            return trees
        found = on_draft_vocabulary(trees.target, self.inside)
        return replace(trees, target=found.target, present=trees.present & found.likeliest_inside)


def chosen_roots(mask: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """(B, R) rows drawn without replacement from those that the mask (B, L) keeps, in order, and which are to be read.

    Where a text has too few rows, rows that the mask does not keep fill the places.
    """
    count = min(count, mask.shape[1])
    scores = torch.from_numpy(rng.random(mask.shape)) + mask
    rows = scores.topk(count, dim=1).indices.sort(1).values
    return rows, mask.gather(1, rows)
