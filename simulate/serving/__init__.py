"""Serving under load: an engine that batches requests and speculates by a schedule, simulated step by step."""

from simulate.serving.controllers import Controller, Tier
from simulate.serving.engines import engine_controller, sglang, vllm
from simulate.serving.server import Server, serve
from simulate.serving.stability import FixedPoint, SelfConsistent, compare_schedules, schedules_in, self_consistent
from simulate.serving.step_times import StepTimes

__all__ = [
    "Controller",
    "FixedPoint",
    "SelfConsistent",
    "Server",
    "StepTimes",
    "Tier",
    "compare_schedules",
    "engine_controller",
    "schedules_in",
    "self_consistent",
    "serve",
    "sglang",
    "vllm",
]
