"""Verifiers: which drafted nodes are accepted, and which token is emitted after them."""

from spectheory.core.errors import InputError
from spectheory.core.plugins import plugins
from spectheory.otlp import ALL as OWN_SOLVERS
from spectheory.otlp import solvers
from spectheory.verify.block import Block
from spectheory.verify.bottom_up import BottomUp, UniVer
from spectheory.verify.greedy import Greedy
from spectheory.verify.greedy_multi_path import GreedyMultiPathBlock
from spectheory.verify.outcome import Outcome
from spectheory.verify.top_down import TopDown, walk
from spectheory.verify.traversal import Traversal
from spectheory.verify.tree_monte_carlo import TreeMonteCarlo
from spectheory.verify.verifier import Verifier

__all__ = [
    "Block",
    "BottomUp",
    "Greedy",
    "GreedyMultiPathBlock",
    "Outcome",
    "TopDown",
    "Traversal",
    "TreeMonteCarlo",
    "UniVer",
    "Verifier",
    "name_of",
    "verifier_of",
    "verifiers",
    "walk",
]

ALL: tuple[Verifier, ...] = (Block(), TreeMonteCarlo(), Traversal(), UniVer(), GreedyMultiPathBlock())
"""All lossless path and tree verifiers of this package, without the node solvers of `spectheory.otlp.ALL`, which
`TopDown` and `BottomUp` apply to trees, and without `Greedy`, which keeps greedy decoding."""


def name_of(verifier: Verifier) -> str:
    """The name of a verifier: its class, or the class of the node solver that `TopDown` lifts to trees."""
    return type(verifier.solver if type(verifier) is TopDown else verifier).__name__


def verifier_of(name: str) -> Verifier:
    """The verifier of this name, in its default settings, as `name_of` gives it.

    Raises:
        InputError: no verifier or node solver has this name. A package that cannot be loaded gives a PluginWarning.
    """
    own = {name_of(one): one for one in (Greedy(), *map(TopDown, OWN_SOLVERS), *ALL)}
    if name in own:
        return own[name]
    known = own | {name_of(one): one for one in (*map(TopDown, solvers()), *verifiers())}
    if name not in known:
        raise InputError(f"verifier must be one of {', '.join(known)}, got {name!r:.60}")
    return known[name]


def verifiers() -> list[Verifier]:
    """The verifiers of `ALL`, then the verifiers that installed packages register as entry points.

    An entry point that cannot be used, or has the name of another verifier or of a node solver, is left out with a
    warning; see `plugins`.
    """
    taken = [name_of(one) for one in (Greedy(), *map(TopDown, solvers()), *ALL)]
    return [*ALL, *plugins("spectheory.verifiers", Verifier, taken=taken, name_of=name_of)]
