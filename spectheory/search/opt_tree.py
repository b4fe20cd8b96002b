"""OPT-Tree: draft layer by layer, keep the nodes of highest path probability, stop when a layer adds too little.

E_sub is the sum of the path probabilities of the best drafted nodes within the budget, the root not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_not_negative
from spectheory.search.draft_models import Drafted, DraftModel
from spectheory.search.frontier import ROOT, Frontier


@dataclass(frozen=True)
class OptTree:
    """Algorithm 1 of OPT-Tree.

    What the source says: a layer is the n best children of the layer before. E_sub is the largest sum of path
    probabilities of n drafted nodes. Draft another layer as long as the last one raised E_sub by more than the
    threshold and the depth is below n. Keep the n best nodes. n does not count the root.

    Where it is wrong or ambiguous: "the n nodes with the largest p-hat" may keep a node without its parent if
    probabilities are equal. Theorem 3.1 excludes this (p-hat falls strictly along a path), but it fails for a draft
    probability of 1. A threshold above 0 can stop before the optimum; the last layer, whose gain was too small, has
    been drafted by then and is used. Tokens of probability 0 may fill a layer.

    The source puts the threshold between mu, the draft-to-target time ratio, and 1. If p-hat is the acceptance rate,
    the layers that pay are those that gain more than mu times the tokens per target time of the whole run, speculation
    included. The algorithm sees a gain only after the layer, so it drafts one layer more (proofs_check, claim O-MU).
    mu is not known here, so the default drafts until a layer gains nothing.

    What is done here: Ties go to the smaller depth, then to the lower rank. Tokens of probability 0 are neither
    drafted nor expanded. No layer raises E_sub by more than the layer before did: any k nodes of a layer have at most
    k parents, sum to at most as much as these, and displace nodes that are worth at least as much as those that the
    parents displaced. So with threshold 0 the tree is the optimum of its budget (proofs_check, claim O-ALG1).

    Attributes:
        budget: n, maximum number of drafted nodes.
        threshold: delta, in tokens per cycle. Another layer is drafted only after a layer that gained more than this.

    Source: OPT-Tree (arXiv 2406.17276), Algorithm 1.
    """

    budget: int
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_not_negative("threshold", self.threshold, ": with 0, layers are drafted until one gains nothing")

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, layer, before = Frontier(draft, self.budget), [ROOT], 0.0
        for _ in range(self.budget):
            layer = frontier.expand(layer, fanout=self.budget, most=self.budget)
            if not layer or not frontier.worth - before > self.threshold:
                break
            before = frontier.worth
        return frontier.drafted()
