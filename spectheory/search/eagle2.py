"""EAGLE-2: beam search layer by layer, then the best nodes of all layers."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_whole
from spectheory.search.draft_models import Drafted, DraftModel
from spectheory.search.frontier import ROOT, Frontier


@dataclass(frozen=True)
class Eagle2:
    """Beam search with a global re-rank.

    What the source says: in the last layer, expand the top_k nodes of highest path probability, with top_k children
    each. After `depth` layers, keep the `budget` best nodes of all layers. Of equal nodes the shallower is kept, so
    that they form a tree.

    Where it is wrong or ambiguous: a node outside the beam is never expanded, however good it is. All layers are
    drafted, even when no further node can enter the tree. The tree is sure to be the optimum only if top_k and depth
    are at least the budget, and then most layers change nothing. The published code selects nodes with torch.topk,
    which breaks ties arbitrarily, and finds parents with searchsorted: if a parent loses a tie, its child is silently
    attached to another node. The published code also counts differently: its `total_token` is budget + 1, and its
    `depth` is depth - 1.

    What is done here: Ties go to the smaller depth, then to the lower rank. Tokens of probability 0 are not
    drafted, so a beam may be narrower than top_k; an empty layer ends the search. At most top_k + (depth - 1) top_k^2
    nodes are drafted. A layer keeps only its best max(top_k, budget) children, because the others could never be used.

    Attributes:
        top_k: number of nodes expanded in a layer, and number of children of each.
        depth: number of layers of drafted nodes; each layer is one draft call.
        budget: maximum number of drafted nodes, the root not counted.

    Source: EAGLE-2 (arXiv 2406.16858), Section 4; SALF & TALF, Appendix B.
    """

    top_k: int
    depth: int
    budget: int

    def __post_init__(self) -> None:
        check_whole("top_k", self.top_k, 1, ": a chain has 1")
        check_whole("depth", self.depth, 1, ": one layer of drafted nodes is depth 1; the published code calls it 0")
        check_budget(self.budget)

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, layer = Frontier(draft, self.budget), [ROOT]
        for _ in range(self.depth):
            layer = frontier.expand(layer[: self.top_k], fanout=self.top_k, most=max(self.top_k, self.budget))
            if not layer:
                break
        return frontier.drafted()
