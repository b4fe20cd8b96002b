"""`spectheory serve`: a table of schedules on one load, its record, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from tests.command_line import Run, refused, run, succeeded  # noqa: F401

LENGTHS = "prompt=100,output=20"


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
    arguments = ("--schedule", schedule, "--load", f"poisson:20,{LENGTHS},count=300")
    limits = ("--slo-ttft", 0.5, "--slo-tpot", 0.05)
    result = succeeded(run("serve", *arguments, *limits, "--seed", 4, "--out", "run.json"))
    record = st.results.serving.ServingComparison.load("run.json")
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
    printed = run("serve", *arguments, "--seed", 4, "--json")
    runs = json.loads(printed.stdout)["runs"]
    assert runs[1]["completion_seconds"] == record.runs[1].completion_seconds.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--load", "poisson:3", "--controller", "vlm"), "unknown controller 'vlm'"),
        (("--load", "closed:3", "--slo-ttft", "inf"), "must be finite and at least 0, got inf"),
        (("--load", "poisson:x"), "must be a number"),
        (("--load", f"poisson:3,{LENGTHS}", "--kv-tokens", 90), "kv_tokens must hold"),
    ],
)
def test_what_is_refused(run: Run, schedule: str, arguments: tuple[str, ...], message: str) -> None:  # noqa: F811
    refused(run("serve", "--schedule", schedule, *arguments), message)


def test_the_answer_names_what_pays_where_it_speculates_and_what_it_does_not_sustain(run: Run, schedule: str) -> None:  # noqa: F811
    arguments = ("serve", "--schedule", schedule, "--out", "run.json", "--force")
    words = " ".join(run(*arguments, "--load", f"poisson:5,{LENGTHS},count=400", "--slo-tpot", 1).stdout.split())
    record, planned = st.results.serving.ServingComparison.load("run.json"), st.Schedule.load(schedule)
    high = next(one.high for one in record.differences if (one.name, one.figure) == ("schedule", "tpot_seconds"))
    assert high is not None
    assert high < 0
    assert "Speculation pays at this load: with schedule, a token takes" in words
    last = max(last for _, last, tree in planned.ranges() if tree.budget)
    assert 1 <= last < 64
    assert f"speculates at batch sizes 1 to {last} of the planned 1 to 64" in words
    assert "Goodput counts the requests within the limits: TPOT at most 1000 ms" in words
    assert "This load is more than is sustained by" not in words
    words = " ".join(run(*arguments, "--load", f"poisson:900,{LENGTHS},count=400").stdout.split())
    names = [one.name for one in record.runs]
    assert f"This load is more than is sustained by: {', '.join(names)}." in words


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_engines_own_controllers_are_compared(run: Run, schedule: str, name: str) -> None:  # noqa: F811
    arguments = ("--schedule", schedule, "--load", f"poisson:20,{LENGTHS},count=200")
    succeeded(run("serve", *arguments, "--controller", name, "--out", "run.json"))
    record = st.results.serving.ServingComparison.load("run.json")
    own, followed = record.runs[-1], record.runs[1]
    assert own.name == name
    assert all(tree.is_chain for tree in own.trees)
    assert (own.completion_seconds != followed.completion_seconds).any()
