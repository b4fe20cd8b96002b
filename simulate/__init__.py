"""Simulations of what the theory assumes."""

from simulate.walk import run

__all__ = ["run"]
