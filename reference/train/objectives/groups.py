"""`GroupObjective`, the objective of GTO, whose trees the draft grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head
from reference.losses import BeamTrees, Gto, Pass, adjacent_groups, beam_trees, longest_accepted, tree_rewards
from reference.train.forests import HeadForest, HeadPaths, TargetForest
from reference.train.objectives.chain import ChainObjective
from reference.train.objectives.lessons import Batching, HeadObjective, Lesson, at_rows, passes_of
from reference.train.own_texts import TextBatch
from spectheory import Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class DraftTrees:
    """How the draft grows its trees in GTO: a beam, as in EAGLE-2.

    Attributes:
        k: width of the beam.
        depth: depth of the trees.
        groups: number of groups of adjacent roots in each text, drawn anew at each step.
        shuffled: whether the rewards of a group are dealt to its positions at random: the control that must not gain.
    """

    k: int = 4
    depth: int = 4
    groups: int = 4
    shuffled: bool = False

    def __post_init__(self) -> None:
        for name in ("k", "depth", "groups"):
            check_whole(name, getattr(self, name), 1)


class GroupObjective(HeadObjective):
    """GTO: the rewards of draft trees compared with the rewards of the frozen start, added to the token-level loss.

    The longest accepted sequence follows the text, so its probabilities are those of the passes of the token-level
    loss.

    Args:
        start: the frozen start, attached to the target.
        trees: how draft trees are grown.
    """

    def __init__(
        self, head: Head, target: PreTrainedModel, batching: Batching, loss: Gto, start: Head, trees: DraftTrees
    ) -> None:
        super().__init__(head, target, batching)
        if trees.depth > loss.token_loss.passes:
            raise InputError(
                f"depth of the draft trees must be at most {loss.token_loss.passes}, the passes of the token-level "
                f"loss, got {trees.depth}: raise passes"
            )
        self.loss, self.trees, self.start = loss, trees, start.requires_grad_(False)
        self.token_level = ChainObjective(head, target, batching, loss.token_loss)

    def __call__(self, step: int) -> Tensor:
        """See Objective."""
        batch = self.batching.texts.batch(self.batching.numbers(step))
        lesson, rng = self.lesson(batch), self.batching.rng(step)
        passes = passes_of(self.head, lesson, self.loss.needs)
        groups = self._groups(lesson.mask, rng)
        token_level = self.token_level.of_passes(passes, lesson)
        if not len(groups):
            return token_level
        rewards, accepted = self._grown(self.head, batch, lesson, groups)
        reference_rewards, _ = self._grown(self.start, batch, lesson, groups)
        with torch.no_grad():
            base = passes_of(self.start, lesson, self.loss.needs)
        now, then = (self._on_text(one, lesson, groups) for one in (passes, base))
        if self.trees.shuffled:
            order = torch.from_numpy(rng.permuted(np.tile(np.arange(self.loss.group), (len(groups), 1)), axis=1))
            rewards, reference_rewards = (one.gather(1, order) for one in (rewards, reference_rewards))
        return token_level + self.loss.weight * self.loss(now, then, accepted, rewards, reference_rewards)

    def _groups(self, mask: Tensor, rng: np.random.Generator) -> Tensor:
        """(G, m) places, in the rows of the lesson, of groups whose trees end before the text does."""
        fitting = mask.clone()
        fitting[:, : -self.trees.depth] &= mask[:, self.trees.depth :]
        fitting[:, -self.trees.depth :] = False
        groups = adjacent_groups(fitting, self.loss.group)
        most = self.trees.groups * len(mask)
        return groups[torch.from_numpy(np.sort(rng.permutation(len(groups))[:most]))]

    def _grown(self, head: Head, batch: TextBatch, lesson: Lesson, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards (G, m) of a head's trees, and which of the `depth` tokens of the text they hold (G, m, depth)."""
        length = lesson.mask.shape[1]
        texts, places = groups.flatten() // length, groups.flatten() % length
        roots, spread = by_text(texts, places, len(lesson.mask))
        with torch.no_grad():
            forest = HeadForest(head, head.fuse(lesson.states), lesson.tokens, roots)
            grown = beam_trees(HeadPaths(forest), roots.numel(), self.trees.k, self.trees.depth + 1)
        expand = TargetForest(self.target, batch.tokens, roots + 1, at_rows(lesson.target, roots))
        p = target_probabilities(expand, grown)[spread].numpy()
        shapes = [Tree(parent) for parent in grown.parent[spread].tolist()]
        ahead = batch.tokens[texts[:, None], places[:, None] + torch.arange(2, self.trees.depth + 2)]
        found = zip(shapes, grown.token[spread].tolist(), ahead.tolist(), strict=True)
        accepted = torch.stack([self._accepted(*one) for one in found])
        return tree_rewards(shapes, list(p), self.loss.eta).view(groups.shape), accepted.view(*groups.shape, -1)

    def _accepted(self, tree: Tree, tokens: list[int], ahead: list[int]) -> Tensor:
        """(depth,) bool: how many of the tokens of the text a tree holds, one after the other."""
        same = [
            depth > 0 and token == ahead[depth - 1] for token, depth in zip(tokens, tree.depth.tolist(), strict=True)
        ]
        return torch.arange(self.trees.depth) < len(longest_accepted(tree, same))

    def _on_text(self, passes: Sequence[Pass], lesson: Lesson, groups: Tensor) -> Tensor:
        """(G, m, depth) log-probabilities of the tokens of the text after each root."""
        length = lesson.mask.shape[1]
        texts, places = groups.flatten() // length, groups.flatten() % length
        found = []
        for depth in range(self.trees.depth):
            logits = self.head.on_vocabulary(passes[depth].logits[texts, places])
            ahead = lesson.tokens[texts, places + depth + 1]
            found.append(logits.log_softmax(-1).gather(1, ahead[:, None])[:, 0])
        return torch.stack(found, -1).view(*groups.shape, -1)


def by_text(texts: Tensor, places: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The places (N,) of roots as rows (count, R), one for each text, and the number of each root among these.

    Texts with fewer roots have place 0 in addition. `texts` rises.
    """
    first = torch.searchsorted(texts, torch.arange(count))
    column = torch.arange(len(texts)) - first[texts]
    rows = torch.zeros((count, int(column.max()) + 1), dtype=torch.int64)
    rows[texts, column] = places
    return rows, texts * rows.shape[1] + column


def target_probabilities(expand: TargetForest, trees: BeamTrees) -> Tensor:
    """(R, N) float64, the target's probability of the token of each node of trees that a draft grew; 1 at the root."""
    found = torch.ones(trees.token.shape, dtype=torch.float64)
    paths = trees.token.new_zeros((*trees.token.shape, 0))[:, :1]
    above = expand(paths)
    for depth in range(1, len(trees.widths)):
        nodes, before = trees.level(depth), trees.level(depth - 1).start
        parent, token = trees.parent[:, nodes] - before, trees.token[:, nodes]
        rows = above.gather(1, parent[..., None].expand(-1, -1, above.shape[-1]))
        found[:, nodes] = rows.gather(2, token[..., None])[..., 0].double()
        if depth + 1 < len(trees.widths):
            reached = paths.gather(1, parent[..., None].expand(-1, -1, paths.shape[2]))
            paths = torch.cat([reached, token[..., None]], -1)
            above = expand(paths)
    return found
