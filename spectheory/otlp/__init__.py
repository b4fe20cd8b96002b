"""Node solvers: how the token of one node is chosen, given the target's p, the draft's q and the drafted tokens."""

from spectheory.core.plugins import class_name, plugins
from spectheory.otlp.argmax import ArgMax
from spectheory.otlp.greedy_top_k import GreedyTopK
from spectheory.otlp.khisti import Khisti
from spectheory.otlp.naive import Naive
from spectheory.otlp.nss import NSS
from spectheory.otlp.optimal import OptimalTransport
from spectheory.otlp.optimal_acceptance import optimal_acceptance
from spectheory.otlp.rrs import RRS
from spectheory.otlp.solver import Solver, estimated_acceptance
from spectheory.otlp.spechub import SpecHub
from spectheory.otlp.specinfer import SpecInfer
from spectheory.otlp.spectr import SpecTr

__all__ = [
    "NSS",
    "RRS",
    "ArgMax",
    "GreedyTopK",
    "Khisti",
    "Naive",
    "OptimalTransport",
    "Solver",
    "SpecHub",
    "SpecInfer",
    "SpecTr",
    "estimated_acceptance",
    "optimal_acceptance",
    "solvers",
]

ALL: tuple[Solver, ...] = (
    NSS(),
    Naive(),
    SpecInfer(),
    SpecTr(),
    Khisti(),
    RRS(),
    GreedyTopK(),
    SpecHub(),
    OptimalTransport(),
)
"""All lossless solvers of this package, in default settings. `ArgMax` is not among them: it keeps greedy decoding."""


def solvers() -> list[Solver]:
    """The solvers of `ALL`, then the solvers that installed packages register as entry points of `spectheory.solvers`.

    An entry point that cannot be used, or has the name of another solver, is left out with a warning; see `plugins`.
    """
    return [*ALL, *plugins("spectheory.solvers", Solver, taken=[class_name(one) for one in (ArgMax(), *ALL)])]
