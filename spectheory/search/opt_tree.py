"""OPT-Tree: draft layer by layer, keep the nodes of highest path probability, stop when a layer adds too little.

E_sub is the sum of the path probabilities of the best drafted nodes within the budget, the root not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from spectheory.core.checks import check_budget, check_not_negative
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.frontier import ROOT, Frontier, Node


def layers(frontier: Frontier, budget: int) -> Iterator[tuple[list[Node], float]]:
    """Draft one layer after the other, and yield each layer with E_sub, the worth of the best tree so far.

    A layer is the `budget` best children of the layer before. The iteration ends at depth `budget` or after an empty
    layer. No layer raises E_sub by more than the layer before did. The reason: any k nodes of a layer have at most k
    parents, sum to at most as much as these parents, and displace nodes that are worth at least as much as the nodes
    that the parents displaced.
    """
    layer = [ROOT]
    for _ in range(budget):
        layer = frontier.expand(layer, fanout=budget, most=budget)
        yield layer, frontier.worth
        if not layer:
            return


def most_gain(frontier: Frontier, budget: int, layer: list[Node]) -> float:
    """An upper bound of what the layer after `layer`, the last layer drafted, can add to E_sub.

    The bound is the maximum over k of (the sum of the k best probabilities in the last layer) - (the sum of the k
    smallest probabilities in the best tree so far, where an unused place of the budget counts as 0). The reason: if k
    nodes of the next layer enter the tree, they have at most k parents and sum to at most as much as these parents,
    because siblings exclude each other. They displace k nodes or fill unused places.
    """
    kept = [node.probability for node in frontier.nodes[1 : budget + 1]]
    worst = [0.0] * (budget - len(kept)) + kept[::-1]
    gains = accumulate(node.probability - least for node, least in zip(layer, worst, strict=False))
    return max([0.0, *gains])


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
    drafted nor expanded. With threshold 0 the tree is the optimum of its budget (proofs_check, claim O-ALG1).

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
        frontier, before = Frontier(draft, self.budget), 0.0
        for _, worth in layers(frontier, self.budget):
            if not worth - before > self.threshold:
                break
            before = worth
        return frontier.drafted()


@dataclass(frozen=True)
class OptTreeAtCost:
    """OPT-Tree that stops as soon as another layer would not raise the tokens per second.

    What the source says: the threshold "should be controlled between mu and 1", where mu is the draft-to-target time
    ratio.

    What is done here: a cycle of s layers emits 1 + E_sub tokens in the time of 1 + mu s target forwards. No layer
    raises E_sub by more than the layer before did, so the tokens per time rise up to some s and never again. The first
    layer that does not raise them is the last layer. If `most_gain` shows in advance that a layer cannot raise them,
    this layer is not drafted. Otherwise it has been drafted, and its nodes are used. At least one layer is drafted.

    The stop is exact if all contexts are like this one. Over a mixture of contexts, the layers that pay are those that
    gain more than mu * speed, where speed is the tokens per target time of the whole run. For a mixture use
    `OptTree(budget, threshold=mu * speed)`, which drafts one layer more.

    Attributes:
        budget: maximum number of drafted nodes.
        draft_over_target: mu, the seconds of a draft forward divided by the seconds of a target forward.

    Source: OPT-Tree (arXiv 2406.17276), Section 3; the stop is ours.
    """

    budget: int
    draft_over_target: float

    def __post_init__(self) -> None:
        check_budget(self.budget)
        repair = ": divide the seconds of a draft forward by the seconds of a target forward"
        check_not_negative("draft_over_target", self.draft_over_target, repair)

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, before = Frontier(draft, self.budget), 1.0
        for depth, (layer, worth) in enumerate(layers(frontier, self.budget), start=1):
            speed = (1 + worth) / (1 + self.draft_over_target * depth)
            most = 1 + worth + most_gain(frontier, self.budget, layer)
            if not speed > before or not most / (1 + self.draft_over_target * (depth + 1)) > speed:
                break
            before = speed
        return frontier.drafted()
