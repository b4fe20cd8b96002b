"""Tuning: against trying every schedule of a small problem, the record, and the command line."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from simulate import Server, serve, tune
from simulate.load import Geometric, Load, Requests, poisson
from simulate.tuning.options import Options, neighbours, segments
from simulate.tuning.search import Trials
from spectheory.planning.schedule_record import OFF
from tests.command_line import Run, refused, run, succeeded
from tests.refusals import refuses

__all__ = ["run"]

RATES = st.Acceptance.by_depth_and_rank([[0.8, 0.1], [0.7, 0.1], [0.6, 0.1]])
LIMITS: dict[str, Any] = {"slo_ttft_seconds": 1.0, "slo_tpot_seconds": 0.02}
LARGEST = 12


def latency(batch: int) -> st.Latency:
    """Forwards of 8 ms and 0.25 ms a token, drafts of 1 ms: speculation stops to pay at large batch sizes."""
    tokens = np.array([1, 2, 4, 8])
    stamp = st.Provenance("test", batch=batch, target="target", draft="an-eagle3-head")
    draft = np.full((1, 4), 1e-3)
    return st.Latency(
        tokens, np.array([0]), (8e-3 + 25e-5 * batch * tokens)[None], draft, computed=True, provenance=stamp
    )


def planned(batches: int = LARGEST, **limits: Any) -> st.Schedule:
    given: dict[str, Any] = {"max_budget": 5, **limits}
    return st.schedule(RATES, latency, list(range(1, batches + 1)), context=0, **given)


def load(rate: float = 8, count: int = 250) -> Load:
    def draw(seed: int) -> Requests:
        return poisson(rate, count, prompt=40, output=Geometric(60), seed=seed)

    return Load(f"poisson:{rate:g}", draw=draw)


@pytest.mark.parametrize("rate", [6, 14, 22])
def test_the_search_comes_within_half_a_percent_of_all_schedules_of_a_small_problem(rate: float) -> None:
    schedule = planned(4, max_budget=2, max_fanout=1)
    options = Options.of(schedule, Server.of(schedule), None)
    assert options.chains == options.ordered
    assert len(options.ordered) == 3
    replications = [(seed, load(rate).requests(seed)) for seed in (0, 1)]
    trials = Trials(options, replications, dict(LIMITS), 10_000, lambda *_: None)
    best, _ = trials.search()
    tried = len(trials.known)
    every = max(itertools.product(options.ordered, repeat=4), key=trials.score)
    assert trials.measured(best)[0] >= 0.995 * trials.measured(every)[0]
    assert trials.score(best) >= max(trials.score(choice) for choice in neighbours(best, options.ordered, 1))
    assert tried < 3**4


def test_neighbours_change_one_thing_and_reach_every_schedule() -> None:
    """From any start, steps of 1 lead to all choices of three trees at three batch sizes."""
    reached, front = {(0, 0, 0)}, {(0, 0, 0)}
    while front:
        front = {other for choice in front for other in neighbours(choice, [0, 2, 1], 1)} - reached
        reached |= front
    assert reached == set(itertools.product((0, 1, 2), repeat=3))
    for other in neighbours((0, 0, 2, 2, 2, 1), [0, 2, 1], 2):
        assert len(other) == 6
        assert len(segments(other)) <= 5


def test_a_schedule_that_locks_itself_out_of_speculation_is_mended() -> None:
    """Chains up to batch size 3 and nothing above stays off at a load that chains hold at small batch sizes."""
    schedule = planned()
    chain = int(schedule.chain_choice[0])
    off = len(schedule.trees)
    choice = np.where(schedule.batches <= 3, chain, off)
    locked = replace(schedule, options=(*schedule.options, OFF), choice=choice, chain_choice=choice)
    tuned = tune(locked, load(14), replications=6, tries=60, slo_tpot_seconds=0.0075)
    gain = tuned.against("planned")
    assert gain.low > 0
    assert tuned.mean_goodput[0] > 1.5 * tuned.mean_goodput[tuned.names.index("planned")]
    assert tuned.distance <= 0.01


def test_a_tuned_schedule_is_judged_on_loads_that_it_was_not_chosen_on() -> None:
    schedule, told = planned(), []
    tuned = tune(schedule, load(), replications=4, tries=30, seed=5, progress=lambda *at: told.append(at), **LIMITS)
    assert tuned.seeds.tolist() == [7, 8]
    assert (tuned.searched, tuned.tried) == (2, told[-1][0])
    assert tuned.tried <= 31
    for name, source in (("tuned", tuned.schedule), ("planned", schedule), ("off", None)):
        row = tuned.names.index(name)
        for column, seed in enumerate((7, 8)):
            alone = serve(source, load().requests(seed), server=Server.of(schedule), seed=seed, **LIMITS)
            assert tuned.goodput[row, column] == alone.goodput
            assert alone.tpot is not None
            assert tuned.tpot_seconds[row, column] == alone.tpot.mean
    again = tune(schedule, load(), replications=4, tries=30, seed=5, **LIMITS)
    assert again.schedule.ranges() == tuned.schedule.ranges()
    assert np.array_equal(again.goodput, tuned.goodput)


def test_the_record_computes_its_distance_and_intervals(tmp_path: Path) -> None:
    tuned = tune(planned(), load(), replications=4, tries=12, **LIMITS)
    goodput = np.array([[3.0, 5.0], [4.0, 5.0], [1.0, 2.0], [0.0, 0.0]])
    names = ("tuned", "other", "planned", "off")
    made = replace(tuned, names=names, goodput=goodput, ttft_seconds=goodput, tpot_seconds=goodput)
    assert made.best_found == "other"
    assert made.distance == pytest.approx(0.5 / 4.5)
    half = 12.706204736 * np.std([1, 0], ddof=1) / np.sqrt(2)
    assert made.distance_low == pytest.approx((0.5 - half) / 4.5)
    assert made.distance_high == pytest.approx((0.5 + half) / 4.5)
    assert made.against("off").mean == 4
    assert made.against("tuned") == (0, 0, 0)
    made.save(tmp_path / "tuned.json")
    same = st.Tuned.load(tmp_path / "tuned.json")
    assert same.to_dict() == made.to_dict()
    refuses("name must be one of tuned, other, planned, off", made.against, "best")
    for changes, message in (
        ({"names": ("other", "tuned", "planned", "off")}, "tuned .the first."),
        ({"goodput": goodput[:2]}, "goodput must have a value"),
        ({"goodput": goodput * np.nan}, "goodput must have a value"),
        ({"tried": 0}, "tried must be at least 1"),
    ):
        refuses(message, replace, made, **changes)


def test_engines_take_the_tuned_chains() -> None:
    tuned = tune(planned(), load(18), replications=4, tries=40, **LIMITS)
    made = st.export(tuned.schedule, "vllm")
    config = json.loads(made.args[1])
    chains = [(first, last, tree.budget) for first, last, tree in tuned.schedule.chain_ranges()]
    table = config.get("num_speculative_tokens_per_batch_size", [[1, LARGEST, config["num_speculative_tokens"]]])
    assert [tuple(entry) for entry in table] == chains
    assert all(tree.is_chain for _, _, tree in tuned.schedule.chain_ranges())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replications": 5}, "replications must be even"),
        ({"replications": 2}, "replications must be at least 4"),
        ({"tries": 0}, "tries must be at least 1"),
        ({"load": "poisson:0"}, "rate must be a finite number above 0"),
        ({"slo_ttft_seconds": float("nan")}, "slo_ttft_seconds"),
        ({"load": "poisson:3000"}, "load must be at most .* or give the number of requests"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    refuses(message, tune, **{"schedule": planned(2), "load": load(), **changes})


def test_the_command_writes_the_tuned_schedule_and_the_settings_of_engines(run: Run) -> None:
    planned().save("schedule.json")
    options = ("--schedule", "schedule.json", "--load", "poisson:10,count=150,prompt=40,output=60")
    options = (*options, "--replications", 4, "--tries", 20, "--slo-ttft", 1, "--slo-tpot", 0.02)
    shown = succeeded(run("tune", *options, "--engine", "vllm", "--out", "tuned.json"))
    assert "Tuned schedule" in shown.output
    assert "--speculative-config" in shown.output
    assert "TTFT at most 1000 ms and TPOT at most 20 ms" in " ".join(shown.output.split())
    saved = st.Schedule.load("tuned.json")
    record = json.loads(run("tune", *options, "--json").stdout)
    assert record["schedule"]["choice"] == saved.choice.tolist()
    assert record["load_text"] == options[3]
    refused(run("tune", *options, "--load", "poison:3"), "unknown load 'poison'")
    refused(run("tune", *options, "--max-sequences", 99), "max_sequences must be at most 12")
    strict = " ".join(run("tune", *options, "--slo-ttft", 1e-6).stdout.split())
    assert "has no request within the limits, nor has any other: the limits are too strict" in strict
    refused(run("tune", *options, "--out", "schedule.json"), "is an input of this command")
