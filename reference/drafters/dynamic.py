"""Drafts grown by a search over the draft's own probabilities: OPT-Tree, EAGLE-2, SpecExec, SALF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reference.candidates import largest
from reference.drafters.drafter import Drafter
from reference.drafters.model import PathDrafting, TokenPath
from reference.handed import fetched, handed
from reference.logits import settle
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule
from spectheory.search import Drafted, DraftModel


class Search(Protocol):
    """A policy of `spectheory.search`, such as `Eagle2`."""

    @property
    def budget(self) -> int:
        """Most drafted nodes."""
        ...

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        ...


@dataclass(frozen=True)
class Searched(Drafter):
    """What `search` finds best by the draft's probabilities, with the draft model as its `expand(paths)`.

    Children are the most probable tokens, so that sampled text needs a verifier for DrawRule.TOP_K.
    """

    search: Search

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> PathDrafting:
        """See Drafter.start."""
        return SearchedDrafting(pair, sampling, self.search)


class SearchedDrafting(PathDrafting):
    """A text drafted by a search, which trusts its draft model."""

    trusted = True

    def __init__(self, pair: Pair, sampling: Sampling, search: Search) -> None:
        super().__init__(pair, sampling)
        self.search = search
        self.room = 0

    def expand(self, paths: Sequence[TokenPath]) -> tuple[np.ndarray, np.ndarray]:
        """See spectheory.search.DraftModel.expand; below the last node that fits the context nothing is probable."""
        law = handed(self.sampling.draft_law(self.logits(paths)))
        tokens, probabilities = map(fetched, largest(law, min(self.search.budget, law.shape[1])))
        if np.isnan(probabilities[:, 0]).any():
            settle(self.model.peaks)
        if max(map(len, paths)) >= self.room:
            probabilities[[len(path) >= self.room for path in paths]] = 0
        return tokens, probabilities

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow."""
        self.room = room
        found = self.search.grow(self)
        tokens = found.tokens.copy()
        tokens[0] = self.pending[-1]
        return Draft._unchecked(found.tree, tokens, [None] * len(tokens), found.tree.child_lists, DrawRule.TOP_K)
