"""Simulation of decoding with a plan, without models, and collection of results on many workers."""

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
from simulate.walk import run

__all__ = [
    "Block",
    "CollectWarning",
    "Collected",
    "Estimate",
    "Figure",
    "Statistics",
    "Stop",
    "Task",
    "TaskError",
    "TaskResult",
    "collect",
    "combine",
    "plot",
    "run",
    "step_task",
    "verifier_task",
    "walk_task",
]
