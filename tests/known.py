"""Values that must be there."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """The value, after a check that it is not None."""
    assert value is not None
    return value
