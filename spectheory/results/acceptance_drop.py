"""Did acceptance fall? A sequential test of the counts of two runs, prompt by prompt, with both error levels.

The bets are fair by the theorem of signs on the page of keystones. Source: Ville 1939; Mantel and Haenszel 1959.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from spectheory.core.checks import check_number
from spectheory.core.errors import InputError
from spectheory.results.paired_difference import Ratio

POWER = 0.9
"""The number of prompts is that after which this share of runs has found the drop."""
RUNS, BLOCK, MOST = 4000, 100, 10_000
"""Number of replayed runs, of prompts that are added to each at a time, and of prompts of the longest."""


def drop_verdict(reference: Ratio, run: Ratio, drop: float, alpha: float = 0.01) -> tuple[str, int]:
    """Whether the ratio fell: FELL, HELD or UNDECIDED, and after how many prompts. Entry i of both is of prompt i.

    FELL is wrong with probability at most alpha if the counts of each prompt are exchangeable. HELD says that the ratio
    did not fall by `drop`; it is wrong with probability at most alpha if they are after the calls of the run are
    multiplied by 1 - drop. FELL is said if both have enough evidence: the ratio fell, but by less.

    Raises:
        InputError: `drop` or `alpha` is not between 0 and 1.
    """
    less = Ratio(run.numerators, run.denominators * (1 - drop))
    for verdict, pair in (("FELL", (reference, run)), ("HELD", (less, reference))):
        reached = _Bets(drop, alpha).after(*pair)[0] >= 0
        if reached.any():
            return verdict, int(reached.argmax()) + 1
    return "UNDECIDED", len(run.numerators)


def drop_verdicts(parts: Sequence[tuple[Ratio, Ratio]], drop: float, alpha: float) -> list[tuple[str, int]]:
    """The verdict on the first part, which is all prompts, at level alpha, and on the others at alpha / parts each."""
    return [drop_verdict(*part, drop, alpha / (len(parts) if i else 1)) for i, part in enumerate(parts)]


def prompts_needed(reference: Ratio, run: Ratio | None, drop: float, alpha: float = 0.01) -> int | None:
    """The number of prompts after which 90% of runs with this drop are found to have fallen; None if above 10,000.

    Runs are replayed: prompts are drawn from these, and a run with the drop needs 1 / (1 - drop) times the calls. With
    `run`, a replayed prompt has both counts of one prompt, after a drop between the runs is undone. Without, it has
    the counts of two prompts of the reference, as if the run had other prompts.

    Raises:
        InputError: `drop` or `alpha` is not between 0 and 1, or nothing was drafted in one of the runs.
    """
    rng, bets, found = np.random.default_rng(0), _Bets(drop, alpha, RUNS), np.zeros((RUNS, 1), bool)
    pair = np.array([[one.numerators, one.denominators] for one in (reference, run or reference)], float)
    if not pair.any(axis=2).all():
        raise InputError("both runs must have a request that drafted tokens: nothing was drafted in one")
    pair[1, 1] *= (run or reference).value / reference.value / (1 - drop)
    for replayed in range(0, MOST, BLOCK):
        prompts = rng.integers(pair.shape[2], size=(2, RUNS, BLOCK))
        drawn = (Ratio(*one[:, which]) for one, which in zip(pair, prompts[[0, 0 if run else 1]], strict=True))
        found = found[:, -1:] | np.logical_or.accumulate(bets.after(*drawn) >= 0, axis=1)
        if found[:, -1].mean() >= POWER:
            return replayed + int((found.mean(axis=0) >= POWER).argmax()) + 1
    return None


class _Bets:
    """The wealth of several runs at once, which can be continued."""

    def __init__(self, drop: float, alpha: float, runs: int = 1) -> None:
        check_number("drop", drop, 1e-6, 1 - 1e-6)
        check_number("alpha", alpha, 1e-300, 1 - 1e-12)
        self.drop, self.sums, self.logs = drop, np.zeros((4, runs, 1)), np.full((2, runs, 1), math.log(alpha / 2))

    def after(self, reference: Ratio, run: Ratio) -> Float[np.ndarray, "runs prompts"]:
        """Log of alpha times the wealth after each further prompt; counts are (prompts,) or (runs, prompts)."""
        counts = (reference.numerators, reference.denominators, run.numerators, run.denominators)
        a, b, c, d = map(np.atleast_2d, counts)
        calls = np.where(b + d > 0, b + d, 1)
        z, mean = (a * d - c * b) / calls, (a * d + c * b) / calls * self.drop / (2 - self.drop)
        sums = self.sums + np.cumsum([mean, z, z**2 + mean**2, np.ones_like(z)], axis=2)
        earlier = np.maximum(sums[1] - z, 0)
        spread = np.stack([sums[2], sums[2] - earlier**2 / sums[3]])
        bets = np.divide(np.stack([sums[0], earlier]) * z, spread, out=np.zeros_like(spread), where=spread > 0)
        logs = self.logs + np.cumsum(math.log(2) - np.logaddexp(0, -2 * bets), axis=2)
        self.sums, self.logs = sums[:, :, -1:], logs[:, :, -1:]
        return np.logaddexp(*logs)
