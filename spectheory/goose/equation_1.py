"""Eq. 1 of Goose: the block efficiency of a spine whose branches are chains, its budget, and its tree."""

from __future__ import annotations

from collections.abc import Sequence
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
    tree is higher, because a second branch may be accepted further than the first one, so the "tight for independent
    chains" of Proposition 1 fails. For exclusive siblings, (3), Q(b) must be replaced by b p_t, which is never less.
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
    _check_widths(widths, spine_length)
    check_counts(1, branch_depth=branch_depth)


def _check_widths(widths: Sequence[int], spine_length: int) -> None:
    """Refuse widths that do not give the number of branches beside each spine token."""
    if not isinstance(widths, Sequence | np.ndarray) or isinstance(widths, str):
        raise InputError(f"widths must be a sequence of whole numbers, got {widths!r:.80}")
    if len(widths) != spine_length:
        raise InputError(
            f"widths must have one entry for each of the spine_length={spine_length} spine tokens, 0 for no branch, "
            f"got {len(widths)} entries"
        )
    check_counts(**{f"widths[{k}]": width for k, width in enumerate(widths)})
