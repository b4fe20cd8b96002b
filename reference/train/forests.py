"""Forwards of target and head at the nodes of many trees at once, for losses that learn from trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel

from reference.heads import Head
from reference.losses.talf import BeamTrees


class Forest:
    """Masks and positions of trees at R roots in each of B texts, which are grown level by level.

    A node attends to the text up to its root, to its ancestors and to itself. All trees have W nodes in a level. Trees
    are numbered text by text, B R in all.

    Args:
        roots: (B, R) the row of each root in the cache of its text.
        length: number of rows of a text in the cache.
        dtype: type of the mask.
    """

    def __init__(self, roots: Tensor, length: int, dtype: torch.dtype) -> None:
        self.roots, self.dtype, self.depth = roots, dtype, 0
        self.text = torch.arange(length, device=roots.device) <= roots[..., None]
        self.above = torch.zeros((*roots.shape, 1, 0), dtype=torch.bool, device=roots.device)
        self.cache = DynamicCache()

    def grow(self, parent: Tensor) -> dict[str, Any]:
        """The options of a forward that computes one more level.

        Args:
            parent: (B R, W) the place of each node's parent among the nodes of its tree in the level before.
        """
        (batch, roots), width = self.roots.shape, parent.shape[1]
        self.depth += 1
        places = parent.view(batch, roots, width, 1).expand(-1, -1, -1, self.above.shape[-1])
        own = torch.eye(roots * width, dtype=torch.bool, device=parent.device)
        own = own.view(roots, width, -1).expand(batch, -1, -1, -1)
        self.above = torch.cat([self.above.gather(2, places), own], -1)
        seen = torch.cat([self.text.repeat_interleave(width, 1), self.above.flatten(1, 2)], -1)
        mask = torch.zeros(seen.shape, dtype=self.dtype, device=parent.device)
        mask.masked_fill_(~seen, torch.finfo(self.dtype).min)
        positions = (self.roots + self.depth).repeat_interleave(width, 1)
        return {"position_ids": positions, "attention_mask": mask[:, None], "past_key_values": self.cache}


class TargetForest(Forest):
    """The target's distributions at the nodes of trees, a `TreeForward`.

    Args:
        target: the target.
        tokens: (B, L) the texts.
        roots: (B, R) positions of the roots; a tree continues the text that ends with its root.
        known: (B, R, V) float32, the distributions of the token after the roots.
        cache: the target's keys and values at the texts; rows after them are dropped.
    """

    def __init__(self, target: PreTrainedModel, tokens: Tensor, roots: Tensor, known: Tensor, cache: Any) -> None:
        super().__init__(roots, tokens.shape[1], target.dtype)
        self.target, self.known, self.cache = target, known, cache
        if after := cache.get_seq_length() - tokens.shape[1]:
            cache.crop(-after)

    @torch.no_grad()
    def __call__(self, tokens: Tensor, parent: Tensor) -> Tensor:
        if (parent < 0).all():
            return self.known.flatten(0, 1)[:, None]
        model: Any = self.target
        out = model(tokens.reshape(len(self.roots), -1), **self.grow(parent))
        vocabulary = self.known.shape[-1]
        return softmax(out.logits[..., :vocabulary]).reshape(*tokens.shape, vocabulary)

    @torch.no_grad()
    def at_once(self, trees: BeamTrees, levels: int) -> Tensor:
        """(B R, N, V) the distributions at the first `levels` levels of trees that are there, by one forward."""
        known, spans = self.known.flatten(0, 1)[:, None], [trees.level(depth) for depth in range(1, levels)]
        if not spans:
            return known
        grown = [self.grow(trees.parent[:, one] - sum(trees.widths[:above])) for above, one in enumerate(spans)]
        tokens = [trees.token[:, one].reshape(len(self.roots), -1) for one in spans]
        masks, least = [options["attention_mask"] for options in grown], torch.finfo(self.dtype).min
        mask = torch.cat([pad(one, (0, masks[-1].shape[-1] - one.shape[-1]), value=least) for one in masks], 2)
        where: Any = grown[-1] | {"position_ids": torch.cat([options["position_ids"] for options in grown], 1)}
        rows = softmax(
            self.target(torch.cat(tokens, 1), **where | {"attention_mask": mask}).logits[..., : known.shape[-1]]
        )
        parts = rows.split([one.shape[1] for one in tokens], 1)
        return torch.cat([known, *(one.reshape(len(known), -1, known.shape[-1]) for one in parts)], 1)


class HeadForest(Forest):
    """A head's logits at the nodes of trees, a `TreeForward`: it reads its own outputs at the parents, as in decoding.

    Args:
        head: the head.
        features: (B, L, hidden) the head's features of the target's hidden states, at each position of the texts.
        tokens: (B, L) the token after each of these positions.
        roots: (B, R) the rows of the roots.
    """

    def __init__(self, head: Head, features: Tensor, tokens: Tensor, roots: Tensor) -> None:
        super().__init__(roots, tokens.shape[1], features.dtype)
        self.head, self.features, self.tokens = head, features, tokens
        self.outputs = torch.empty(0)

    @property
    def root_tokens(self) -> Tensor:
        """(B R,) the tokens of the roots."""
        return self.tokens.gather(1, self.roots).flatten()

    def __call__(self, tokens: Tensor, parent: Tensor) -> Tensor:
        if (parent < 0).all():  # the roots are read with their texts
            rows = self.head(self.tokens, self.features, past_key_values=self.cache)
            self.outputs = at_rows(rows, self.roots).flatten(0, 1)[:, None]
        else:
            batch, width = len(self.roots), self.outputs.shape[-1]
            fed = at_rows(self.outputs, parent).reshape(batch, -1, width)
            outputs = self.head(tokens.reshape(batch, -1), fed, **self.grow(parent))
            self.outputs = outputs.reshape(*tokens.shape, width)
        return self.head.logits(self.outputs)

    @torch.no_grad()
    def distributions(self, tokens: Tensor, parent: Tensor) -> Tensor:
        """The distributions over all tokens of the target, with which the head grows trees of its own."""
        return self.head.on_vocabulary(self(tokens, parent)).softmax(-1)


def softmax(logits: Tensor) -> Tensor:
    """The softmax over the last dimension, in float32 at least."""
    return logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def at_rows(values: Tensor, places: Tensor) -> Tensor:
    """(B, R, D) rows of (B, L, D) at places (B, R)."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[-1]))
