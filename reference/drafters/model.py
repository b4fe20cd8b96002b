"""Drafting with a draft model: its cache holds the committed text, then what this cycle drafted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reference.cached_model import CachedModel
from reference.drafters.drafter import Drafting
from reference.logits import Peaks
from reference.models import Pair
from reference.sampling import Sampling

TokenPath = tuple[int, ...]
"""Drafted tokens from the root to a node, () for the root."""


class ModelDrafting(Drafting):
    """A text in the draft model. `pending` are the committed tokens that are not in its cache yet, the root last."""

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        self.model = CachedModel(pair.draft, pair.vocab_size, f"draft {pair.names[1]}")
        self.sampling = sampling
        self.pending: list[int] = []
        self.committed = 0

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        self.model.forward(torch.tensor([prompt], device=self.model.device))

    def peaks(self) -> list[Peaks]:
        """See Drafting.peaks."""
        return [self.model.peaks]

    def fed(self, tokens: Sequence[int]) -> Tensor:
        """(1, n) tokens on the model's device; NumPy reads a list in less time than torch."""
        return torch.from_numpy(np.array([tokens])).to(self.model.device)

    def pending_tokens(self) -> Tensor:
        """(1, n) pending tokens on the model's device."""
        return self.fed(self.pending)

    def root_logits(self, pending: Tensor) -> Tensor:
        """(1, V) logits of the token after the root, from a forward of the pending tokens."""
        logits = self.model.forward(pending)[-1:]
        self.committed = self.model.length
        return logits

    def keep(self, offsets: list[int], emitted: list[int]) -> None:
        """Keep the emitted tokens that are in the cache, `offsets` after the committed ones."""
        self.model.keep(self.committed, offsets)
        self.pending = emitted[len(offsets) :]


class PathDrafting(ModelDrafting):
    """Drafts that grow as they go: any node may be expanded once its parent was.

    `slots` are the places of the expanded nodes in the cache, counted from the end of the text; the root's is -1.
    """

    def __init__(self, pair: Pair, sampling: Sampling) -> None:
        super().__init__(pair, sampling)
        self.slots: dict[TokenPath, int] = {(): -1}
        self.rows = self.model.rows()

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        if self.committed:
            prefixes = (tuple(emitted[:length]) for length in range(1, len(emitted)))
            self.keep([self.slots[prefix] for prefix in prefixes if prefix in self.slots], emitted)
        else:
            self.pending = emitted
        self.slots = {(): -1}

    def logits(self, paths: Sequence[TokenPath]) -> Tensor:
        """(P, V) logits after distinct paths, from one forward: the root alone, or nodes with expanded parents."""
        if not paths[0]:
            return self.root_logits(self.pending_tokens())
        first = len(self.slots) - 1
        self.rows.add([self.slots[path[:-1]] for path in paths], first)
        for slot, path in enumerate(paths, first):
            self.slots[path] = slot
        return self.model.forward_tree(self.fed([path[-1] for path in paths]), self.committed, self.rows, first)
