"""Base classes of draftings with a draft model, whose cache holds the committed text, then the drafted nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reference.cached_head import CachedHead
from reference.cached_model import CachedModel
from reference.cuda_graphs import cached
from reference.drafters.drafter import Drafting
from reference.heads import Head
from reference.logits import Peaks
from reference.models import Pair
from reference.sampling import Sampling

TokenPath = tuple[int, ...]
"""Drafted tokens from the root to a node; () for the root."""


def cached_draft(pair: Pair) -> CachedModel:
    """The draft of a pair, a model or a head, with an empty cache."""
    name, draft = f"draft {pair.names[1]}", pair.require_draft()
    if isinstance(draft, Head):
        return CachedHead(draft, pair.vocab_size, name)
    return cached(draft, pair.vocab_size, name)


class ModelDrafting(Drafting):
    """One text in the draft model or head. `pending` holds the tokens that it has not read yet, the root last."""

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        self.model = cached_draft(pair)
        self.sampling = sampling
        self.pending: list[int] = []
        self.committed = 0

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.model.read(torch.tensor([prompt], device=self.model.device))

    @property
    def taps(self) -> tuple[int, ...]:
        return self.model.head.taps if isinstance(self.model, CachedHead) else ()

    def observe(self, states: Tensor) -> None:
        if isinstance(self.model, CachedHead):
            self.model.observe(states)

    def peaks(self) -> list[Peaks]:
        return [self.model.peaks]

    def root_logits(self, pending: Tensor) -> Tensor:
        """Logits (1, V) of the token after the root, from a forward of the `pending` tokens (1, n)."""
        logits = self.model.forward(pending)[-1:]
        self.committed = self.model.length
        return logits

    def keep(self, offsets: list[int], emitted: list[int]) -> None:
        """Keep the cache rows at `offsets` after the committed text, which hold the first tokens of `emitted`.

        A draft head keeps none of them and reads all tokens of `emitted` anew, see `CachedHead`.
        """
        kept = self.model.keep(self.committed, offsets)
        self.pending = emitted[kept:]


class PathDrafting(ModelDrafting):
    """One text whose trees are grown node by node: any node may be expanded after its parent.

    `slots` has the cache row of each expanded node, counted from the first row after the text; the root's is -1.
    """

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        super().__init__(pair, sampling)
        self.slots: dict[TokenPath, int] = {(): -1}
        self.rows = self.model.rows()

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        if self.committed:
            prefixes = (tuple(emitted[:length]) for length in range(1, len(emitted)))
            self.keep([self.slots[prefix] for prefix in prefixes if prefix in self.slots], emitted)
        else:
            self.pending = emitted
        self.slots = {(): -1}

    def logits(self, paths: Sequence[TokenPath]) -> Tensor:
        """Logits (P, V) after P distinct paths, from one forward: the root alone, or children of expanded nodes."""
        if not paths[0]:
            return self.root_logits(self.model.fed(self.pending))
        first = len(self.slots) - 1
        self.rows.add([self.slots[path[:-1]] for path in paths], first)
        for slot, path in enumerate(paths, first):
            self.slots[path] = slot
        return self.model.forward_tree(self.model.fed([path[-1] for path in paths]), self.committed, self.rows, first)
