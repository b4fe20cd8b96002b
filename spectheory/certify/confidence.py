"""An upper bound on a step's total variation from the target, which holds at all looks at the data at once."""

from __future__ import annotations

import math

FIRST_LOOK = 32
GROWTH = 1.1


def look_times(most: int, first: int = FIRST_LOOK) -> list[int]:
    """The numbers of runs after which the test looks at the data: each is about a tenth larger, the last is `most`.

    They are at least `FIRST_LOOK` runs apart, and at least `first`.
    """
    apart = max(first, FIRST_LOOK)
    times = [min(apart, most)]
    while times[-1] < most:
        times.append(min(most, max(times[-1] + apart, math.ceil(GROWTH * times[-1]))))
    return times


def variation_bound(seen: float, runs: int, looks: int, alpha: float) -> float:
    """Upper bound on a step's total variation from the target's joint distribution J.

    The probability that the bound is wrong at any look is at most alpha.

    Theorem. Let Y_1, ..., Y_n be independent random distributions on the joint cells with E Y_i = P, where Y_i is the
    distribution of run i after the target has extended its output. Let T = TV(mean of the Y_i, J), the argument `seen`.
    T is convex in this mean, so TV(P, J) <= E T by Jensen's inequality. Replacing one run changes T by at most 1 / n,
    so E T < T + e except with probability exp(-2 n e^2), by McDiarmid's inequality. For e = sqrt(log(looks / alpha) /
    2 n), the bound T + e holds at all `looks` looks at once, except with probability alpha, by the union bound.

    The number of cells enters only through T. For the largest bound over contexts no union over contexts is needed: it
    is below the largest total variation only if the bound of that one context fails.
    Source: McDiarmid 1989, Lemma 1.2.
    """
    return min(1.0, seen + math.sqrt(math.log(looks / alpha) / (2 * runs)))
