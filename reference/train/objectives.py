"""The losses of a head at each step of its training, on batches of the target's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from reference.heads import Head, HeadStep
from reference.losses import BeamTrees, ChainLoss, Gto, Loss, Pass, Talf, beam_trees, unroll, unroll_tree
from reference.losses.gto import accepted_tokens
from reference.train.forests import HeadForest, TargetForest, at_rows, softmax
from reference.train.own_texts import OwnTexts, TextBatch
from spectheory import Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.gto import draft_tree_reward


class Lesson(NamedTuple):
    """A batch as the losses read it. Row r has read token r + 1 and predicts token r + 2.

    The target's hidden states are computed in each step.

    Attributes:
        states: (B, L - 1, states x D) the target's hidden states at token r that the head reads.
        tokens: (B, L - 1) token r + 1.
        following: (B, L - 1, D) the target's last hidden state at token r + 1.
        target: (B, L - 1, V) the target's distribution of token r + 2 at temperature 1.
        mask: (B, L - 1) whether token r + 2 is the target's own.
        cache: the target's keys and values at all tokens.
    """

    states: Tensor
    tokens: Tensor
    following: Tensor
    target: Tensor
    mask: Tensor
    cache: Any


@dataclass(frozen=True)
class Batching:
    """Which `texts` each step reads: `rows` of them, in an order that changes each time all texts have been read."""

    texts: OwnTexts
    rows: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("rows", self.rows, 1, most=self.texts.rows)

    def rng(self, step: int) -> np.random.Generator:
        """The random numbers of a step, apart from those that order the texts."""
        return np.random.default_rng([self.seed, 1, step])

    def batch(self, step: int, device: torch.device) -> TextBatch:
        """The texts of a step."""
        epoch, place = divmod(step, self.texts.rows // self.rows)
        order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.texts.rows)
        return self.texts.batch(order[place * self.rows : (place + 1) * self.rows].tolist(), device)


class ChainObjective:
    """A loss that follows the text, pass by pass, of a head that is attached to its target."""

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: ChainLoss) -> None:
        self.head, self.target, self.batching, self.loss = head, target, batching, loss
        batching.texts.require_target(target)

    def __call__(self, step: int) -> Tensor:
        lesson = self.lesson(self.batching.batch(step, self.head.device))
        return self.of_passes(self.passes(self.head, lesson), lesson)

    def lesson(self, batch: TextBatch) -> Lesson:
        """A batch as the losses read it."""
        model: Any = self.target
        with torch.no_grad():
            out = model.base_model(batch.tokens, output_hidden_states=True, use_cache=True)
            states = out.hidden_states
            following = states[-1][:, 1:]
            target = softmax(model.get_output_embeddings()(following))
        read = torch.cat([states[tap][:, :-1] for tap in self.head.taps], -1)
        return Lesson(read, batch.tokens[:, 1:], following, target, pad(batch.own[:, 2:], (0, 1)), out.past_key_values)

    def passes(self, head: Head, lesson: Lesson) -> list[Pass]:
        """The passes of a head along the text."""
        loss = self.loss
        return unroll(HeadStep(head), head.fuse(lesson.states), lesson.tokens, loss.passes, detached=loss.detached)

    def of_passes(self, passes: Sequence[Pass], lesson: Lesson) -> Tensor:
        """The loss of one batch, of which the passes are known."""
        target, counts = self.drafted(lesson.target)
        return self.loss(passes, target, lesson.mask & counts, target_features=lesson.following)

    def drafted(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """The target's probabilities of the draft's vocabulary, and where its likeliest token is in this vocabulary.

        As in EAGLE-3's published code, only these positions count.
        """
        if (tokens := self.head.token_ids) is None:
            return target, torch.ones_like(target[..., 0], dtype=torch.bool)
        return target[..., tokens], torch.isin(target.argmax(-1), tokens)


class TreeObjective(ChainObjective):
    """TALF: the target builds a tree at some roots of each text, drawn anew at each step."""

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: Talf) -> None:
        super().__init__(head, target, batching, loss)  # type: ignore[arg-type]
        self.tree_loss = loss

    def __call__(self, step: int) -> Tensor:
        batch, loss = self.batching.batch(step, self.head.device), self.tree_loss
        lesson = self.lesson(batch)
        places, kept = chosen_places(lesson.mask, loss.roots, self.batching.rng(step))
        forest = HeadForest(self.head, self.head.fuse(lesson.states), lesson.tokens, places)
        expand = TargetForest(self.target, batch.tokens, places + 1, at_rows(lesson.target, places), lesson.cache)
        trees = beam_trees(expand, forest.root_tokens, loss.k, loss.depth)
        logits = unroll_tree(forest, trees)
        target, counts = self.drafted(trees.target)
        return loss(logits, replace(trees, target=target, present=trees.present & counts), kept.flatten())


class GroupObjective(ChainObjective):
    """GTO: the rewards of draft trees compared with the rewards of the frozen start, added to the token-level loss.

    The longest accepted sequence follows the text, so its probabilities are those of the passes of the token-level
    loss.
    """

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: Gto, start: Head) -> None:
        super().__init__(head, target, batching, loss.token_loss)
        self.group_loss, self.start = loss, start.requires_grad_(False)

    def __call__(self, step: int) -> Tensor:
        batch, rng, loss = self.batching.batch(step, self.head.device), self.batching.rng(step), self.group_loss
        lesson = self.lesson(batch)
        passes = self.passes(self.head, lesson)
        token_level = self.of_passes(passes, lesson)
        roots, kept = self.groups(lesson.mask, rng)
        if not kept.any():
            return token_level
        following = roots[..., None] + torch.arange(1, loss.depth + 1, device=roots.device)
        text = lesson.tokens.gather(1, following.flatten(1)).view(following.shape)
        rewards, accepted = self.grown(self.head, batch, lesson, roots, text)
        reference_rewards, _ = self.grown(self.start, batch, lesson, roots, text)
        with torch.no_grad():
            base = self.passes(self.start, lesson)
        rows = *(self.on_text(one, roots, text) for one in (passes, base)), accepted, rewards, reference_rewards
        now, then, accepted, rewards, reference_rewards = (
            one.unflatten(1, (-1, loss.group)).flatten(0, 1)[kept.flatten()] for one in rows
        )
        if loss.shuffled:
            order = torch.from_numpy(rng.permuted(np.tile(np.arange(loss.group), (len(rewards), 1)), axis=1))
            order = order.to(rewards.device)
            rewards, reference_rewards = (one.gather(1, order) for one in (rewards, reference_rewards))
        return token_level + loss.weight * loss(now, then, accepted, rewards, reference_rewards)

    def groups(self, mask: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """(B, G m) adjacent rows of G groups in each text, and (B, G) whether their trees end before the text does.

        The groups of Eq. (6) and (7) do not overlap.
        """
        size, needed = self.group_loss.group, self.group_loss.group + self.group_loss.depth
        if mask.shape[1] < needed:
            raise InputError(f"texts must have more than {needed} tokens for these groups, got {mask.shape[1] + 1}")
        windows, kept = chosen_places(mask.unfold(1, needed, size).all(-1), self.group_loss.groups, rng)
        return (windows[..., None] * size + torch.arange(size, device=mask.device)).flatten(1), kept

    def grown(self, head: Head, batch: TextBatch, lesson: Lesson, roots: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards (B, R) of a head's trees, and which of the tokens after each root they hold (B, R, depth)."""
        loss = self.group_loss
        with torch.no_grad():
            forest = HeadForest(head, head.fuse(lesson.states), lesson.tokens, roots)
            grown = beam_trees(forest.distributions, forest.root_tokens, loss.k, loss.depth + 1)
        expand = TargetForest(self.target, batch.tokens, roots + 1, at_rows(lesson.target, roots), lesson.cache)
        p = target_probabilities(expand, grown).cpu().numpy()
        trees = map(Tree, grown.parent.tolist())
        rewards = [draft_tree_reward(tree, row, loss.eta) for tree, row in zip(trees, p, strict=True)]
        accepted = accepted_tokens(grown, text.flatten(0, 1))
        values = torch.tensor(rewards, dtype=torch.float64, device=roots.device)
        return values.view(roots.shape), accepted.view(text.shape)

    def on_text(self, passes: Sequence[Pass], roots: Tensor, text: Tensor) -> Tensor:
        """(B, R, depth) log-probabilities of the tokens of the text after each root."""
        found = []
        for one, tokens in zip(passes, text.unbind(-1), strict=False):
            logits = self.head.on_vocabulary(at_rows(one.logits, roots))
            found.append(logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0])
        return torch.stack(found, -1)


