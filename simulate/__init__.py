"""Simulation of decoding with a plan, without models."""

from simulate.walk import run

__all__ = ["run"]
