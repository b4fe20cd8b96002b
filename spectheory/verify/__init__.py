"""Verifiers: the distribution of where a draft is left and of the token that follows."""

from spectheory.verify.block import Block
from spectheory.verify.greedy import Greedy
from spectheory.verify.greedy_multi_path import GreedyMultiPathBlock
from spectheory.verify.outcome import Outcome
from spectheory.verify.top_down import TopDown, walk
from spectheory.verify.traversal import Traversal
from spectheory.verify.tree_monte_carlo import TreeMonteCarlo
from spectheory.verify.verifier import Verifier

__all__ = [
    "Block",
    "Greedy",
    "GreedyMultiPathBlock",
    "Outcome",
    "TopDown",
    "Traversal",
    "TreeMonteCarlo",
    "Verifier",
    "walk",
]
