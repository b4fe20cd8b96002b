"""SpecExec: best-first search over the draft's whole tree, which finds the best tree of the budget."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_whole
from spectheory.search.draft_models import Drafted, DraftModel
from spectheory.search.frontier import ROOT, Frontier


@dataclass(frozen=True)
class SpecExec:
    """The `budget` nodes of highest path probability, found by expanding the best unexpanded nodes in batches.

    What the source says: find the most probable continuations by a parallel shortest-path search. Each iteration
    expands the best nodes that are not yet expanded. The search ends when no new node enters the best `budget`.

    Where it is wrong or ambiguous: the published code stops when no child of the *last batch* enters the best nodes,
    although a node that did not fit into the batch may have a child that does. The code also limits the number of
    iterations and of children, and multiplies the probabilities by 0.95 at each level, so its tree is the best one for
    rates that are lower by this factor.

    What is done here: there are no such limits and no such factor. A node is expanded only if it is worth more than the
    last of the best `budget` nodes so far. Once no such node remains, every node still undrafted is worth no more than
    those, and the tree is optimal. The tree is the same for every batch. A batch of 1 needs the fewest draft tokens, a
    batch of `budget` the fewest draft calls.

    Attributes:
        budget: maximum number of drafted nodes, the root not counted.
        batch: maximum number of nodes expanded in one draft call.

    Source: SpecExec (arXiv 2406.02532), tree construction; SALF & TALF, Appendix B, Theorems 2 and 3.
    """

    budget: int
    batch: int = 32

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_whole("batch", self.batch, 1, ": batch is the maximum number of nodes of a draft call")

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, queue = Frontier(draft, self.budget), [ROOT]
        while True:
            floor = frontier.floor()
            batch = [node for node in queue[: self.batch] if node.probability > floor]
            if not batch:
                return frontier.drafted()
            children = frontier.expand(batch, fanout=self.budget, most=self.budget, least=floor)
            queue = sorted(queue[len(batch) :] + children)
