"""SALF: optimal search that stops when the nodes it would expand next carry little probability."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.checks import check_budget, check_not_negative, check_whole
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.frontier import ROOT, Frontier, total


@dataclass(frozen=True)
class Salf:
    """Algorithm 2 of SALF & TALF.

    What the source says: take the `batch` best nodes of a queue into the tree; of them, those worth more than the
    last of a full tree are expanded in one draft call, unless their probabilities sum to less than the threshold:
    then stop. The tree is what was taken.

    Where it is wrong or ambiguous: with threshold 0, which it calls the optimal search, an empty sum is not below 0
    and it never ends. It takes the root, which stands in the tree from the start, a second time. N counts the root.
    Definition B.3 excludes a draft probability of 1; where there is one, a capacity without a tie rule can drop a
    parent and keep its child. Theorem 1, the sums fall strictly, needs probabilities without ties and more of them
    above 0 than B; they never rise. At an early stop the tree is not full though the queue holds paid-for children.

    What is done here: it ends also when nothing is left to expand, so that threshold 0 is the optimal search and
    ends; the root is taken once; ties go to the smaller depth, then to the lower rank; no token of probability 0 is
    drafted. With `fill` what lies in the queue at the stop fills the tree up to the budget, at no draft call.

    Attributes:
        budget: N - 1, most drafted nodes, the root not counted.
        threshold: th; above 1 it drafts nothing, since the root's probability of 1 is below it.
        batch: B, most nodes taken at once.
        fill: whether nodes that were seen but not taken may be in the tree.

    Source: SALF & TALF, Algorithm 2.
    """

    budget: int
    threshold: float = 0.6
    batch: int = 10
    fill: bool = False

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_not_negative("threshold", self.threshold, ": 0 is the optimal search")
        check_whole("batch", self.batch, 1, ": nodes of one draft call")

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
