"""Simulation without models: plans and worlds, serving under load, and collection of results on many workers."""

from simulate.collect import Collected, Task, collect
from simulate.load import Requests
from simulate.serving import Controller, Server, StepTimes, Tier, compare_schedules, self_consistent, serve
from simulate.walk import run, walk

__all__ = [
    "Collected",
    "Controller",
    "Requests",
    "Server",
    "StepTimes",
    "Task",
    "Tier",
    "collect",
    "compare_schedules",
    "run",
    "self_consistent",
    "serve",
    "walk",
]
