"""Prints the results of the benchmarks at the end, after a description of the machine."""

from __future__ import annotations

import os

import pytest
from baselines import Beside
from cpuinfo import get_cpu_info

from spectheory import Provenance

LINES = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = {}


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest) -> list[str]:
    """Lines to be printed under the name of the file."""
    return request.config.stash[LINES].setdefault(request.path.stem, [])


@pytest.fixture(scope="module")
def beside(report: list[str]) -> Beside:
    return Beside(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stamp = Provenance.now("make bench", packages=("numpy", "scipy", "numba", "torch"))
    load = "load unknown" if not hasattr(os, "getloadavg") else "load {:.2f} {:.2f} {:.2f}".format(*os.getloadavg())
    terminalreporter.section("machine")
    terminalreporter.write_line(f"{stamp.machine}, {get_cpu_info().get('brand_raw', 'processor unknown')}")
    terminalreporter.write_line(", ".join(f"{name} {version}" for name, version in stamp.versions.items()))
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    terminalreporter.write_line(f"OMP_NUM_THREADS {threads}, {load} of the last 1, 5 and 15 minutes")
    for name, lines in config.stash[LINES].items():
        terminalreporter.section(name)
        terminalreporter.write_line("\n".join(lines))
