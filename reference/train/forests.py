"""Forwards of target and head at the nodes of many trees at once, for losses that learn from trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.heads import Head


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
    """

    def __init__(self, target: PreTrainedModel, tokens: Tensor, roots: Tensor, known: Tensor) -> None:
        super().__init__(roots, tokens.shape[1], target.dtype)
        self.target, self.tokens, self.known = target, tokens, known

    @torch.no_grad()
    def __call__(self, tokens: Tensor, parent: Tensor) -> Tensor:
        if (parent < 0).all():
            return self.known.flatten(0, 1)[:, None]
        model: Any = self.target
        if not self.depth:
            model.base_model(self.tokens, past_key_values=self.cache)
        out = model(tokens.reshape(len(self.roots), -1), **self.grow(parent))
        vocabulary = self.known.shape[-1]
        return softmax(out.logits[..., :vocabulary]).reshape(*tokens.shape, vocabulary)


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
