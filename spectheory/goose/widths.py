"""Eq. 1 of Goose, the block efficiency of a spine whose branches are chains, and the number of branches by its Eq. 2.

A branch is beside spine token k if it has the same parent. p_s is the rate of a spine token, p_t the rate of a branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import log
from typing import Any

import numpy as np

from spectheory.core.arrays import zeros_like
from spectheory.core.checks import check_counts, check_probabilities
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.goose.two_source import SpineTree


def geometric_sum(ratio: Any, terms: int) -> Any:
    """1 + ratio + ... + ratio^(terms - 1), in float64 or Fraction.

    The sum is computed by doubling: (1 - ratio^terms) / (1 - ratio) loses its digits where the ratio is near 1.
    """
    total, power = zeros_like(ratio), zeros_like(ratio) + 1
    for bit in bin(terms)[2:]:
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = 1 + ratio * total, power * ratio
    return total


def spine_bound(p_spine: Any, p_branch: Any, spine_length: int, widths: Sequence[int], branch_depth: int) -> Any:
    """The right-hand side of Eq. 1, in tokens per target call, the bonus token included.

        1 + sum_{k<=L} p_s^k + sum_{k<=L} p_s^(k-1) (1 - p_s) Q(b_k) (1 + E_ext),
        Q(b) = 1 - (1 - p_t)^b,   1 + E_ext = 1 + p_t + ... + p_t^(D-1).

    Args:
        p_spine: p_s, the rate of a spine token, float or Fraction. If both rates are Fractions, so is the result.
        p_branch: p_t, the rate of a branch token.
        spine_length: L, the number of spine tokens.
        widths: (L,) b_k, the number of branches beside spine token k; `widths[0]` branches are children of the root.
        branch_depth: D, the number of tokens of each branch, which is a chain.

    Raises:
        InputError: an argument is out of range.

    Where the source is wrong or ambiguous: it calls Eq. 1 a bound. For sequential siblings, (2) of `spectheory.goose`,
    Eq. 1 is the exact block efficiency of `tree_of_bound`. For independent nodes, (1), the block efficiency of this
    tree is the same for D = 1, and for D > 1 and rates in (0, 1) higher, as a branch may be accepted further than what
    is before it; "tight" fails. For exclusive siblings, (3), Q(b) must be replaced by b p_t, which is never less.
    The source gives E_ext with two index conventions, up to D - 1 and up to D. Here it is up to D - 1.

    The source counts L + sum b_k nodes in the budget: only the first token of each branch. The tree has L + D sum b_k
    drafted nodes (`budget_of_bound`). So for D > 1 there may be no tree of the printed budget that reaches the value
    of Eq. 1. For L = 1, b = 1, D = 2 the printed budget is 2, and the tree has 3 drafted nodes.

    Source: Goose, Proposition 1, Eq. (1).

    >>> spine_bound(0.5, 0.25, 1, [1], 2), budget_of_bound(1, [1], 2)
    (1.65625, 3)
    """
    _check(p_spine, p_branch, spine_length, widths, branch_depth)
    spine = geometric_sum(p_spine, spine_length + 1)
    chain = geometric_sum(p_branch, branch_depth)
    forks = sum(
        p_spine**k * (1 - p_spine) * p_branch * geometric_sum(1 - p_branch, int(width)) * chain
        for k, width in enumerate(widths)
    )
    return spine + forks


def budget_of_bound(spine_length: int, widths: Sequence[int], branch_depth: int) -> int:
    """The number of drafted nodes of `tree_of_bound`: L + D sum b_k, in the symbols of `spine_bound`."""
    _check(0.5, 0.5, spine_length, widths, branch_depth)
    return spine_length + branch_depth * sum(map(int, widths))


def tree_of_bound(
    p_spine: float, p_branch: float, spine_length: int, widths: Sequence[int], branch_depth: int
) -> SpineTree:
    """The tree of Eq. 1 with all its nodes. Its block efficiency is `spine_bound`, here computed node by node."""
    _check(p_spine, p_branch, spine_length, widths, branch_depth)
    parent = list(range(-1, spine_length))
    for node, width in enumerate(widths):
        for _ in range(width):
            parent += [node, *range(len(parent), len(parent) + branch_depth - 1)]
    is_spine = [node <= spine_length for node in range(len(parent))]
    return SpineTree.valued(Tree(parent), is_spine, p_spine, p_branch)


def _check(p_spine: Any, p_branch: Any, spine_length: int, widths: Sequence[int], branch_depth: int) -> None:
    check_probabilities(p_spine=p_spine, p_branch=p_branch)
    check_counts(spine_length=spine_length)
    if not isinstance(widths, Sequence | np.ndarray) or isinstance(widths, str):
        raise InputError(f"widths must be a sequence of whole numbers, got {widths!r:.80}")
    if len(widths) != spine_length:
        raise InputError(
            f"widths must have one entry for each of the spine_length={spine_length} spine tokens, 0 for no branch, "
            f"got {len(widths)} entries"
        )
    check_counts(**{f"widths[{k}]": width for k, width in enumerate(widths)})
    check_counts(1, branch_depth=branch_depth)


@dataclass(frozen=True, eq=False)
class Allocation:
    """The number of branches (width) beside each of L spine tokens. Entry 0 is beside the first token, at the root.

    Attributes:
        p_spine: p_s, the rate of a spine token.
        p_branch: p_t, the rate of a branch.
        widths: (L,) the integer optimum. Its sum is less than the branch budget if no further branch gains anything.
        linear: (L,) float64, Eq. 2 as printed. It sums to the branch budget, and its last entries may be negative. NaN
            if p_s = 0 or p_t = 0, because then the slope ln p_s / ln(1 - p_t) is not defined.
        clipped: (L,) float64, Eq. 2 repaired: max(0, b_1 - (k - 1) slope), with b_1 chosen so that the entries sum to
            the branch budget. NaN if p_t = 0, because then no branch gains anything. For 0 < p_t < 1 and p_s < 1 it is
            optimal among real widths >= 0, and each entry of the integer optimum differs from it by at most 1.
        harmonic: (L,) shares of the branch budget in proportion to 1/k, rounded by largest remainder.
    """

    p_spine: Any
    p_branch: Any
    widths: tuple[int, ...]
    linear: np.ndarray
    clipped: np.ndarray
    harmonic: tuple[int, ...]

    def synergy(self, widths: Sequence[float]) -> Any:
        """The synergy term of Eq. 1 for any widths, without its factor 1 + E_ext.

        It is sum_k p_s^(k-1) (1 - p_s) (1 - (1 - p_t)^b_k), where b_k = widths[k - 1].
        """
        weights = ((1 - self.p_spine) * self.p_spine**k for k in range(len(widths)))
        return sum(weight * _found(self.p_branch, width) for weight, width in zip(weights, widths, strict=True))

    @property
    def block_efficiency(self) -> Any:
        """`spine_bound` of `widths` with branches of one token. Only then the budget of Eq. 1 counts every node."""
        return geometric_sum(self.p_spine, len(self.widths) + 1) + self.synergy(self.widths)


def allocate(p_spine: Any, p_branch: Any, spine_length: int, branch_budget: int) -> Allocation:
    """The widths b_1..b_L with the highest synergy term of Eq. 1 and sum b_k <= branch_budget.

    Siblings are sequential, (2) of `spectheory.goose`. Branch b + 1 beside token k gains
    p_s^(k-1) (1 - p_s) p_t (1 - p_t)^b, which does not grow with b. The widths are worth the sum of their gains, which
    is at most the sum of the branch_budget largest gains of all. Because the gains of one k do not grow, the largest
    gains can be taken in the order of b for each k. So taking the largest remaining gain each time is optimal. Of equal
    gains the shallower token comes first.

    Args:
        p_spine: p_s, the rate of a spine token, float or Fraction; with Fractions the gains are compared exactly.
        p_branch: p_t, the rate of a branch, float or Fraction.
        spine_length: L, the number of spine tokens, at least 0.
        branch_budget: maximum number of branches, at least 0.

    Raises:
        InputError: an argument is out of range.

    Source: Goose, Proposition 2, Eq. (2): b_k = b_1 - (k - 1) ln p_s / ln(1 - p_t). Eq. (2) equates the marginal gains
    of real widths and ignores b_k >= 0. With p_s = p_t = 0.5, L = 4 and 2 branches it gives 2, 1, 0, -1, while
    1, 1, 0, 0 and 2, 0, 0, 0 are optimal. It does not treat whole numbers. The best whole numbers are the clipped line
    rounded by largest remainder: round every entry down, then raise the entries with the largest remainders by 1 until
    the budget is used, the shallower first among equal remainders. Taking the largest gains gives widths of the same
    worth, and with Fractions it needs no logarithms, which are not exact.

    >>> found = allocate(0.8, 0.2, 4, 10)
    >>> found.widths, found.harmonic
    ((4, 3, 2, 1), (5, 2, 2, 1))
    """
    check_probabilities(p_spine=p_spine, p_branch=p_branch)
    check_counts(spine_length=spine_length, branch_budget=branch_budget)
    slope = np.nan
    if p_spine > 0 and p_branch > 0:
        slope = log(float(p_spine)) / log(1 - float(p_branch)) if p_branch < 1 else 0.0
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
    """The widths of the harmonic rule: branch_budget divided in proportion to 1, 1/2, ..., 1/L.

    The shares are rounded by largest remainder, the shallower first among equal remainders. They sum to branch_budget.

    Before rounding, the synergy term is at least 1/H_L of the optimum for all rates, with H_L = 1 + 1/2 + ... + 1/L.
    The reason: the optimal widths do not rise with k, so b_k is at most branch_budget / k, which is H_L times the share
    of k, and the probability that one of b branches is right is concave in b. There is no such bound that is
    independent of L (proofs_check, claim G-P2-HARM).

    Args:
        spine_length: L, the number of spine tokens, at least 0.
        branch_budget: the number of branches, at least 0.

    Source: Goose, Algorithm 1, step 3. The source states the weights but not the rounding, which is chosen here so that
    the whole budget is used.
    """
    shares = branch_budget / np.arange(1, spine_length + 1)
    shares /= (1 / np.arange(1, spine_length + 1)).sum() or 1
    widths = np.floor(shares + 1e-9).astype(np.int64)
    missing = branch_budget - int(widths.sum()) if spine_length else 0
    widths[np.argsort(widths - shares, kind="stable")[:missing]] += 1
    return tuple(widths.tolist())


def _found(p_branch: Any, width: float) -> Any:
    """1 - (1 - p_t)^b, the probability that one of b branches is right, computed without cancellation for whole b."""
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


def _water_filling(slope: float, p_spine: float, p_branch: float, spine_length: int, branch_budget: int) -> np.ndarray:
    """max(0, level - (k - 1) slope), where the level makes the sum equal to the budget; all at the root if p_s = 0."""
    depth = np.arange(spine_length)
    if p_spine == 0 < p_branch:
        return np.where(depth == 0, float(branch_budget), 0.0)
    for reached in range(spine_length, 0, -1):
        level = branch_budget / reached + (reached - 1) / 2 * slope
        if level >= (reached - 1) * slope:
            return np.maximum(0, level - depth * slope)
    return np.full(spine_length, np.nan)
