"""What the machine offers: its memory, which a search must fit into, and loops that Numba compiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from spectheory.core.errors import InputError

Body = TypeVar("Body", bound=Callable[..., Any])
NEGLIGIBLE = 1_000_000
"""Bytes that are not worth a check."""


def available_bytes() -> int | None:
    """Bytes of memory that the machine has available; None where psutil is not installed, as in a browser."""
    try:
        import psutil
    except ModuleNotFoundError:
        return None
    return psutil.virtual_memory().available


def require_memory(need: Callable[[int], int], budget: int) -> None:
    """Check that a search of `budget` nodes fits into memory.

    Args:
        need: function from a budget to the bytes of its search; it must be increasing.
        budget: the budget of the search.

    Raises:
        InputError: the search does not fit. The message names the bytes needed, the bytes available and roughly the
            largest budget that fits.
    """
    needed = need(budget)
    if needed <= NEGLIGIBLE:
        return
    available = available_bytes()
    if available is None or needed <= available:
        return
    fits = bisect_left(range(1, budget), True, key=lambda smaller: need(smaller) > available)
    repair = f"a budget up to about {fits:,} fits" if fits else "no budget fits: use a smaller max_depth or max_fanout"
    raise InputError(
        f"budget of {budget:,} needs about {needed / 1e9:,.2f} GB for this search, "
        f"{available / 1e9:,.2f} GB are available: {repair}"
    )


def compiler(**options: Any) -> Callable[[Body], Body]:
    """Numba's `njit` with these options. Without Numba it returns each body unchanged: the same results, slower."""
    try:
        from numba import njit
    except ModuleNotFoundError:
        return lambda body: body
    # Without the wrapper by which C code calls a body, which nothing here does.
    given: dict[str, Any] = {"no_cfunc_wrapper": True, **options}
    return njit(**given)


@cache
def compiled(body: Body) -> Body:
    """`body`, compiled by Numba and cached on disk. Numba is imported at the first call."""
    return compiler(cache=True)(body)
