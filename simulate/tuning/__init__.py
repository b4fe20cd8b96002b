"""Tuning: the schedule of highest goodput under a load, found by simulation."""

from simulate.tuning.search import tune

__all__ = ["tune"]
