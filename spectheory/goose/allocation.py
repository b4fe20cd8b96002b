"""How many branches stand beside each spine token: the integer optimum, Goose's Eq. 2, and its harmonic rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import log
from typing import Any

import numpy as np

from spectheory.core.checks import check_count, check_probability
from spectheory.goose.geometric import geometric_sum


@dataclass(frozen=True, eq=False)
class Allocation:
    """Branches beside each of L spine tokens; entry 0 is beside the first one, at the root.

    Attributes:
        p_spine: rate of a spine token.
        p_branch: rate of a branch.
        widths: the integer optimum. Fewer than the branch budget where no further branch gains anything.
        linear: (L,) float64, Eq. 2 as printed, which sums to the branch budget and may be negative deep down; NaN
            where p_s = 0 or p_t = 0, which leave it no slope ln p_s / ln(1 - p_t).
        clipped: (L,) float64, Eq. 2 repaired: max(0, b_1 - (k - 1) slope) with b_1 such that this sums to the branch
            budget; NaN where p_t = 0 and no branch gains anything. For 0 < p_t < 1 and p_s < 1 it is optimal among
            real widths >= 0, and the integer optimum is within 1 of it.
        harmonic: shares 1/k of the branch budget, rounded to the largest remainders.
    """

    p_spine: Any
    p_branch: Any
    widths: tuple[int, ...]
    linear: np.ndarray
    clipped: np.ndarray
    harmonic: tuple[int, ...]

    def synergy(self, widths: Sequence[float]) -> Any:
        """sum_k p_s^(k-1) (1 - p_s) (1 - (1 - p_t)^b_k) for any widths; Eq. 1 has it times 1 + E_ext."""
        weights = ((1 - self.p_spine) * self.p_spine**k for k in range(len(widths)))
        return sum(weight * _found(self.p_branch, width) for weight, width in zip(weights, widths, strict=True))

    @property
    def block_efficiency(self) -> Any:
        """`spine_bound` of `widths` with branches of one token, the only ones for which Eq. 1 charges every node."""
        return geometric_sum(self.p_spine, len(self.widths) + 1) + self.synergy(self.widths)


def allocate(p_spine: Any, p_branch: Any, spine_length: int, branch_budget: int) -> Allocation:
    """The widths b_1..b_L of the highest synergy term of Eq. 1 within sum b_k <= branch_budget.

    Branch b + 1 beside token k gains p_s^(k-1) (1 - p_s) p_t (1 - p_t)^b, which does not grow with b: the synergy term
    is a sum over k of concave functions. Any widths are worth the sum of their gains, so no more than the sum of the
    branch_budget largest gains there are; and since gains of one k do not grow, taking the largest ones, k by k in
    order, is an allocation. Taking the largest gain each time, as is done here, is therefore optimal. Ties go to the
    shallower token.

    Args:
        p_spine: p_s, float or Fraction; with Fractions gains are compared exactly.
        p_branch: p_t.
        spine_length: L, at least 0.
        branch_budget: most branches.

    Raises:
        InputError: an argument is out of range.

    Source: Goose, Proposition 2, Eq. (2): b_k = b_1 - (k - 1) ln p_s / ln(1 - p_t). That equates the marginal gains of
    real widths and forgets b_k >= 0: with p_s = p_t = 0.5, L = 4 and 2 branches it says 2, 1, 0, -1, where 1, 1, 0, 0
    and 2, 0, 0, 0 are optimal. It says nothing of whole numbers: there the optimum is the clipped line rounded by
    largest remainders, every part down and as many of the largest fractions up as the budget has left, of equal ones
    the shallower (proofs_check, claim G-P2-INT). That is what the largest gains come to; they are taken one by one, as
    gains of Fractions compare exactly and the line's logarithms do not. Acceptance is the committed walk, (2) of
    `spectheory.goose`.

    >>> found = allocate(0.8, 0.2, 4, 10)
    >>> found.widths, found.harmonic
    ((4, 3, 2, 1), (5, 2, 2, 1))
    """
    check_probability("p_spine", p_spine)
    check_probability("p_branch", p_branch)
    check_count("spine_length", spine_length)
    check_count("branch_budget", branch_budget)
    slope = _slope(float(p_spine), float(p_branch))
    depth = np.arange(spine_length)
    mean = branch_budget / max(1, spine_length) + (spine_length - 1) / 2 * slope
    return Allocation(
        p_spine,
        p_branch,
        _largest_gains(p_spine, p_branch, spine_length, branch_budget),
        mean - depth * slope,
        _water_filling(slope, float(p_spine), float(p_branch), spine_length, branch_budget),
        harmonic_widths(spine_length, branch_budget),
    )


def harmonic_widths(spine_length: int, branch_budget: int) -> tuple[int, ...]:
    """branch_budget in shares of 1, 1/2, ..., 1/L, rounded down, the rest by largest remainder, then shallowest first.

    Before rounding its synergy term is at least 1/H_L of the optimum, H_L = 1 + 1/2 + ... + 1/L, whatever the rates:
    the optimal widths fall with k, so b_k is at most branch_budget / k, which is H_L times this share, and the chance
    that one of b branches is right is concave in b. No bound that does not fall with L holds (proofs_check, claim
    G-P2-HARM).

    Source: Goose, Algorithm 1, step 3. The text has the rule's weights and not its rounding, which is chosen here so
    that the whole budget is used.
    """
    shares = branch_budget / np.arange(1, spine_length + 1)
    shares /= (1 / np.arange(1, spine_length + 1)).sum() or 1
    widths = np.floor(shares + 1e-9).astype(np.int64)
    missing = branch_budget - int(widths.sum()) if spine_length else 0
    widths[np.argsort(widths - shares, kind="stable")[:missing]] += 1
    return tuple(widths.tolist())


def _found(p_branch: Any, width: float) -> Any:
    """1 - (1 - p_t)^b, without cancellation for a whole width."""
    if isinstance(width, int | np.integer) and width >= 0:
        return p_branch * geometric_sum(1 - p_branch, int(width))
    return 1 - (1 - float(p_branch)) ** float(width)


def _largest_gains(p_spine: Any, p_branch: Any, spine_length: int, branch_budget: int) -> tuple[int, ...]:
    widths = [0] * spine_length
    gains = [(-(p_spine**k) * (1 - p_spine) * p_branch, k) for k in range(spine_length)]
    heapify(gains)
    for _ in range(branch_budget if gains else 0):
        gain, k = gains[0]
        if gain == 0:
            break
        widths[k] += 1
        heapreplace(gains, (gain * (1 - p_branch), k))
    return tuple(widths)


def _slope(p_spine: float, p_branch: float) -> float:
    if p_spine == 0 or p_branch == 0:
        return np.nan
    return log(p_spine) / log(1 - p_branch) if p_branch < 1 else 0.0


def _water_filling(slope: float, p_spine: float, p_branch: float, spine_length: int, branch_budget: int) -> np.ndarray:
    """max(0, level - (k - 1) slope), the level such that it sums to the budget; all at the root where p_s = 0."""
    depth = np.arange(spine_length)
    if p_spine == 0 < p_branch:
        return np.where(depth == 0, float(branch_budget), 0.0)
    for reached in range(spine_length, 0, -1):
        level = branch_budget / reached + (reached - 1) / 2 * slope
        if level >= (reached - 1) * slope:
            return np.maximum(0, level - depth * slope)
    return np.full(spine_length, np.nan)
