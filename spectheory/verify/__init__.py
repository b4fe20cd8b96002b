"""Verifiers: which drafted nodes are accepted, and which token is emitted after them."""

from spectheory.core.plugins import plugins
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
    "verifiers",
    "walk",
]

ALL: tuple[Verifier, ...] = (Block(), TreeMonteCarlo(), Traversal(), GreedyMultiPathBlock())
"""All lossless path and tree verifiers of this package, without the node solvers of `spectheory.otlp.ALL`, which
`TopDown` applies to trees, and without `Greedy`, which keeps greedy decoding."""


def verifiers() -> list[Verifier]:
    """The verifiers of `ALL`, then the verifiers that installed packages register as entry points.

    Raises:
        InputError: an entry point cannot be loaded, or is not a Verifier.
    """
    return [*ALL, *plugins("spectheory.verifiers", Verifier)]
