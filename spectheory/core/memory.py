"""Refuse a search that this machine's memory cannot hold, before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from spectheory.core.errors import InputError

MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that can be had without swapping, by Linux's own estimate; elsewhere all memory; None if unknown."""
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(need: Callable[[int], int], budget: int) -> None:
    """Check that a search of `budget` nodes fits.

    Args:
        need: bytes for a budget, increasing.
        budget: nodes asked for.

    Raises:
        InputError: it does not fit; the message states the need, what there is, and about the largest budget that fits.
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
