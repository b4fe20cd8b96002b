"""`spectheory simulate --load`: a table of schedules on one load, its record, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from simulate import Controller, Server, StepTimes, Tier, compare_schedules
from simulate.controllers import engine_controller
from simulate.controllers.of_schedule import chain_rates
from simulate.load import poisson
from spectheory.report.serving import serving_answer
from tests.command_line import Run, refused, run, succeeded  # noqa: F401

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
    limits = ("--slo-ttft", 0.5, "--slo-tpot", 0.05)
    result = succeeded(run("simulate", *arguments, *limits, "--seed", 4, "--out", "run.json"))
    record = st.ServingComparison.load("run.json")
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


def test_answers_of_one_token_and_a_time_of_no_seconds_are_printed_as_json(run: Run, schedule: str) -> None:  # noqa: F811
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    arguments = ("simulate", "--schedule", schedule, "--load", "poisson:5", "--requests", 20, "--json")
    for more in (("--output-tokens", 1, "--slo-tpot", 1, "--controller", "vllm,sglang"), ("--seconds", 0)):
        result = succeeded(run(*arguments, *more))
        runs = json.loads(result.stdout, parse_constant=refuse)["runs"]
        assert {one["inter_token_seconds"] for one in runs} == {None}
    shown = run(*arguments[:-1], "--seconds", 0)
    assert "No request was completed both with and without speculation" in " ".join(shown.stdout.split())


def test_a_closed_loop_is_served_for_a_time(run: Run, schedule: str) -> None:  # noqa: F811
    result = succeeded(
        run("simulate", "--schedule", schedule, "--load", "closed:8", *LENGTHS, "--seconds", 2, "--out", "run.json")
    )
    record = st.ServingComparison.load("run.json")
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
        (("--load", "poisson:3", "--schedule", "schedule.json", "--controller", "vlm"), "unknown controller 'vlm'"),
        (("--load", "closed:3", "--schedule", "schedule.json", "--slo-ttft", "inf"), "must be finite, got inf"),
        (("--load", "poisson:3", "--schedule", "schedule.json", "--seconds", "inf"), "must be finite, got inf"),
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
    rates = st.Acceptance.by_rank([0.5])
    rates.save("rates.json")
    st.plan(rates, st.Latency.constant(draft_seconds=0.1)).save("plan.json")
    refused(run("simulate", *arguments), message)


def test_the_answer_names_what_pays_where_it_speculates_and_what_it_does_not_sustain(run: Run, schedule: str) -> None:  # noqa: F811
    arguments = ("simulate", "--schedule", schedule, *LENGTHS, "--requests", 400, "--out", "run.json")
    words = " ".join(run(*arguments, "--load", "poisson:5", "--slo-tpot", 1).stdout.split())
    record, planned = st.ServingComparison.load("run.json"), st.Schedule.load(schedule)
    high = record.difference("schedule", "tpot_seconds").high
    assert high is not None
    assert high < 0
    assert "Speculation pays at this load: with schedule, a token takes" in words
    last = max(last for _, last, tree in planned.ranges() if tree.budget)
    assert 1 <= last < 64
    assert f"speculates at batch sizes 1 to {last} of the planned 1 to 64" in words
    assert "Goodput counts the requests within the limits: TPOT at most 1000 ms" in words
    assert "This load is more than is sustained by" not in words
    words = " ".join(run(*arguments, "--load", "poisson:900").stdout.split())
    names = [one.name for one in record.runs]
    assert f"This load is more than is sustained by: {', '.join(names)}." in words


def test_a_schedule_that_locks_itself_out_of_speculation_is_named() -> None:
    """Speculation holds a batch of about 6.4 at this rate; without it, above 8, the batch is 12."""
    latency = st.Latency(np.array([1, 2, 64]), np.array([0]), np.full((1, 3), 0.05), np.full((1, 3), 1e-4))
    server = Server(StepTimes.by_batch([1, 64], [latency, replace(latency, provenance=latency.provenance)]))
    chain = Tier.of(st.Tree.chain(1), st.Acceptance.by_rank([0.9]))
    locking = Controller.up_to(chain, 8, 64)
    requests = poisson(6, 200, prompt=10, output=40)
    found = compare_schedules({"off": None, locking.name: locking}, requests, server=server)
    settled = [one.settled_batches.tolist() for one in found.runs if one.settled_batches is not None]
    assert len(settled[0]) == 1
    small, large = settled[1]
    said = serving_answer(found)
    assert f"{locking.name} can settle at a batch of {small:.1f} or {large:.1f}: after a burst" in said
    assert "off can settle" not in said


@pytest.mark.parametrize("name", ["vllm", "vllm-adaptive", "sglang", "trtllm"])
def test_engines_own_controllers_are_compared(run: Run, schedule: str, name: str) -> None:  # noqa: F811
    arguments = ("--schedule", schedule, "--load", "poisson:20", *LENGTHS, "--requests", 200)
    succeeded(run("simulate", *arguments, "--controller", name, "--out", "run.json"))
    record = st.ServingComparison.load("run.json")
    own, followed = record.runs[-1], record.runs[1]
    assert own.name == name
    assert all(tree.is_chain for tree in own.trees)
    if name == "trtllm":  # the same chains at the same batch sizes
        assert (own.completion_seconds == followed.completion_seconds).all()
    else:
        assert (own.completion_seconds != followed.completion_seconds).any()


def test_the_engines_chains_are_accepted_as_the_schedule_predicts() -> None:
    def latency(batch: int) -> st.Latency:
        return st.Latency(np.array([1, 64]), np.array([0]), np.full((1, 2), 1.0), np.full((1, 2), 0.01))

    made = st.schedule(st.Acceptance.by_rank([0.5]), latency, [1, 2], context=0, max_budget=3, max_fanout=1)
    (probabilities,) = chain_rates(made, 4)
    assert probabilities.tolist() == [0.5, 0.25, 0.125, 0.0625, 0.0625]
    lengths = {tier.tree.budget for tier in engine_controller("sglang", made, 2).tiers}
    assert lengths == {0, 1, 3, 5, 7}
