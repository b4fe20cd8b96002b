"""A description of the machine on which the times are measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
PACKAGES = ["numpy", "scipy", "numba", "torch"]


def machine() -> list[str]:
    """Lines to print beside times."""
    minutes = "load unknown" if not hasattr(os, "getloadavg") else "load {:.2f} {:.2f} {:.2f}".format(*os.getloadavg())
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    return [
        f"{platform.machine()}, {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {installed(name)}" for name in PACKAGES),
        f"OMP_NUM_THREADS {threads}, {minutes} of the last 1, 5 and 15 minutes",
    ]


def processor() -> str:
    """The name that the processor gives itself; virtual machines may hide it."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "processor unknown"


def installed(name: str) -> str:
    """The version of a package, which is not imported for it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
