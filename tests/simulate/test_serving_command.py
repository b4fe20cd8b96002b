"""`spectheory simulate --load`: a table of schedules on one load, its record, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from tests.command_line import Run, refused, run  # noqa: F401

LENGTHS = ("--prompt-tokens", 100, "--output-tokens", 20)


@pytest.fixture
def schedule(tmp_path: Path) -> str:
    """Short chains at small batch sizes, and no speculation at large ones."""

    def latency(batch: int) -> st.Latency:
        tokens = np.array([1, 2, 64])
        target = 1e-2 + 2e-4 * batch * tokens
        return st.Latency(tokens, np.array([0]), target[None], np.full((1, 3), 1e-3))

    made = st.schedule(st.Acceptance.by_rank([0.4]), latency, range(1, 65), context=0, max_budget=8, max_fanout=1)
    assert {tree.budget for tree in made.trees} >= {0, 1}
    made.save(tmp_path / "schedule.json")
    return "schedule.json"


def test_a_load_is_served_with_each_tree(run: Run, schedule: str) -> None:  # noqa: F811
    arguments = ("--schedule", schedule, "--load", "poisson:20", *LENGTHS, "--requests", 300)
    result = run("simulate", *arguments, "--slo-ttft", 0.5, "--slo-tpot", 0.05, "--seed", 4, "--out", "run.json")
    assert result.exit_code == 0, result.stderr
    record = st.load("run.json")
    assert isinstance(record, st.ServingComparison)
    assert [one.name for one in record.runs[:2]] == ["off", "schedule"]
    assert all(len(one) == 300 and one.provenance.seed == 4 for one in record.runs)
    assert f"{record.runs[1].goodput:.2f}" in result.stdout
    for text in (
        "TTFT mean, ms",
        "TPOT - off, ms",
        "no routing between engines",
        "no prefix is shared",
        "wrote run.json",
    ):
        assert text in result.stdout
    printed = run("simulate", *arguments, "--seed", 4, "--json")
    runs = json.loads(printed.stdout)["runs"]
    assert runs[1]["completion_seconds"] == record.runs[1].completion_seconds.tolist()


def test_a_closed_loop_is_served_for_a_time(run: Run, schedule: str) -> None:  # noqa: F811
    result = run(
        "simulate", "--schedule", schedule, "--load", "closed:8", *LENGTHS, "--seconds", 2, "--out", "run.json"
    )
    assert result.exit_code == 0, result.stderr
    record = st.load("run.json")
    assert isinstance(record, st.ServingComparison)
    assert {one.unfinished for one in record.runs} == {8}
    assert "unfinished requests" in result.stdout
    assert "a concurrency of 8" in result.stdout


def test_a_load_that_is_not_sustained_needs_a_limit(run: Run, schedule: str) -> None:  # noqa: F811
    arguments = ("simulate", "--schedule", schedule, "--load", "poisson:900", *LENGTHS)
    refused(run(*arguments), "requests a second, which 'off' sustains")
    assert run(*arguments, "--requests", 50).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --plan, to simulate cycles of a plan, or --load and --schedule"),
        (("--load", "poisson:3"), "--load needs --schedule"),
        (("--load", "poisson:3", "--schedule", "schedule.json", "--plan", "plan.json"), "not both"),
        (("--load", "poisson:3", "--schedule", "schedule.json", "--cycles", 9), "--cycles is for a plan"),
        (("--plan", "plan.json", "--slo-ttft", 1), "--slo-ttft needs a --load"),
        (("--load", "poisson:x", "--schedule", "schedule.json"), "rate must be a number"),
        (
            ("--load", "poisson:3", "--schedule", "rates.json"),
            "must hold a plan or a schedule, got a record of kind 'acceptance'",
        ),
        (("--load", "poisson:3", "--schedule", "schedule.json", "--out", "schedule.json"), "is an input"),
        (("--load", "poisson:3", *LENGTHS, "--schedule", "schedule.json", "--kv-tokens", 90), "kv_tokens must hold"),
    ],
)
def test_what_is_refused(run: Run, schedule: str, arguments: tuple[str, ...], message: str) -> None:  # noqa: F811
    st.Acceptance.by_rank([0.5]).save("rates.json")
    refused(run("simulate", *arguments), message)
