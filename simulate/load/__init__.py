"""Load: the requests that a simulated server receives, synthetic or from a trace."""

from simulate.load.arrivals import Contents, Geometric, Lognormal, bursts, closed, poisson, profile
from simulate.load.loads import Load, parse
from simulate.load.requests import Requests
from simulate.load.traces import read_trace

__all__ = [
    "Contents",
    "Geometric",
    "Load",
    "Lognormal",
    "Requests",
    "bursts",
    "closed",
    "parse",
    "poisson",
    "profile",
    "read_trace",
]
