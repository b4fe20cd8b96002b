"""Memory checks: what does not fit into memory is refused before it starts."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from spectheory.core.errors import InputError

MEMINFO = Path("/proc/meminfo")
PROCESS = Path("/proc/self")
CGROUPS = Path("/sys/fs/cgroup")
CGROUP_FILES = (
    ("", CGROUPS, "memory.max", "memory.current", "inactive_file"),
    ("memory", CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For each version of control groups: its controller in /proc/self/cgroup, the folder of all groups, the files of a
group's limit and use, and the field of memory.stat with what it can give back."""
ULIMITS = {"RLIMIT_AS": "VmSize", "RLIMIT_DATA": "VmData"}
"""Limits of a process, and the field of /proc/self/status with what counts towards each."""
NEGLIGIBLE = 1_000_000
"""Bytes that are not worth a check: finding out what is available takes longer than a search of this size."""


def available_bytes() -> int | None:
    """Bytes of memory that this process can still get; None if unknown.

    That is the least of what the machine has, what the control groups of a container or a job allow, and what `ulimit`
    allows.
    """
    known = [*_on_machine(), *_in_control_groups(), *_by_ulimit()]
    return max(0, min(known)) if known else None


def _on_machine() -> Iterator[int]:
    """What Linux reports as available; on other systems all memory."""
    found = _fields(MEMINFO)
    if "MemAvailable" in found:
        yield found["MemAvailable"] * 1024
        return
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return


def _in_control_groups() -> Iterator[int]:
    """What each control group around this process has left. In a container its own group is the folder of all."""
    lines = [line.split(":", 2) for line in _read(PROCESS / "cgroup").splitlines()]
    for controller, root, limit, used, returnable in CGROUP_FILES:
        own = [Path(line[2].lstrip("/")) for line in lines if len(line) == 3 and controller in line[1].split(",")]
        for group in {folder for path in own for folder in (path, *path.parents)}:
            most, now = (_read(root / group / name).strip() for name in (limit, used))
            if most.isdecimal() and now.isdecimal():
                yield int(most) - int(now) + _fields(root / group / "memory.stat").get(returnable, 0)


def _by_ulimit() -> Iterator[int]:
    """What the limits of the process leave."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    now = _fields(PROCESS / "status")
    for name, field in ULIMITS.items():
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - now.get(field, 0) * 1024


def _fields(file: Path) -> dict[str, int]:
    """The numbers of a file by name, from lines such as "MemTotal: 9 kB"."""
    rows = [line.replace(":", " ").split() for line in _read(file).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


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
