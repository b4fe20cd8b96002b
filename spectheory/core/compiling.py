"""Compilation of loops by Numba, or the loops as they are where Numba is not installed, as in a browser (Pyodide)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Body = TypeVar("Body", bound=Callable[..., Any])


def compiler(**options: Any) -> Callable[[Body], Body]:
    """Numba's `njit` with these options. Without Numba it returns each body unchanged: the same results, slower.

    Where no cache can be written or read, as in a container with read-only packages and no home, bodies are compiled in
    each process. Numba is imported by this call. A Numba that is installed but cannot be imported keeps its own error.
    """
    try:
        from numba import njit
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return lambda body: body

    # Without the wrapper by which C code calls a body, which nothing here does.
    given: dict[str, Any] = {"no_cfunc_wrapper": True, **options}

    def compiled(body: Body) -> Body:
        try:
            found: Any = njit(**given)(body)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            uncached: dict[str, Any] = {**given, "cache": False}
            found = njit(**uncached)(body)
            return found
        for name in ("load_overload", "save_overload"):
            setattr(found._cache, name, _forgiving(getattr(found._cache, name)))
        return found

    return compiled


def _forgiving(use_cache: Callable[..., Any]) -> Callable[..., Any]:
    """As `use_cache`, but a full disk or a damaged cache raises no error: the body is compiled instead."""

    @functools.wraps(use_cache)
    def used(*arguments: Any, **named: Any) -> Any:
        with suppress(Exception):
            return use_cache(*arguments, **named)
        return None

    return used
