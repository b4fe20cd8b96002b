"""A bound on the total variation between the step's distribution and the target's that holds at all looks at once."""

from __future__ import annotations

import math

FIRST_LOOK = 32
GROWTH = 1.1


def look_times(most: int) -> list[int]:
    """Numbers of runs in a context at which the data are looked at, each a tenth above the one before, up to `most`."""
    times = [min(FIRST_LOOK, most)]
    while times[-1] < most:
        times.append(min(most, max(times[-1] + FIRST_LOOK, math.ceil(GROWTH * times[-1]))))
    return times


def variation_bound(seen: float, runs: int, looks: int, alpha: float) -> float:
    """Upper bound on the total variation from the target's joint distribution J, wrong at any look with probability <=
    alpha.

    Theorem. Let Y_1, ..., Y_n be independent distributions on the joint cells with E Y_i = P: Y_i is the distribution
    of a run once the target has extended what it emitted. Put T = TV(mean of the Y_i, J), `seen`. T is convex in that
    mean, so that TV(P, J) <= E T by Jensen's inequality. One other run changes T by at most 1 / n, so that E T < T + e
    except with probability exp(-2 n e^2), by McDiarmid's inequality. With e = sqrt(log(looks / alpha) / 2 n) the bound
    T + e holds at all of the `looks` fixed numbers of runs at once except with probability alpha, by the union bound.

    The number of cells enters through T alone. No union over contexts is needed for the largest of their bounds: it
    falls below the largest total variation only if the bound of that one context fails.
    Source: McDiarmid 1989, Lemma 1.2.
    """
    return min(1.0, seen + math.sqrt(math.log(looks / alpha) / (2 * runs)))
