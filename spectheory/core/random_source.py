"""`RandomSource`, the type of the sources of random numbers that solvers, draws and policies take."""

from __future__ import annotations

from typing import Any

RandomSource = Any
"""A `numpy.random.Generator`, a `Branch`, which enumerates the outcomes, or an object with the methods in use."""
