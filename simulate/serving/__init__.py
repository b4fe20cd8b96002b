"""Serving under load: an engine that batches requests and speculates by a schedule, simulated step by step."""

from simulate.serving.controllers import Controller
from simulate.serving.server import Server, serve
from simulate.serving.step_times import StepTimes
from simulate.serving.tiers import Tier

__all__ = ["Controller", "Server", "StepTimes", "Tier", "serve"]
