"""Fixtures and checks for tests of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import spectheory as st
from spectheory.cli import app

Run = Callable[..., Result]
HEAD = ("--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft", "eagle3-llama-3.1-8b")
MODEL = (*HEAD[:5], "llama-3.2-1b")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, given: str | None = None) -> Result:
        return CliRunner().invoke(app, [*map(str, arguments)], input=given)

    return call


@pytest.fixture
def plan(run: Run) -> Run:
    """Run `schedule` if a GPU is named, otherwise `plan`, with at most 16 nodes and rates for which a tree is best."""
    st.Acceptance.by_rank([0.7, 0.15, 0.06]).save("acceptance.json")
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    st.Latency.constant(draft_seconds=9.0).save("slow.json")

    def call(*arguments: object) -> Result:
        command = "schedule" if "--gpu" in arguments else "plan"
        return run(command, "--acceptance", "acceptance.json", "--max-budget", 16, *arguments)

    return call


def refused(result: Result, *messages: str) -> None:
    """Check for exit status 2, and for exactly one line on standard error for each message."""
    lines = result.stderr.strip().splitlines()
    assert result.exit_code == 2
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith("error: ")
        assert message in line


def succeeded(result: Result) -> Result:
    """The result of a command, after a check that its exit status is 0."""
    assert result.exit_code == 0, result.output
    return result
