"""The block efficiency of full k-ary trees in which every token has the same rate."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import zeros_like
from spectheory.core.checks import check_counts, check_probabilities
from spectheory.core.errors import InputError
from spectheory.goose.geometric import geometric_sum
from spectheory.goose.two_source import ROUNDING, Siblings


def isotropic_yield(p: Any, k: int, depth: int, *, siblings: Siblings = "sequential") -> Any:
    """E[tau] of the full k-ary tree of `depth` levels: 1 + a + a^2 + ... + a^depth.

    a is the probability that one of the children of a node is accepted. For sequential siblings, each with rate p if
    the earlier ones are rejected, it is 1 - (1 - p)^k. For exclusive siblings it is k p.

    Args:
        p: the rate of a token, float or Fraction; the result is of the same type.
        k: the number of children of a node, at least 1.
        depth: the number of levels below the root, at least 0.
        siblings: "sequential" or "exclusive", model (2) or (3) of `spectheory.goose`.

    Raises:
        InputError: an argument is out of range, or the rates of exclusive siblings sum to more than 1.

    Source: Goose, E.3, step 1, has the sum over h of prod_{d <= h} P_d, with P_d = 1 - (1 - p)^(n_d), where n_d is the
    number of all candidates at depth d, here k^d. That is wrong, because a token at depth d then counts for paths that
    do not pass through it. For k = 2, depth 2 and p = 1/2 it gives 1 + 3/4 + 3/4 15/16, which is more than this tree
    can yield. If n_d is the number of children of one node, the formula is this function. The source also says that
    the best tree of Sequoia for one rate is a balanced k-ary tree. That fails for sequential siblings, because later
    siblings are worth less.

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
    """E[tau] of the full k-ary tree if all nodes are independent and the longest accepted path counts.

    The probability that some path of h tokens below a node is accepted is g_h = 1 - (1 - p g_{h-1})^k, with g_0 = 1.
    E[tau] is 1 + g_1 + ... + g_depth. This is model (1) of `spectheory.goose`. The result is at least
    `isotropic_yield`. No verifier works like this, because a target emits one token at each position. Arguments and
    errors are the same as for `isotropic_yield`.
    """
    _check(p, k, depth)
    chance = total = zeros_like(p) + 1
    for _ in range(depth):
        chance = p * chance * geometric_sum(1 - p * chance, int(k))
        total += chance
    return total


def _check(p: Any, k: int, depth: int) -> None:
    check_probabilities(p=p)
    check_counts(1, k=k)
    check_counts(depth=depth)
