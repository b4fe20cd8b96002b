"""Simulation without models: decoding with a plan, and serving under load."""

from simulate.load import Requests
from simulate.serving import (
    Controller,
    Server,
    StepTimes,
    Tier,
    capacity,
    compare_schedules,
    self_consistent,
    serve,
)
from simulate.tuning import tune
from simulate.walk import run

__all__ = [
    "Controller",
    "Requests",
    "Server",
    "StepTimes",
    "Tier",
    "capacity",
    "compare_schedules",
    "run",
    "self_consistent",
    "serve",
    "tune",
]
