"""Compilation of loops by Numba, or the loops as they are where Numba is not installed, as in a browser (Pyodide)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Body = TypeVar("Body", bound=Callable[..., Any])


def compiler(**options: Any) -> Callable[[Body], Body]:
    """Numba's `njit` with these options. Without Numba it returns each body unchanged: the same results, slower.

    Numba is imported by this call. A Numba that is installed but cannot be imported keeps its own error.
    """
    try:
        from numba import njit
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return lambda body: body
    found: Any = njit(**options)
    return found
