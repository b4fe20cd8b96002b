"""The losses of a head at each step of its training, on batches of the target's own texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head, HeadStep
from reference.losses import BeamTrees, ChainLoss, Gto, Loss, Pass, Talf, beam_trees, unroll, unroll_tree
from reference.losses.chain import on_draft_vocabulary
from reference.losses.gto import adjacent_groups, longest_accepted
from reference.train.forests import HeadForest, TargetForest, at_rows, softmax
from reference.train.own_texts import OwnTexts, TextBatch
from spectheory import Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.gto import draft_tree_reward

Objective = Callable[[int], Tensor]
"""The loss at a step, a scalar that depends on the weights and on the number of the step alone."""


class Lesson(NamedTuple):
    """A batch as the losses read it. Row r has read token r + 1 and predicts token r + 2.

    Attributes:
        states: (B, L - 1, states x D) the target's hidden states at token r that the head reads.
        tokens: (B, L - 1) token r + 1.
        following: (B, L - 1, D) the target's last hidden state at token r + 1.
        target: (B, L - 1, V) the target's distribution of token r + 2 at temperature 1.
        mask: (B, L - 1) whether token r + 2 is the target's own.
    """

    states: Tensor
    tokens: Tensor
    following: Tensor
    target: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Batching:
    """Which texts each step reads.

    Attributes:
        texts: the target's own texts.
        rows: texts in a step.
        seed: seed of their order, which changes each time all texts have been read.
    """

    texts: OwnTexts
    rows: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("rows", self.rows, 1, most=self.texts.rows)

    def rng(self, step: int) -> np.random.Generator:
        """The random numbers of a step, apart from those that order the texts."""
        return np.random.default_rng([self.seed, 1, step])

    def numbers(self, step: int) -> list[int]:
        """The numbers of the texts of a step."""
        epoch, place = divmod(step, self.texts.rows // self.rows)
        order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.texts.rows)
        return order[place * self.rows : (place + 1) * self.rows].tolist()


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


class ChainObjective:
    """A loss that follows the text, pass by pass, of a head that is attached to its target."""

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: ChainLoss) -> None:
        batching.texts.require_target(target)
        self.head, self.target, self.batching, self.loss = head, target, batching, loss
        self.columns = batching.texts.columns(head)
        tokens, inside = head.token_ids, torch.zeros(head.config.vocab_size, dtype=torch.bool)
        self.inside = None if tokens is None else inside.index_fill(0, tokens, True)

    def __call__(self, step: int) -> Tensor:
        lesson = self.lesson(self.batch(step))
        return self.of_passes(self.passes(self.head, lesson), lesson)

    def batch(self, step: int) -> TextBatch:
        """The texts of a step."""
        return self.batching.texts.batch(self.batching.numbers(step))

    def lesson(self, batch: TextBatch) -> Lesson:
        """A batch as the losses read it."""
        states = batch.states.to(self.head.dtype)
        following = states[:, 1:, -1]
        predicted = torch.arange(2, batch.tokens.shape[1] + 1)
        mask = (predicted >= batch.prompt) & (predicted < batch.lengths[:, None])
        output: Any = self.target.get_output_embeddings()
        with torch.no_grad():
            target = softmax(output(following.to(self.target.dtype)))
        return Lesson(states[:, :-1, self.columns].flatten(2), batch.tokens[:, 1:], following, target, mask)

    def passes(self, head: Head, lesson: Lesson) -> list[Pass]:
        """The passes of a head along the text."""
        loss = self.loss
        return unroll(HeadStep(head), head.fuse(lesson.states), lesson.tokens, loss.passes, detached=loss.detached)

    def of_passes(self, passes: Sequence[Pass], lesson: Lesson) -> Tensor:
        """The loss of one batch, of which the passes are known."""
        following = lesson.following if self.loss.compares_features else None
        if self.inside is None:
            return self.loss(passes, lesson.target, lesson.mask, target_features=following)
        target, coverage, likeliest_inside = on_draft_vocabulary(lesson.target, self.inside)
        mask = lesson.mask & likeliest_inside
        return self.loss(passes, target, mask, target_features=following, coverage=coverage)


class TreeObjective(ChainObjective):
    """TALF: the target builds a tree at `roots` roots of each text, drawn anew at each step."""

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: Talf, roots: int) -> None:
        super().__init__(head, target, batching, loss)  # type: ignore[arg-type]
        self.tree_loss, self.roots = loss, roots

    def __call__(self, step: int) -> Tensor:
        batch, loss = self.batch(step), self.tree_loss
        lesson = self.lesson(batch)
        places, kept = chosen_roots(lesson.mask, self.roots, self.batching.rng(step))
        forest = HeadForest(self.head, self.head.fuse(lesson.states), lesson.tokens, places)
        expand = TargetForest(self.target, batch.tokens, places + 1, at_rows(lesson.target, places))
        trees = beam_trees(expand, forest.root_tokens, loss.k, loss.depth)
        logits = unroll_tree(forest, trees)
        if self.inside is not None:  # nodes whose likeliest token is outside the draft vocabulary do not count
            found = on_draft_vocabulary(trees.target, self.inside)
            trees = replace(trees, target=found.target, present=trees.present & found.likeliest_inside)
        return loss(logits, trees, kept.flatten())


class GroupObjective(ChainObjective):
    """GTO: the rewards of draft trees compared with the rewards of the frozen start, added to the token-level loss.

    The longest accepted sequence follows the text, so its probabilities are those of the passes of the token-level
    loss.
    """

    def __init__(
        self, head: Head, target: PreTrainedModel, batching: Batching, loss: Gto, start: Head, trees: DraftTrees
    ) -> None:
        super().__init__(head, target, batching, loss.token_loss)
        check_whole("depth of the draft trees", trees.depth, 1, most=loss.passes)
        self.group_loss, self.trees, self.start = loss, trees, start.requires_grad_(False)

    def __call__(self, step: int) -> Tensor:
        batch, rng, loss = self.batch(step), self.batching.rng(step), self.group_loss
        lesson = self.lesson(batch)
        passes = self.passes(self.head, lesson)
        groups, token_level = self.groups(lesson.mask, rng), self.of_passes(passes, lesson)
        if not len(groups):
            return token_level
        rewards, accepted = self.grown(self.head, batch, lesson, groups)
        reference_rewards, _ = self.grown(self.start, batch, lesson, groups)
        with torch.no_grad():
            base = self.passes(self.start, lesson)
        now, then = (self._on_text(one, lesson, groups) for one in (passes, base))
        if self.trees.shuffled:
            order = torch.from_numpy(rng.permuted(np.tile(np.arange(loss.group), (len(groups), 1)), axis=1))
            rewards, reference_rewards = (one.gather(1, order) for one in (rewards, reference_rewards))
        return token_level + loss.weight * loss(now, then, accepted, rewards, reference_rewards)

    def groups(self, mask: Tensor, rng: np.random.Generator) -> Tensor:
        """(G, m) places, in the rows of the lesson, of groups whose trees end before the text does."""
        fitting = mask.clone()
        fitting[:, : -self.trees.depth] &= mask[:, self.trees.depth :]
        fitting[:, -self.trees.depth :] = False
        groups = adjacent_groups(fitting, self.group_loss.group)
        most = self.trees.groups * len(mask)
        return groups[torch.from_numpy(np.sort(rng.permutation(len(groups))[:most]))]

    def grown(self, head: Head, batch: TextBatch, lesson: Lesson, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards (G, m) of a head's trees, and which of the `depth` tokens of the text they hold (G, m, depth)."""
        length, depth = lesson.mask.shape[1], self.trees.depth
        texts, places = groups.flatten() // length, groups.flatten() % length
        roots, spread = by_text(texts, places, len(lesson.mask))
        with torch.no_grad():
            forest = HeadForest(head, head.fuse(lesson.states), lesson.tokens, roots)
            grown = beam_trees(forest.distributions, forest.root_tokens, self.trees.k, depth + 1)
        expand = TargetForest(self.target, batch.tokens, roots + 1, at_rows(lesson.target, roots))
        p = target_probabilities(expand, grown)[spread].numpy()
        shapes = [Tree(parent) for parent in grown.parent[spread].tolist()]
        ahead = batch.tokens[texts[:, None], places[:, None] + torch.arange(2, depth + 2)]
        held = []
        for tree, tokens, following in zip(shapes, grown.token[spread].tolist(), ahead.tolist(), strict=True):
            same = [
                level > 0 and token == following[level - 1] for token, level in zip(tokens, tree.depth, strict=True)
            ]
            held.append(torch.arange(depth) < len(longest_accepted(tree, same)))
        rewards = [draft_tree_reward(tree, row, self.group_loss.eta) for tree, row in zip(shapes, p, strict=True)]
        return torch.tensor(rewards, dtype=torch.float64).view(groups.shape), torch.stack(held).view(*groups.shape, -1)

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


