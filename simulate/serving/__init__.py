"""Serving under load: an engine that batches requests and speculates by a schedule, simulated step by step."""

from simulate.serving.comparing import compare_schedules, require_sustained, schedules_in
from simulate.serving.controllers import Controller
from simulate.serving.server import Server, serve
from simulate.serving.stability import Capacity, FixedPoint, SelfConsistent, capacity, self_consistent
from simulate.serving.step_times import StepTimes
from simulate.serving.tiers import Tier

__all__ = [
    "Capacity",
    "Controller",
    "FixedPoint",
    "SelfConsistent",
    "Server",
    "StepTimes",
    "Tier",
    "capacity",
    "compare_schedules",
    "require_sustained",
    "schedules_in",
    "self_consistent",
    "serve",
]
