"""Simulation without models: plans and worlds, serving under load, and collection of results on many workers."""

from simulate.collecting import (
    Block,
    Collected,
    CollectWarning,
    Estimate,
    Figure,
    Statistics,
    Stop,
    Task,
    TaskError,
    TaskResult,
    collect,
    combine,
    plot,
    step_task,
    verifier_task,
    walk_task,
)
from simulate.load import Requests
from simulate.serving import Controller, Server, StepTimes, Tier, capacity, compare_schedules, self_consistent, serve
from simulate.tuning import tune
from simulate.walk import run

__all__ = [
    "Block",
    "CollectWarning",
    "Collected",
    "Controller",
    "Estimate",
    "Figure",
    "Requests",
    "Server",
    "Statistics",
    "StepTimes",
    "Stop",
    "Task",
    "TaskError",
    "TaskResult",
    "Tier",
    "capacity",
    "collect",
    "combine",
    "compare_schedules",
    "plot",
    "run",
    "self_consistent",
    "serve",
    "step_task",
    "tune",
    "verifier_task",
    "walk_task",
]
