"""Trees grown anew in each cycle by a search: OPT-Tree, EAGLE-2, SpecExec, SALF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reference.candidates import largest
from reference.drafters.drafter import COMPARED_BUDGET, Drafter, DrafterKind, undrawn
from reference.drafters.model import PathDrafting, TokenPath
from reference.host_arrays import numpy_on_host, to_host
from reference.logits import settle
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft
from spectheory.search import Eagle2, OptTree, Salf, SpecExec

Search = Eagle2 | OptTree | Salf | SpecExec
"""A policy of `spectheory.search`; any other class with `budget` and `grow` works as well."""


@dataclass(frozen=True)
class Searched(Drafter):
    """Drafts the tree that `search` finds with the draft model's probabilities.

    Children are the most probable tokens, so above temperature 0 the verifier must be lossless for `DrawRule.TOP_K`.
    """

    search: Search

    def start(self, pair: Pair, sampling: Sampling) -> PathDrafting:
        return SearchedDrafting(pair, sampling, self.search)


class SearchedDrafting(PathDrafting):
    """Drafts one text by a search, and is the search's draft model. `trusted`: its answers are not checked."""

    trusted = True

    def __init__(self, pair: Pair, sampling: Sampling, search: Search) -> None:
        super().__init__(pair, sampling)
        self.search = search
        self.room = 0

    def expand(self, paths: Sequence[TokenPath]) -> tuple[np.ndarray, np.ndarray]:
        """Tokens for which the context has no room get probability 0."""
        q = numpy_on_host(self.sampling.draft_distribution(self.logits(paths)))
        tokens, probabilities = map(to_host, largest(q, min(self.search.budget, q.shape[1])))
        if np.isnan(probabilities[:, 0]).any():
            settle(self.model.peaks)
        if max(map(len, paths)) >= self.room:
            probabilities[[len(path) >= self.room for path in paths]] = 0
        return tokens, probabilities

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        self.room = room
        found = self.search.grow(self)
        tokens = found.tokens.copy()
        tokens[0] = self.pending[-1]
        return undrawn(found.tree, tokens)


def searches() -> dict[str, Drafter]:
    """The searches that are compared, each with `COMPARED_BUDGET` nodes."""
    return {
        "OPT-Tree": Searched(OptTree(COMPARED_BUDGET, 0.2)),
        "EAGLE-2": Searched(Eagle2(top_k=4, depth=4, budget=COMPARED_BUDGET)),
        "SpecExec": Searched(SpecExec(COMPARED_BUDGET, batch=4)),
        "SALF": Searched(Salf(COMPARED_BUDGET, 0.4, batch=4)),
    }


KIND = DrafterKind(
    compared=lambda sampling, plan: searches(),
    greedy=lambda: map(Searched, (Eagle2(4, 5, 20), SpecExec(1))),
    small=lambda: map(Searched, (OptTree(4, 0.2), Eagle2(2, 2, 4), SpecExec(4, 2), Salf(4, 0.4, 2))),
)
