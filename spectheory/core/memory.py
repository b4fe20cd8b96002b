"""Memory checks: a search that does not fit into memory is refused before it starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from spectheory.core.errors import InputError

MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Bytes of memory that Linux reports as available; on other systems all memory; None if unknown."""
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(need: Callable[[int], int], budget: int) -> None:
    """Check that a search of `budget` nodes fits into memory.

    Args:
        need: function from a budget to the bytes of its search; it must be increasing.
        budget: the budget of the search.

    Raises:
        InputError: the search does not fit. The message names the bytes needed, the bytes available and roughly the
            largest budget that fits.
    """
    available = available_bytes()
    if available is None or need(budget) <= available:
        return
    fits, too_large = 0, budget
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (middle, too_large) if need(middle) <= available else (fits, middle)
    repair = f"a budget up to about {fits:,} fits" if fits else "no budget fits: use a smaller max_depth or max_fanout"
    raise InputError(
        f"budget of {budget:,} needs about {need(budget) / 1e9:,.2f} GB for this search, "
        f"{available / 1e9:,.2f} GB are available: {repair}"
    )
