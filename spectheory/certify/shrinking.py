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
    is_better = True
    while is_better:
        is_better = False
        for case in simpler(found):
            key = "\n".join(case.lines())
            if key in tried or _size(case) >= _size(found):
                continue
            if len(tried) == MOST_SHRINKS:
                return found
            tried.add(key)
            if score(case) >= score(found):
                found, is_better = case, True
                break
    return found


def simpler(case: Case) -> Iterator[Case]:
    """Cases that differ from `case` in one respect: contexts get another's distributions, or a distribution changes."""
    table = case.distributions
    pairs = {(shown(p), shown(q)): (p, q) for p, q in table.values()}
    yield from (Case(case.policy, dict.fromkeys(table, pair)) for pair in pairs.values())
    for context in reversed(table):
        yield from (Case(case.policy, {**table, context: pair}) for pair in pairs.values())
    for old, (p, q) in pairs.items():
        news = [(p, p), (q, q), *((p, new) for new in _simpler(q)), *((new, q) for new in _simpler(p))]
        for new in news:
            yield Case(case.policy, {c: new if (shown(a), shown(b)) == old else (a, b) for c, (a, b) in table.items()})


def _size(case: Case) -> tuple[int, int, str]:
    lines = case.lines()
    return len(lines), sum(map(len, lines)), "\n".join(lines)


def _simpler(distribution: Vector) -> Iterator[Vector]:
    """One-hot, uniform, without one token, and rounded."""
    tokens = range(len(distribution))
    support = [token for token in tokens if distribution[token]]
    weights: list[list[Any]] = [[int(t == token) for t in tokens] for token in tokens]
    weights.append([int(t in support) for t in tokens])
    if len(support) > 2:
        weights += [[0 if t == token else distribution[t] for t in tokens] for token in support]
    weights += [[round(Fraction(x) * denominator) for x in distribution] for denominator in DENOMINATORS]
    yield from (np.array([Fraction(w) / sum(row) for w in row], dtype=object) for row in weights if any(row))
