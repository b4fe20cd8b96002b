"""Yields of full k-ary trees with one rate."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import zeros_like
from spectheory.core.checks import check_count, check_probability
from spectheory.core.errors import InputError
from spectheory.goose.geometric import geometric_sum
from spectheory.goose.two_source import ROUNDING, Siblings


def isotropic_yield(p: Any, k: int, depth: int, *, siblings: Siblings = "sequential") -> Any:
    """E[tau] of the full k-ary tree of `depth` levels under a walk: 1 + a + a^2 + ... + a^depth.

    a, the chance that any child of a node is accepted, is 1 - (1 - p)^k for sequential siblings (each with rate p given
    that the earlier ones failed) and k p for exclusive ones.

    Args:
        p: rate of a token, float or Fraction, and so is the result.
        k: children of a node, at least 1.
        depth: levels, at least 0.
        siblings: `sequential` or `exclusive`, (2) and (3) of `spectheory.goose`.

    Raises:
        InputError: an argument is out of range, or exclusive siblings would sum to more than 1.

    Source: Goose, E.3, step 1, has the sum over h of prod_{d <= h} P_d with P_d = 1 - (1 - p)^(n_d) and n_d the number
    of all candidates at depth d, k^d here. That lets a token at depth d save a path that it does not lie on: for k = 2,
    depth 2, p = 1/2 it gives 1 + 3/4 + 3/4 15/16, more than the tree can. With n_d the children of one node it is this
    function. That Sequoia's optimum for one rate is a balanced k-ary tree fails for sequential siblings: later ones
    are worth less.

    >>> isotropic_yield(0.5, 2, 2)
    2.3125
    """
    _check(p, k, depth)
    if siblings == "sequential":
        return geometric_sum(p * geometric_sum(1 - p, int(k)), int(depth) + 1)
    if siblings != "exclusive":
        raise InputError(f'siblings must be "sequential" or "exclusive", got {siblings!r:.80}')
    if k * p > 1 + ROUNDING:
        raise InputError(f"k * p must be at most 1 for exclusive siblings, got {k} * {float(p):g}: use a smaller k")
    return geometric_sum(min(k * p, zeros_like(p) + 1), int(depth) + 1)


def longest_path_yield(p: Any, k: int, depth: int) -> Any:
    """E[tau] of the same tree where the indicators of all nodes are independent and the longest accepted path counts.

    A path of h tokens is accepted below a node with chance g_h = 1 - (1 - p g_{h-1})^k, g_0 = 1; the yield is 1 + g_1 +
    ... + g_depth. This is (1) of `spectheory.goose`, at least `isotropic_yield`, and what no verifier does: a target
    emits one token a position. Arguments and errors are those of `isotropic_yield`.
    """
    _check(p, k, depth)
    chance = total = zeros_like(p) + 1
    for _ in range(depth):
        chance = p * chance * geometric_sum(1 - p * chance, int(k))
        total += chance
    return total


def _check(p: Any, k: int, depth: int) -> None:
    check_probability("p", p)
    check_count("k", k, least=1)
    check_count("depth", depth)
