"""SpecExec: best-first search over the draft's whole tree, the optimum that the other policies are measured by."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_whole
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.frontier import ROOT, Frontier


@dataclass(frozen=True)
class SpecExec:
    """The `budget` nodes of highest path probability, found by expanding the best unexpanded nodes in batches.

    What the source says: take the most probable continuations, as a shortest-path search in parallel; each iteration
    expands the best nodes not yet expanded, and it ends when no new one enters the best `budget`.

    Where it is wrong or ambiguous: the published code stops when no child of the *last batch* enters, though a node
    that did not fit into the batch may still have one that does; it caps the iterations and the children of a node,
    and multiplies each probability by 0.95 a level, so that its tree is best for rates that are so much lower.

    What is done here: nothing is capped, nothing decays. A node is expanded only if it is worth more than the last of
    the best `budget` nodes seen; when there is no such node, none unseen is worth more, and the tree is the optimum,
    for every batch. A batch of 1 spends the fewest draft tokens, a batch of the budget the fewest calls.

    Attributes:
        budget: most drafted nodes, the root not counted.
        batch: most nodes expanded in one draft call.

    Source: SpecExec (arXiv 2406.02532), tree construction; SALF & TALF, Appendix B, Theorems 2 and 3.
    """

    budget: int
    batch: int = 32

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_whole("batch", self.batch, 1, ": nodes of one draft call")

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


def distance_to_optimum(drafted: Drafted, draft: DraftModel) -> float:
    """Tokens per cycle by which a tree misses the best one of the budget that its policy was allowed; at least 0.

    The draft is taken as it answers: children beyond its columns are not there.
    """
    best = SpecExec(drafted.budget, batch=drafted.budget).grow(draft)
    return max(best.expected - drafted.expected, 0.0)
