"""Checks of the overheads of a `Latency`: single times, and the times of single verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spectheory.core.checks import check_seconds
from spectheory.core.errors import InputError


def check_second(name: str, value: Any) -> float:
    """A time that may be 0, after a check.

    Raises:
        InputError: it is not a number of seconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} must be a number of seconds, got {value!r:.60}")
    return float(check_seconds(name, value, least=0))


def checked_verifier_seconds(seconds: Any) -> dict[str, tuple[float, ...]]:
    """The overheads of verifiers by name, after a check.

    Raises:
        InputError: they are not three times for each name.
    """
    if not isinstance(seconds, Mapping):
        raise InputError(
            f"verifier_seconds must be a dictionary of three times by the name of a verifier, got {seconds!r:.80}"
        )
    return {name: _checked(name, times) for name, times in seconds.items()}


def _checked(verifier: Any, seconds: Any) -> tuple[float, ...]:
    name = f"verifier_seconds[{verifier!r:.60}]"
    if not isinstance(verifier, str) or not verifier:
        raise InputError(f"{name} must have the name of a verifier as its key, such as 'Traversal'")
    if not isinstance(seconds, tuple | list) or len(seconds) != 3 or any(map(np.iterable, seconds)):
        raise InputError(
            f"{name} must be three times in seconds: per cycle, per drafted level and per drafted node, got "
            f"{seconds!r:.80}"
        )
    return tuple(check_second(f"{name}[{place}]", value) for place, value in enumerate(seconds))
