"""SALF: best-first search that stops when the nodes to expand next have little probability in total."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_not_negative, check_whole
from spectheory.search.draft_models import Drafted, DraftModel
from spectheory.search.frontier import ROOT, Frontier, total


@dataclass(frozen=True)
class Salf:
    """Algorithm 2 of SALF & TALF.

    What the source says: move the `batch` best nodes of a queue into the tree. Select those that are worth more than
    the last node of a full tree. If their probabilities sum to less than the threshold, stop; else expand them in one
    draft call, and put their children into the queue. The result is the tree.

    Where it is wrong or ambiguous: the source calls threshold 0 the optimal search. But an empty sum is not below 0, so
    the algorithm never ends. It takes the root a second time, although the root is in the tree from the start. N counts
    the root. Definition B.3 excludes a draft probability of 1. If there is one, nodes can have equal probability, and a
    full tree without a rule for such ties can drop a parent and keep its child. Theorem 1 says that the sums fall
    strictly. That needs probabilities without ties, more than B of them above 0; in general the sums never rise. After
    an early stop the tree is not full, although the queue holds children that have already been drafted.

    What is done here: the search also ends when there is no node to expand, so threshold 0 is the optimal search. The
    root is taken once. Ties go to the smaller depth, then to the lower rank. Tokens of probability 0 are not
    drafted. With `fill`, nodes of the queue fill the tree up to the budget after the stop, without a draft call.

    Attributes:
        budget: N - 1, maximum number of drafted nodes, the root not counted.
        threshold: th. Above 1 nothing is drafted, because the probability of the root is 1.
        batch: B, maximum number of nodes taken at once.
        fill: whether drafted nodes that are still in the queue at the stop may enter the tree.

    Source: SALF & TALF, Algorithm 2.
    """

    budget: int
    threshold: float = 0.6
    batch: int = 10
    fill: bool = False

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_not_negative("threshold", self.threshold, ": with 0, the search finds the best tree")
        check_whole("batch", self.batch, 1, ": batch is the maximum number of nodes of a draft call")

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, queue, tree = Frontier(draft, self.budget), [ROOT], []
        while True:
            batch, queue = queue[: self.batch], queue[self.batch :]
            tree = sorted(tree + batch)
            floor = frontier.floor(tree)
            promising = [node for node in batch if node.probability > floor]
            if not promising or total(promising) < self.threshold:
                return frontier.drafted(None if self.fill else tree)
            children = frontier.expand(promising, fanout=self.budget, most=self.budget, least=frontier.floor())
            queue = sorted(queue + children)
