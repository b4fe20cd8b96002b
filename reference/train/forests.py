"""Forwards of target and head at the nodes of many trees at once, for losses that learn from trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.heads import Head


class Forest:
    """Masks and positions of trees at R roots in each of B texts, which are grown level by level.

    A node attends to the text up to its root, to its ancestors and to itself. All trees have W nodes in a level.

    Args:
        roots: (B, R) the row of each root in the cache of its text.
        length: number of rows of a text in the cache.
        dtype: type of the mask.

    Attributes:
        depth: depth of the last level, 0 for the roots.
    """

    def __init__(self, roots: Tensor, length: int, dtype: torch.dtype) -> None:
        self.roots, self.dtype, self.depth = roots, dtype, 0
        self.text = torch.arange(length, device=roots.device) <= roots[..., None]
        self.above = torch.zeros((*roots.shape, 1, 0), dtype=torch.bool, device=roots.device)

    def grow(self, parent: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (B, R W) and mask (B, 1, R W, length + all nodes so far) of one more level.

        Args:
            parent: (B, R, W) the place of each node's parent among the nodes of its tree in the level before.
        """
        batch, roots, width = parent.shape
        self.depth += 1
        ancestors = self.above.gather(2, parent[..., None].expand(-1, -1, -1, self.above.shape[-1]))
        own = torch.eye(roots * width, dtype=torch.bool, device=parent.device)
        own = own.view(roots, width, -1).expand(batch, -1, -1, -1)
        self.above = torch.cat([ancestors, own], -1)
        seen = torch.cat([self.text.repeat_interleave(width, 1), self.above.flatten(1, 2)], -1)
        mask = torch.zeros(seen.shape, dtype=self.dtype, device=parent.device)
        mask.masked_fill_(~seen, torch.finfo(self.dtype).min)
        return (self.roots + self.depth).repeat_interleave(width, 1), mask[:, None]


class TargetForest:
    """The target's distributions after paths from many roots, a `TargetForward` for `reference.losses.beam_trees`.

    Args:
        target: the target.
        tokens: (B, L) the texts.
        roots: (B, R) positions of the roots; a path from a root continues the text that ends there.
        known: (B, R, V) float32, the distributions of the token after the roots.
    """

    def __init__(self, target: PreTrainedModel, tokens: Tensor, roots: Tensor, known: Tensor) -> None:
        self.target, self.tokens, self.known = target, tokens, known
        self.forest = Forest(roots, tokens.shape[1], target.dtype)
        self.cache: DynamicCache | None = None
        self.paths = torch.empty(0)

    @torch.no_grad()
    def __call__(self, paths: Tensor) -> Tensor:
        """Distributions (B R, W, V) of the token after each path (B R, W, d); see `TargetForward`."""
        batch, roots, vocabulary = self.known.shape
        before, self.paths = self.paths, paths
        if not paths.shape[2]:
            return self.known.view(batch * roots, 1, vocabulary)
        parent = (paths[:, :, None, :-1] == before[:, None]).all(-1).int().argmax(-1)
        positions, mask = self.forest.grow(parent.reshape(batch, roots, -1))
        model: Any = self.target
        out = model(
            paths[..., -1].reshape(batch, -1),
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._read_text(),
        )
        return softmax(out.logits[..., :vocabulary]).reshape(*paths.shape[:2], vocabulary)

    def _read_text(self) -> DynamicCache:
        """The cache with the rows of the texts, and of the nodes so far."""
        if self.cache is None:
            self.cache = DynamicCache()
            body: Any = self.target.base_model
            body(self.tokens, past_key_values=self.cache)
        return self.cache


class HeadForest:
    """A head's forward at trees on many roots, a `TreeStep` for `reference.losses.unroll_tree`.

    Args:
        head: the head.
        features: (B, L, hidden) the head's features of the target's hidden states, at each position of the texts.
        tokens: (B, L) the token after each of these positions.
        roots: (B, R) the rows of the roots.
    """

    def __init__(self, head: Head, features: Tensor, tokens: Tensor, roots: Tensor) -> None:
        self.head, self.features, self.tokens, self.roots = head, features, tokens, roots
        self.forest = Forest(roots, tokens.shape[1], features.dtype)
        self.cache = DynamicCache()

    @property
    def at_roots(self) -> tuple[Tensor, Tensor]:
        """The features (B R, hidden) and tokens (B R,) of the roots."""
        return _at(self.features, self.roots).flatten(0, 1), self.tokens.gather(1, self.roots).flatten()

    def __call__(self, features: Tensor, tokens: Tensor, parent: Tensor) -> tuple[Tensor, Tensor]:
        """A `TreeStep`. The roots are read with their texts, whose rows the first call computes."""
        batch, count = self.roots.shape
        if not self.forest.depth and (parent < 0).all():
            rows = self.head(self.tokens, self.features, past_key_values=self.cache)
            outputs = _at(rows, self.roots)
        else:
            positions, mask = self.forest.grow(parent.reshape(batch, count, -1))
            outputs = self.head(
                tokens.reshape(batch, -1),
                features.reshape(batch, -1, features.shape[-1]),
                position_ids=positions,
                attention_mask=mask,
                past_key_values=self.cache,
            )
        shape = (*tokens.shape, -1)
        return outputs.reshape(shape), self.head.logits(outputs).reshape(shape)


class HeadPaths:
    """The distributions of a head after paths from many roots, a `TargetForward`: it grows trees as in decoding.

    Args:
        forest: the head at these roots; a new one for each batch.
    """

    def __init__(self, forest: HeadForest) -> None:
        self.forest, self.paths, self.outputs = forest, torch.empty(0), torch.empty(0)

    @torch.no_grad()
    def __call__(self, paths: Tensor) -> Tensor:
        """Distributions (B R, W, V) of the token after each path (B R, W, d); see `TargetForward`."""
        before, self.paths = self.paths, paths
        if not paths.shape[2]:
            features, tokens = self.forest.at_roots
            fed, tokens, parent = features[:, None], tokens[:, None], torch.full((len(paths), 1), -1)
        else:
            parent = (paths[:, :, None, :-1] == before[:, None]).all(-1).int().argmax(-1)
            fed = self.outputs.gather(1, parent[..., None].expand(-1, -1, self.outputs.shape[-1]))
            tokens = paths[..., -1]
        self.outputs, logits = self.forest(fed, tokens, parent)
        return self.forest.head.on_vocabulary(logits).softmax(-1)


def softmax(logits: Tensor) -> Tensor:
    """The softmax over the last dimension, in float32 at least."""
    return logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _at(rows: Tensor, places: Tensor) -> Tensor:
    """Rows (B, R, D) of (B, L, D) at places (B, R)."""
    return rows.gather(1, places[..., None].expand(-1, -1, rows.shape[-1]))
