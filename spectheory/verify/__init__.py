"""Verifiers: which drafted nodes are accepted, and which token is emitted after them."""

from spectheory.core.errors import InputError
from spectheory.core.plugins import plugins
from spectheory.otlp import solvers
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
    "name_of",
    "verifier_of",
    "verifiers",
    "walk",
]

ALL: tuple[Verifier, ...] = (Block(), TreeMonteCarlo(), Traversal(), GreedyMultiPathBlock())
"""All lossless path and tree verifiers of this package, without the node solvers of `spectheory.otlp.ALL`, which
`TopDown` applies to trees, and without `Greedy`, which keeps greedy decoding."""


def name_of(verifier: Verifier) -> str:
    """The name of a verifier: its class, or the class of the node solver that `TopDown` lifts to trees."""
    return type(verifier.solver if type(verifier) is TopDown else verifier).__name__


def verifier_of(name: str) -> Verifier:
    """The verifier of this name, in its default settings, as `name_of` gives it.

    Raises:
        InputError: no verifier or node solver has this name.
    """
    known = {name_of(one): one for one in (Greedy(), *map(TopDown, solvers()), *verifiers())}
    if name not in known:
        raise InputError(f"verifier must be one of {', '.join(known)}, got {name!r:.60}")
    return known[name]


def verifiers() -> list[Verifier]:
    """The verifiers of `ALL`, then the verifiers that installed packages register as entry points.

    Raises:
        InputError: an entry point cannot be loaded, or is not a Verifier.
    """
    return [*ALL, *plugins("spectheory.verifiers", Verifier)]
