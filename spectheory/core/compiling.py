"""Compilation of loops by Numba, or the loops as they are where Numba is not installed, as in a browser (Pyodide)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Body = TypeVar("Body", bound=Callable[..., Any])


def compiler(**options: Any) -> Callable[[Body], Body]:
    """Numba's `njit` with these options. Without Numba it returns each body unchanged: the same results, slower."""
    try:
        from numba import njit
    except ModuleNotFoundError:
        return lambda body: body
    # Without the wrapper by which C code calls a body, which nothing here does.
    given: dict[str, Any] = {"no_cfunc_wrapper": True, **options}
    return njit(**given)
