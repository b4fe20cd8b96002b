"""EAGLE-2: a beam in each layer, and the best nodes of all layers at the end."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_whole
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.frontier import ROOT, Frontier


@dataclass(frozen=True)
class Eagle2:
    """Beam search with a global re-rank.

    What the source says: expand the top_k nodes of highest path probability of the last layer, with top_k children
    each; after `depth` layers keep the `budget` best of all nodes, ties to the shallower, so that they form a tree.

    Where it is wrong or ambiguous: a node outside the beam is never expanded, however good, and all layers are
    drafted even where no further node can enter: only where top_k and depth are at least the budget is the optimum
    sure, and there most layers change nothing. The published code selects with torch.topk, which breaks ties
    anyhow, and finds parents by searchsorted: a node whose parent lost a tie is silently hung below another. It
    counts otherwise too: its `total_token` is budget + 1, its `depth` is depth - 1.

    What is done here: ties go to the smaller depth, then to the lower rank; no token of probability 0 is drafted, so
    that a beam may be narrower, and none at all ends the search. The pool is top_k + (depth - 1) top_k^2 nodes; of
    children beyond the best max(top_k, budget) of a layer none could be used, and none is kept.

    Attributes:
        top_k: nodes expanded in a layer, and children of each.
        depth: layers of drafted nodes, each one draft call.
        budget: most drafted nodes, the root not counted.

    Source: EAGLE-2 (arXiv 2406.16858), Section 4; SALF & TALF, Appendix B.
    """

    top_k: int
    depth: int
    budget: int

    def __post_init__(self) -> None:
        check_whole("top_k", self.top_k, 1, ": a chain has 1")
        check_whole("depth", self.depth, 1, ": one layer of drafted nodes is depth 1, depth=0 of the published code")
        check_budget(self.budget)

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, layer = Frontier(draft, self.budget), [ROOT]
        for _ in range(self.depth):
            layer = frontier.expand(layer[: self.top_k], fanout=self.top_k, most=max(self.top_k, self.budget))
            if not layer:
                break
        return frontier.drafted()
