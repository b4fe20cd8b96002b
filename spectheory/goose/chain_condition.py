"""The condition under which a chain of spine tokens is the best tree."""

from __future__ import annotations

from typing import Any

from spectheory.core.checks import check_counts, check_probabilities


def chain_is_optimal(p_spine: Any, p_branch: Any, length: int) -> bool:
    """Whether the chain of `length` spine tokens is a best tree of `length` drafted nodes.

    This is the case if and only if p_spine ** length >= (1 - p_spine) * p_branch. The left side is the reach of the
    last token of the chain. The right side is the reach of the first branch at the root, the best node outside the
    chain. The condition is the same for sequential and for exclusive siblings.

    Args:
        p_spine: the rate of a token of the match, a float or a Fraction.
        p_branch: the rate of a branch, a float or a Fraction.
        length: the number of tokens of the match, at least 1.

    Raises:
        InputError: an argument is out of range.

    Source: ours. Goose instead drafts every match of 8 or more tokens as a chain (the bypass, Section 4.3), which can
    yield less than branches alone (`spectheory check G-P4-TR`).

    >>> [chain_is_optimal(0.7, 0.3, length) for length in (6, 7)]
    [True, False]
    """
    check_probabilities(p_spine=p_spine, p_branch=p_branch)
    check_counts(1, length=length)
    return p_spine**length >= (1 - p_spine) * p_branch
