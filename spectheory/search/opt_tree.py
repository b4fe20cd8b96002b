"""OPT-Tree: draft layer by layer, keep the nodes of highest path probability, stop when a layer adds too little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from spectheory.core.checks import check_budget, check_not_negative
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.frontier import ROOT, Frontier, Node


def layers(frontier: Frontier, budget: int) -> Iterator[tuple[list[Node], float]]:
    """Draft one layer after the other, and give each with E_sub, the worth of the best tree so far.

    Each layer is the `budget` best children of the one before; it ends at depth `budget` or at an empty layer. The
    increments of E_sub never grow: to a better tree a layer adds no more than to a worse one, and any k of its nodes
    sum to at most what their parents, k or fewer, sum to, which displace no more than they do.
    """
    layer = [ROOT]
    for _ in range(budget):
        layer = frontier.expand(layer, fanout=budget, most=budget)
        yield layer, frontier.worth
        if not layer:
            return


def most_gain(frontier: Frontier, budget: int, layer: list[Node]) -> float:
    """What the layer below `layer`, the last one drafted, can add to E_sub at most.

    It is the largest, over k, of the sum of the k best probabilities of the last layer less that of the k least of the
    best tree so far, an empty place counting 0. For if k nodes of the next layer enter, they have k parents or fewer,
    and sum to at most what these do, since siblings exclude each other; and k nodes or empty places make way for them.
    """
    kept = [node.probability for node in frontier.nodes[1 : budget + 1]]
    worst = [0.0] * (budget - len(kept)) + kept[::-1]
    gains = accumulate(node.probability - least for node, least in zip(layer, worst, strict=False))
    return max([0.0, *gains])


@dataclass(frozen=True)
class OptTree:
    """Algorithm 1 of OPT-Tree.

    What the source says: draft a layer, the n best children of the layer before; while E_sub, the largest sum of path
    probabilities of n nodes drafted so far, grew by more than the threshold and the depth is below n, draft another;
    keep the n best nodes. n does not count the root.

    Where it is wrong or ambiguous: "the n nodes with the largest p-hat" may orphan a node under ties, since its
    Theorem 3.1, p-hat falls strictly, fails at a draft probability of 1; a threshold above 0 can end before the
    optimum, and the layer whose gain was too small has been paid for, and is used; tokens of probability 0 fill a
    layer. That the threshold belongs between the draft-to-target time ratio mu and 1 needs p-hat to be the acceptance
    rate: then the layers that pay are those that gain more than mu times the tokens per target time of the whole run,
    speculation included, and the algorithm, which sees a gain only after the layer, drafts one more (proofs_check,
    claim O-MU). The default drafts until nothing is gained, as mu is not known here.

    What is done here: ties go to the smaller depth, then to the lower rank; no token of probability 0 is drafted or
    expanded; with threshold 0 the tree is the optimum of its budget (proofs_check, claim O-ALG1).

    Attributes:
        budget: n, most drafted nodes.
        threshold: delta, in tokens: least gain of a layer after which another is drafted, exclusive.

    Source: OPT-Tree (arXiv 2406.17276), Algorithm 1.
    """

    budget: int
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_not_negative("threshold", self.threshold, ": 0 drafts until nothing is gained")

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
    """OPT-Tree with the exact marginal stop: no further layer once tokens per time no longer rise.

    What the source says: the threshold "should be controlled between mu and 1".

    What is done here: with s layers a cycle takes 1 + mu s target forwards and gives 1 + E_sub tokens. Increments of
    E_sub never grow, so that this ratio rises up to some s and then never again: the first layer that does not raise
    it is the last. Where `most_gain` shows beforehand that it cannot, that layer is not drafted; where it does not, the
    layer is paid for and kept. At least one layer is drafted. This takes the context as if all were like it; over a
    mixture of contexts the layers that pay are those that gain more than mu * speed, speed being the tokens per target
    time of the whole run: `OptTree(budget, threshold=mu * speed)` drafts these and one more.

    Attributes:
        budget: most drafted nodes.
        draft_over_target: mu, seconds of a draft forward over seconds of a target forward.

    Source: OPT-Tree (arXiv 2406.17276), Section 3; the stop is ours.
    """

    budget: int
    draft_over_target: float

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_not_negative("draft_over_target", self.draft_over_target, ": seconds of a draft forward over a target's")

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
