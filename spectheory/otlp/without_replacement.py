"""The probability Q that k draws without replacement are all among the first n tokens, for every n, in floating point.

Give each token i a clock that rings after an exponential time of rate q_i. The order in which clocks ring is the order
of the draws. Let N(t) be the number of clocks of the first n tokens that have rung by time t, and d the sum of q over
the other tokens. Then 1 - Q is the integral of d e^(-d t) P(N(t) < k) over t: the first clock of another token rings
when fewer than k clocks of the first n tokens have rung. P(N(t) < k) is e^(-sum q t) times the sum of the elementary
symmetric polynomials of e^(q_i t) - 1 up to degree k - 1. For all n together these are k - 1 cumulative sums of
positive numbers, so nothing cancels.

In x = ln t the integrand is entire, so the error of the trapezoid rule with step h is below
2 cos(y)^-k / (e^(2 pi y / h) - 1) for every y in (0, pi / 2): the integral of |d t e^(-d t)| on the line Im x = y is
1 / cos(y), and |1 - e^-z| is at most (1 - e^-Re(z)) / cos(y) there. With the step of this module the error is below
1e-12 for every k.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Float

NEGLIGIBLE = 40
"""Events of probability below e^-NEGLIGIBLE are left out."""
SAFE = 300
"""Exponents stay below 2 SAFE, where exp is far from the limits of float64."""
CHUNK = 2**17
"""Number of entries that are processed together, so that they fit into the cache."""
FIRST = 1e-5
"""Start of the integration. Two clocks ring before this time with probability below 1e-10 / 2, weighted by 1e-5."""


def kept_within(q: np.ndarray, k: int) -> Float[np.ndarray, " V"]:
    """Probability that k >= 2 draws without replacement all fall among the first v tokens, for v = 1 to V.

    If fewer than k tokens have positive probability, all of them are drawn. The error is below 1e-12, apart from
    rounding.
    """
    k = min(k, int(np.count_nonzero(q)))
    if k == 1:
        return np.cumsum(q)
    least_left = np.partition(q, len(q) - k)[: len(q) - k + 1].sum()
    last = (NEGLIGIBLE + k * np.log(len(q))) / max(least_left, 1e-290)
    step = min(0.2, 0.6 / np.sqrt(k))
    times = FIRST * np.exp(step * np.arange(1 + np.ceil(np.log(last / FIRST) / step)))
    others = np.append(np.cumsum(q[::-1])[-2::-1], 0)
    # the times before FIRST, where P(N < k) is 1: step * sum of d t e^(-d t) over t = FIRST e^(-step j), j >= 1
    x = others * FIRST
    lost = step * (x / np.expm1(step) - x**2 / np.expm1(2 * step))
    runs = _runs(q * times[-1])
    for few in np.array_split(times, min(times.size, -(-times.size * len(q) // CHUNK))):
        t = few[:, None]
        state = np.zeros((k, len(few), 1))
        state[0] = 1
        for run in runs:
            integrand, state = _rung(q[run], others[run], t, state)
            lost[run] += step * others[run] * integrand
    return 1 - lost


def _runs(exponents: np.ndarray) -> list[slice]:
    """Slices of tokens: runs whose exponents sum to less than 2 SAFE, and single tokens of exponents above SAFE."""
    large = exponents > SAFE
    run = np.cumsum(np.where(large, 0, exponents)) // SAFE + 2 * np.cumsum(large) - large
    ends = [*(np.flatnonzero(np.diff(run)) + 1).tolist(), len(exponents)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _rung(q: np.ndarray, others: np.ndarray, t: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of t e^(-others t) P(N(t) < k) over the times `t` (T, 1), for each of the n tokens of a run.

    Args:
        q: (n,) rates of the tokens.
        others: (n,) sum of q over all tokens after each token.
        t: (T, 1) times.
        state: (k, T, 1) distribution of N(t) before the run.

    Returns:
        The sums (n,), and the distribution of N(t) after the run, (k, T, 1).
    """
    if len(q) == 1:
        rings = -np.expm1(-q * t)
        state = state * np.exp(-q * t) + np.concatenate([0 * rings[None], state[:-1] * rings])
        return (t * np.exp(-others * t) * state.sum(0)).sum(0), state
    odds = np.expm1(q * t)
    column = np.broadcast_to(state[0], odds.shape)
    below, after = column.copy(), [column[:, -1:]]
    for before, start in pairwise(state):
        column = start + np.cumsum(odds * np.hstack([before, column[:, :-1]]), axis=1)
        below += column
        after.append(column[:, -1:])
    # e^(-sum q t) up to a token, times e^(-others t) after it, is the same for all tokens of the run
    still = t * np.exp(-(others[0] + q[0]) * t)
    return still[:, 0] @ below, np.array(after) * np.exp(-q.sum() * t)
