"""Node solvers: from the target's distribution, the draft's distribution and the drafted tokens to the distribution of
the emitted token.
"""

from spectheory.otlp.argmax import ArgMax
from spectheory.otlp.estimate import estimated_acceptance
from spectheory.otlp.greedy_top_k import GreedyTopK
from spectheory.otlp.khisti import Khisti
from spectheory.otlp.naive import Naive
from spectheory.otlp.nss import NSS
from spectheory.otlp.optimal import OptimalTransport
from spectheory.otlp.optimal_acceptance import optimal_acceptance
from spectheory.otlp.rrs import RRS
from spectheory.otlp.solver import Solver
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
]
