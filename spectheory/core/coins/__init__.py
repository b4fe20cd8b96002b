"""Random numbers that have no value until a comparison settles them: uniform numbers, and exponential ones that race.

A comparison with a threshold is a draw with two outcomes, and narrows the interval that contains the uniform number.
Exponential numbers of mean 1 are -log(u). The smallest of several, each divided by its weight, is the i-th one with a
probability proportional to the i-th weight, and the others begin anew from there: so p / E, -log(E) + log(p) (Gumbel)
and all that is monotone in E / p is settled by draws with given weights, and their order is a draw without replacement.
"""

from __future__ import annotations

from spectheory.core.coins.coin import BranchError, Clock, Coin, Source, exact, is_float
from spectheory.core.coins.exponential import Exponential
from spectheory.core.coins.extremes import best
from spectheory.core.coins.uniform import Uniform
from spectheory.core.coins.unknown import Unknown

__all__ = ["BranchError", "Clock", "Coin", "Exponential", "Source", "Uniform", "Unknown", "best", "exact", "is_float"]
