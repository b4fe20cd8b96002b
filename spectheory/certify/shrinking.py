"""Smaller counterexamples: worlds that are simpler in one respect after another, and show at least as much.

The search counts comparisons and looks at no clock, so it ends with the same world on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from spectheory.certify.certificate import Case, shown
from spectheory.core.arrays import Vector

MOST_SHRINKS = 100
"""Maximum number of cases that are compared to make a counterexample smaller."""
DENOMINATORS = 2, 3, 4
"""Simpler distributions are rounded to multiples of 1 over these."""


def smallest(found: Case, score: Callable[[Case], Any]) -> Case:
    """The simplest case that is reached from `found` without a lower score."""
    tried: set[str] = set()

    def next_to(best: Case) -> Case | None:
        """A simpler case whose score is not lower; None if there is none, or if enough were compared."""
        for case in simpler(best):
            key = "\n".join(case.lines())
            if key not in tried and _size(case) < _size(best):
                if len(tried) == MOST_SHRINKS:
                    return None
                tried.add(key)
                if score(case) >= score(best):
                    return case
        return None

    while (better := next_to(found)) is not None:
        found = better
    return found


def simpler(case: Case) -> Iterator[Case]:
    """Cases that differ from `case` in one respect: contexts get another's distributions, or a distribution changes."""
    table = case.distributions
    pairs = {(shown(p), shown(q)): (p, q) for p, q in table.values()}
    yield from (Case(case.policy, dict.fromkeys(table, pair)) for pair in pairs.values())
    for context in reversed(table):
        yield from (Case(case.policy, {**table, context: pair}) for pair in pairs.values())
    for old, pair in pairs.items():
        for new in _simpler_pairs(*pair):
            yield Case(case.policy, {c: new if (shown(p), shown(q)) == old else (p, q) for c, (p, q) in table.items()})


def _size(case: Case) -> tuple[int, int, str]:
    lines = case.lines()
    return len(lines), sum(map(len, lines)), "\n".join(lines)


def _simpler_pairs(p: Vector, q: Vector) -> Iterator[tuple[Vector, Vector]]:
    yield from ((p, p), (q, q))
    yield from ((p, new) for new in _simpler_distributions(q))
    yield from ((new, q) for new in _simpler_distributions(p))


def _simpler_distributions(distribution: Vector) -> Iterator[Vector]:
    """One-hot, uniform, without one token, and rounded."""
    tokens = range(len(distribution))
    support = [token for token in tokens if distribution[token]]
    yield from (_normalised([int(t == token) for t in tokens]) for token in tokens)
    yield _normalised([int(t in support) for t in tokens])
    if len(support) > 2:
        yield from (_normalised([0 if t == token else distribution[t] for t in tokens]) for token in support)
    for denominator in DENOMINATORS:
        rounded = [round(Fraction(x) * denominator) for x in distribution]
        if any(rounded):
            yield _normalised(rounded)


def _normalised(weights: list[Any]) -> Vector:
    return np.array([Fraction(weight) / sum(weights) for weight in weights], dtype=object)
