"""When a match should be drafted as a chain."""

from __future__ import annotations

from typing import Any

from spectheory.core.checks import check_count, check_probability


def chain_is_optimal(p_spine: Any, p_branch: Any, length: int) -> bool:
    """Whether no tree of `length` drafted nodes yields more than the chain of so many spine tokens.

    So it is exactly where p_spine ** length >= (1 - p_spine) * p_branch: the last token of the chain against the first
    branch at the root, which is the best that stands beside a chain. Siblings may be sequential or exclusive.

    Args:
        p_spine: rate of a token of the match, a float or a Fraction.
        p_branch: rate of a first branch off the spine, likewise.
        length: tokens of the match, at least 1.

    Raises:
        InputError: an argument is out of range.

    Source: stands in the place of Goose's bypass from 8 matched tokens on, Section 4.3, which can lose to transitions
    alone (`spectheory check G-P4-TR`).

    >>> [chain_is_optimal(0.7, 0.3, length) for length in (6, 7)]
    [True, False]
    """
    check_probability("p_spine", p_spine)
    check_probability("p_branch", p_branch)
    check_count("length", length, 1)
    return p_spine**length >= (1 - p_spine) * p_branch
