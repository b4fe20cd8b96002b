"""What every search refuses, in one wording: the argument, the value and the repair."""

from __future__ import annotations

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE

NO_SPECULATION = ": for no speculation use Tree.chain(0)"


def check_whole(name: str, value: object, least: int, repair: str) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, got {value!r:.80}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}{repair}")


def check_budget(budget: int, name: str = "budget") -> None:
    """Refuse what is no number of drafted nodes."""
    check_whole(name, budget, 1, NO_SPECULATION)
    if budget >= LARGEST_TREE:
        raise InputError(f"{name} must be less than {LARGEST_TREE:,}, the largest Tree, got {budget:,}")


def check_not_negative(name: str, value: object, repair: str) -> None:
    """Refuse what is not a number of at least 0; NaN is not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= 0:
        raise InputError(f"{name} must be a number of at least 0, got {value!r:.80}{repair}")