def objective_of(
    loss: Loss, head: Head, target: PreTrainedModel, batching: Batching, start: Head | None = None
) -> ChainObjective:
    """The objective of a loss for a head that is attached to its target; `start` is the frozen start of GTO.

    Raises:
        InputError: another target wrote the texts, or GTO has no start.
    """
    if isinstance(loss, ChainLoss):
        return ChainObjective(head, target, batching, loss)
    if isinstance(loss, Talf):
        return TreeObjective(head, target, batching, loss)
    assert isinstance(loss, Gto)
    if start is None:
        raise InputError("start must be given for the loss gto: it compares with a frozen start")
    return GroupObjective(head, target, batching, loss, start)


def chosen_places(mask: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """(B, R) places drawn without replacement from those that the mask (B, L) keeps, in order, and which are kept.

    Where a text has too few, places that the mask does not keep fill the row.
    """
    count = min(count, mask.shape[1])
    scores = torch.from_numpy(rng.random(mask.shape)).to(mask.device) + mask
    places = scores.topk(count, dim=1).indices.sort(1).values
    return places, mask.gather(1, places)


def target_probabilities(expand: TargetForest, trees: BeamTrees) -> Tensor:
    """(R, N) float64, the target's probability of the token of each node of trees that a draft grew; 1 at the root."""
    rows = expand.at_once(trees, len(trees.widths) - 1)
    each = torch.arange(len(rows), device=rows.device)[:, None]
    found = rows[each, trees.parent[:, 1:], trees.token[:, 1:]].double()
    return torch.cat([torch.ones_like(found[:, :1]), found], 1)
