"""Prints the results of the benchmarks at the end, after a description of the machine."""

from __future__ import annotations

import pytest
from machine import machine

LINES = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = {}


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest) -> list[str]:
    """Lines to be printed under the name of the file."""
    return request.config.stash[LINES].setdefault(request.path.stem, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("machine")
    terminalreporter.write_line("\n".join(machine()))
    for name, lines in config.stash[LINES].items():
        terminalreporter.section(name)
        terminalreporter.write_line("\n".join(lines))
