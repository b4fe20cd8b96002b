"""Node solvers: from the target's law, the draft's law and the drafted tokens to the law of the emitted token."""

from spectheory.otlp.argmax import ArgMax
from spectheory.otlp.naive import Naive
from spectheory.otlp.solver import Solver

__all__ = ["ArgMax", "Naive", "Solver"]
