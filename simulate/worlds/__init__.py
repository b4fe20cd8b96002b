"""Worlds: what decides how many drafted tokens a cycle keeps, drawn cycle by cycle, and computed exactly."""

from simulate.worlds.classes import ClassWorld
from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.markov import MarkovWorld
from simulate.worlds.rates import RateWorld, ReachWorld
from simulate.worlds.recorded import RecordedWorld
from simulate.worlds.simulated_world import SimulatedWorld
from simulate.worlds.two_sources import TwoSourceWorld
from simulate.worlds.walks import Walks

__all__ = [
    "ClassWorld",
    "EmittedTokens",
    "MarkovWorld",
    "RateWorld",
    "ReachWorld",
    "RecordedWorld",
    "SimulatedWorld",
    "TwoSourceWorld",
    "Walks",
]
