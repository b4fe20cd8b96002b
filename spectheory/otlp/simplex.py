"""The acceptance of solvers for draft distributions on a simplex: all distributions on a few tokens, on a grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from spectheory.core.arrays import Vector, check_distribution
from spectheory.core.checks import check_whole
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.optimal_acceptance import optimal_acceptance
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class Accepted:
    """The acceptance of one solver compared with the optimum.

    Attributes:
        solver: name of the solver.
        rule: how its drafts are drawn.
        acceptance: probability that the emitted token is among the drafts.
        optimum: the maximum of all lossless solvers for drafts that are drawn like this.
    """

    solver: str
    rule: DrawRule
    acceptance: float
    optimum: float


def simplex(tokens: int, steps: int) -> Float[np.ndarray, "points tokens"]:
    """All distributions on `tokens` tokens whose probabilities are multiples of 1 / `steps`.

    >>> simplex(2, 2).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    check_whole("tokens", tokens, 1)
    check_whole("steps", steps, 1)
    bars = np.array([*combinations(range(steps + tokens - 1), tokens - 1)], np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, steps + tokens - 1)))
    return (np.diff(edges, axis=1) - 1) / steps


def accepted(p: Vector, q: Vector, k: int, solvers: Iterable[Solver]) -> list[Accepted]:
    """The acceptance of each solver that can use k drafts on this vocabulary, in the given order.

    Raises:
        InputError: p or q is not a distribution, their lengths differ, or k is below 1.
    """
    check_distribution("p", p)
    check_whole("k", k, 1)
    found = []
    for solver in solvers:
        most = solver.drafts_in_reach(len(p))
        if most is None or k <= most:
            best = optimal_acceptance(p, q, k, solver.rule)
            found.append(Accepted(type(solver).__name__, solver.rule, float(solver.acceptance(p, q, k)), float(best)))
    return found


def accepted_over(p: Vector, k: int, solver: Solver, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The acceptance of a solver for every draft distribution on a grid.

    Args:
        p: (V,) the target's distribution.
        k: number of drafts.
        solver: the solver.
        steps: number of steps of the grid along an edge of the simplex.

    Returns:
        q (N, V), the acceptance (N,) and its optimum (N,).

    Raises:
        InputError: see `accepted`, or the solver cannot use k drafts.
    """
    grid, most = simplex(len(p), steps), solver.drafts_in_reach(len(p))
    if most is not None and k > most:
        raise InputError(f"k must be at most {most} for {type(solver).__name__}, got {k}")
    rows = [accepted(p, q, k, [solver])[0] for q in grid]
    return grid, np.array([row.acceptance for row in rows]), np.array([row.optimum for row in rows])
