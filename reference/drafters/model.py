"""Drafting with a draft model: its cache holds the committed text and, behind it, what this cycle drafted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reference.cached import CachedModel
from reference.drafters.drafter import Drafting
from reference.models import Pair
from reference.sampling import Sampling

TokenPath = tuple[int, ...]
"""Drafted tokens from the root to a node, () for the root."""


class ModelDrafting(Drafting):
    """A text in the draft model. `pending` are committed tokens that it has not seen, the root last."""

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        self.model = CachedModel(pair.draft, pair.vocab_size)
        self.sampling = sampling
        self.pending: list[int] = []
        self.committed = 0

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        self.model.forward(torch.tensor(prompt, device=self.model.device))
        self.model.seconds = 0.0

    @property
    def seconds(self) -> float:
        """See Drafting.seconds."""
        return self.model.seconds

    def root_logits(self) -> Tensor:
        """(1, V) behind the root, from a forward of what is pending."""
        logits = self.model.forward(torch.tensor(self.pending, device=self.model.device))[-1:]
        self.committed = self.model.length
        return logits

    def keep(self, offsets: list[int], emitted: list[int]) -> None:
        """Keep those of the emitted tokens that lie in the cache, `offsets` behind the committed ones."""
        self.model.keep(self.committed, offsets)
        self.pending = emitted[len(offsets) :]


class PathDrafting(ModelDrafting):
    """Drafts that grow as they go: any node may be expanded once its parent was.

    `slots` are the places in the cache of an expanded node and of those on the way to it, below the root.
    """

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        super().__init__(pair, sampling)
        self.slots: dict[TokenPath, tuple[int, ...]] = {}

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        if self.committed:
            prefixes = (tuple(emitted[:length]) for length in range(1, len(emitted)))
            slots = [self.slots[prefix][-1] for prefix in prefixes if prefix in self.slots]
            self.keep([slot - self.committed for slot in slots], emitted)
        else:
            self.pending = emitted
        self.slots = {}

    def logits(self, paths: Sequence[TokenPath]) -> Tensor:
        """(P, V) behind distinct paths, from one forward: the root alone, or nodes whose parents were expanded."""
        if not paths[0]:
            return self.root_logits()
        rows, columns = [], []
        for row, path in enumerate(paths):
            self.slots[path] = (*self.slots.get(path[:-1], ()), self.model.length + row)
            rows += [row] * len(path)
            columns += self.slots[path]
        attend = np.zeros((len(paths), self.model.length + len(paths)), bool)
        attend[:, : self.committed] = True
        attend[rows, columns] = True
        tokens = torch.tensor([path[-1] for path in paths], device=self.model.device)
        positions = torch.tensor([self.committed + len(path) - 1 for path in paths], device=self.model.device)
        return self.model.forward_tree(tokens, positions, self.model.mask(attend))
