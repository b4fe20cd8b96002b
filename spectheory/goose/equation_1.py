"""Goose's Eq. 1: what a spine with chains as branches yields, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectheory.core.checks import check_count, check_probability
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.goose.geometric import geometric_sum
from spectheory.goose.two_source import SpineTree


def spine_bound(p_spine: Any, p_branch: Any, spine_length: int, widths: Sequence[int], branch_depth: int) -> Any:
    """The right-hand side of Eq. 1, tokens per target call with the bonus token.

        1 + sum_{k<=L} p_s^k + sum_{k<=L} p_s^(k-1) (1 - p_s) Q(b_k) (1 + E_ext),
        Q(b) = 1 - (1 - p_t)^b,   1 + E_ext = 1 + p_t + ... + p_t^(D-1).

    Args:
        p_spine: p_s, float or Fraction, and so is the result.
        p_branch: p_t.
        spine_length: L.
        widths: (L,) b_k, branches beside spine token k; `widths[0]` hang from the root.
        branch_depth: D, tokens of each branch, its first one included: a chain.

    Raises:
        InputError: an argument is out of range.

    What the source says, and what holds. Acceptance is a walk that commits to the first accepted child, (2) of
    `spectheory.goose`. Under it Eq. 1 is no bound but the exact yield of `tree_of_bound`. With independent indicators
    and the longest accepted path scored, (1), that tree yields more (a second branch may go on where the first one
    ends), so that Proposition 1's "tight for independent chains" fails; under (3) Q is to be replaced by b p_t, which
    is never less. The source states 0..D-1 for E_ext beside a sum that, in its other index convention, goes to D: here
    the first token of a branch is the first of D.

    The source charges L + sum b_k nodes to the budget, `budget_as_printed`, and takes the chains' other tokens for
    free. The tree has L + D sum b_k, `budget_of_bound`: for D > 1 no tree within the printed budget need reach the
    printed yield (L = 1, b = 1, D = 2: two nodes are charged, three are there).

    Source: Goose, Proposition 1, Eq. (1).

    >>> spine_bound(0.5, 0.25, 1, [1], 2), budget_of_bound(1, [1], 2), budget_as_printed(1, [1])
    (1.65625, 3, 2)
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
    """L + D sum b_k: drafted nodes behind `spine_bound`, each charged."""
    _check(0.5, 0.5, spine_length, widths, branch_depth)
    return spine_length + branch_depth * sum(map(int, widths))


def budget_as_printed(spine_length: int, widths: Sequence[int]) -> int:
    """L + sum b_k: the budget that Proposition 1 states, short of the tree's for D > 1. See `spine_bound`."""
    return budget_of_bound(spine_length, widths, 1)


def tree_of_bound(
    p_spine: float, p_branch: float, spine_length: int, widths: Sequence[int], branch_depth: int
) -> SpineTree:
    """The tree that Eq. 1 speaks of, all its nodes in it; its block efficiency is `spine_bound`, found node by node."""
    _check(p_spine, p_branch, spine_length, widths, branch_depth)
    parent = list(range(-1, spine_length))
    for node, width in enumerate(widths):
        for _ in range(width):
            parent += [node, *range(len(parent), len(parent) + branch_depth - 1)]
    is_spine = [node <= spine_length for node in range(len(parent))]
    return SpineTree.valued(Tree(parent), is_spine, p_spine, p_branch)


def _check(p_spine: Any, p_branch: Any, spine_length: int, widths: Sequence[int], branch_depth: int) -> None:
    check_probability("p_spine", p_spine)
    check_probability("p_branch", p_branch)
    check_count("spine_length", spine_length)
    _check_widths(widths, spine_length)
    check_count("branch_depth", branch_depth, least=1)


def _check_widths(widths: Sequence[int], spine_length: int) -> None:
    """Refuse widths that do not give the number of branches beside each spine token."""
    if not isinstance(widths, Sequence | np.ndarray) or isinstance(widths, str):
        raise InputError(f"widths must be a row of whole numbers, got {widths!r:.80}")
    if len(widths) != spine_length:
        raise InputError(
            f"widths must give the branches beside each of the spine_length={spine_length} spine tokens, 0 for none, "
            f"got {len(widths)} of them"
        )
    for k, width in enumerate(widths):
        check_count(f"widths[{k}]", width)