def objective_of(
    loss: Loss,
    head: Head,
    target: PreTrainedModel,
    batching: Batching,
    *,
    start: Head | None = None,
    roots: int = 64,
    trees: DraftTrees | None = None,
) -> ChainObjective:
    """The objective of a loss for a head that is attached to its target; `start` is the frozen start of GTO.

    Raises:
        InputError: the texts are those of another target or lack hidden states, or GTO has no start.
    """
    if isinstance(loss, ChainLoss):
        return ChainObjective(head, target, batching, loss)
    if isinstance(loss, Talf):
        return TreeObjective(head, target, batching, loss, roots)
    assert isinstance(loss, Gto)
    if start is None:
        raise InputError("start must be given for the loss gto: it compares with a frozen start")
    return GroupObjective(head, target, batching, loss, start, trees or DraftTrees())


def chosen_roots(mask: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """(B, R) rows drawn without replacement from those that the mask (B, L) keeps, in order, and which are to be read.

    Where a text has too few rows, rows that the mask does not keep fill the places.
    """
    count = min(count, mask.shape[1])
    scores = torch.from_numpy(rng.random(mask.shape)) + mask
    rows = scores.topk(count, dim=1).indices.sort(1).values
    return rows, mask.gather(1, rows)


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
    rows = unroll_tree(expand, trees, len(trees.widths) - 1)
    each = torch.arange(len(rows))[:, None]
    found = rows[each, trees.parent[:, 1:], trees.token[:, 1:]].double()
    return torch.cat([torch.ones_like(found[:, :1]), found], 1)
