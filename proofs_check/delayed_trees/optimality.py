"""The largest E[tau] of any verifier of one path, and tree verification beside block verification: Section 3.1."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import linprog

from proofs_check.claims import Finding, claim
from proofs_check.delayed_trees.verification import (
    accepted,
    as_published,
    block,
    covered,
    is_lossless,
    naive,
    tree_monte_carlo,
    two_steps,
    within_w,
)
from proofs_check.delayed_trees.walks import ContextTable, worlds
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Path


def any_verifier_at_most(world: ContextTable, length: int) -> Fraction:
    """An upper bound on E[tau] of every lossless verifier of a path, whatever it looks at: a dual solution, exactly.

    The primal has z(a, j, y) = P(tau = j, next token y | path a), sums of 1 over (j, y), and for each text b the sum of
    q(a) z(a, j, b_(j+1)) p(rest of b) over a, j with a_1..a_j = b_1..b_j equal to p(b). Any numbers nu(b) bound it:
    with N(c) the target's mean of nu after c, by N() + sum_a q(a) max_(j, y) (j - N(a_1..a_j y)). The linear program
    only proposes nu; the bound is evaluated in fractions.
    """
    texts = list(product(range(world.size), repeat=length))
    paths = [path for path in texts if world.chance(path, 1)]
    columns = [(a, j, y) for a in paths for j in range(length) for y in range(world.size)]
    columns += [(a, length, -1) for a in paths]
    rows = [[ZERO] * len(columns) for _ in [*texts, *paths]]
    for at, (a, j, y) in enumerate(columns):
        start = (*a[:j], y) if j < length else a
        rows[len(texts) + paths.index(a)][at] = ONE
        for row, b in enumerate(texts):
            if b[: len(start)] == start:
                rows[row][at] = world.chance(a, 1) * world.chance(b[len(start) :], 0, start)
    gain = [-float(world.chance(a, 1) * j) for a, j, _ in columns]
    right = [float(world.chance(b, 0)) for b in texts] + [1.0] * len(paths)
    solved = linprog(gain, A_eq=np.array(rows, dtype=float), b_eq=right, method="highs")
    nu = {b: -Fraction(float(x)).limit_denominator(1000) for b, x in zip(texts, solved.eqlin.marginals, strict=False)}

    def mean(start: Path) -> Fraction:
        ends = product(range(world.size), repeat=length - len(start))
        return sum((world.chance(end, 0, start) * nu[(*start, *end)] for end in ends), ZERO)

    bound = mean(())
    for a in paths:
        left = [j - mean((*a[:j], y)) for j in range(length) for y in range(world.size)]
        bound += world.chance(a, 1) * max(*left, length - mean(a))
    return bound


@claim("D-BV-OPT")
def best_of_one_path(effort: int) -> Finding:
    verifiers = {"naive": naive, "Monte Carlo": tree_monte_carlo, "block": lambda w, n: block(w, n, as_published)}

    def values(world: ContextTable) -> Iterator[dict[str, Any]]:
        best = accepted(block(world, 2, as_published))
        for rule in verifiers.values():
            one = rule(world, 2)
            sound = is_lossless(world, one, 2)
            kept = within_w(world, one, 2, exactly=False)
            yield {"lossless": sound, "within_w": kept, "accepted": accepted(one), "accepted_by_block": best}

    def certified(world: ContextTable, length: int) -> dict[str, Fraction]:
        found = accepted(block(world, length, as_published))
        return {"accepted_by_block": found, "dual_bound": any_verifier_at_most(world, length)}

    programs = [(w, 2) for w in worlds(2, 2, 3)[:: 6 // effort]] + [
        (w, 3) for w in worlds(2, 2 + effort)[:: 4 - effort]
    ]
    return Finding(
        {"count": len(two_steps(effort)), "covered": covered(effort), "solved": len(programs)},
        cases={
            "play": (play for world in two_steps(effort) for play in values(world)),
            "program": (certified(*one) for one in programs),
        },
    )
