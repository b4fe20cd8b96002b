"""Synthetic worlds: the theory's assumptions played out by chance."""

from simulate.walk import run

__all__ = ["run"]
