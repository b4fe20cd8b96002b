"""Load: the requests that a simulated server receives, synthetic or from a trace."""

from simulate.load.arrivals import Contents, bursts, closed, modulated, poisson, profile
from simulate.load.changes import as_closed, at_rate, mixed, thinned, until
from simulate.load.lengths import Fixed, Geometric, Lengths, Lognormal
from simulate.load.loads import Load, parse
from simulate.load.requests import Requests
from simulate.load.trace_files import TraceFile, read_trace

__all__ = [
    "Contents",
    "Fixed",
    "Geometric",
    "Lengths",
    "Load",
    "Lognormal",
    "Requests",
    "TraceFile",
    "as_closed",
    "at_rate",
    "bursts",
    "closed",
    "mixed",
    "modulated",
    "parse",
    "poisson",
    "profile",
    "read_trace",
    "thinned",
    "until",
]
