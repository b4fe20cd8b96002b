"""Each command that decides gives the same record as its call: no decision and no default is set in the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import spectheory as st
from simulate.load import parse
from simulate.serving import compare_schedules, schedules_in
from spectheory.cli import app
from spectheory.hardware.latency import DEFAULT_CONTEXT
from spectheory.hardware.runs import Run
from spectheory.planning.deployment import Deployment
from spectheory.yields.request_classes import ASSUMED
from tests.engines.examples import REPORTS

COUNTS = np.array([1000, 700, 500, 380, 300, 240])
"""Cycles of a chain of 5 that keep at least 0, 1, ..., 5 tokens."""
COUNTED = st.Acceptance.from_counts(COUNTS[1:, None], COUNTS[:-1], cycles_of=st.Tree.chain(5))
RANKED = st.Acceptance.by_rank([0.65, 0.12, 0.06])
LATENCY = st.Latency.constant(draft_seconds=0.1)


def printed(*arguments: object) -> dict[str, Any]:
    """The JSON that a command prints."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("rates", [COUNTED, RANKED], ids=["counts of cycles", "rates by rank"])
def test_plan_and_schedule_decide_as_their_calls(rates: st.Acceptance, tmp_path: Path) -> None:
    rates.save(tmp_path / "rates.json")
    LATENCY.save(tmp_path / "latency.json")
    files = "--acceptance", tmp_path / "rates.json"
    chosen = st.plan(rates, LATENCY)
    assert printed("plan", *files, "--latency", tmp_path / "latency.json") == chosen.to_dict()
    at_once = st.schedule(rates, lambda _: LATENCY, [1], context=chosen.context)
    assert (at_once.tree, at_once.tau, at_once.speedup) == (chosen.tree, chosen.tau, chosen.speedup)
    (tmp_path / "tree.json").write_text("[-1, 0, 1]")
    own = st.evaluate(st.Tree.chain(2), rates, LATENCY)
    options = "--latency", tmp_path / "latency.json", "--tree", tmp_path / "tree.json"
    assert printed("plan", *files, *options) == own.to_dict()
    place = Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    options = "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft", "eagle3", "--batch", "1,32"
    told, called = printed("schedule", *files, *options), place.schedule(rates, [1, 32]).to_dict()
    for name in set(told) - {"latencies", "provenance"}:  # which have the time at which they were made
        assert told[name] == called[name], name
    assert told["provenance"]["assumptions"] == list(called["provenance"]["assumptions"])


def calibrate(folder: Path) -> tuple[list[object], Any]:
    place, plain = {"gpu": "h100_sxm", "target": "llama-3.1-8b"}, {"1:140": (140, 1), "64:6000": (6000, 64)}
    runs = [
        Run.from_throughput(rate, kind="plain", batch=batch, context=DEFAULT_CONTEXT, source=f"--plain {text}")
        for text, (rate, batch) in plain.items()
    ]
    options = [part for name, value in place.items() for part in (f"--{name}", value)]
    return [*options, *(part for text in plain for part in ("--plain", text))], st.calibrate(runs, **place).to_dict()


def diagnose(folder: Path) -> tuple[list[object], Any]:
    file = folder / "metrics.txt"
    file.write_text(REPORTS["vllm-metrics"][0])
    found = st.engines.diagnose([file], "vllm-metrics")
    return ["vllm-metrics", file], [each.to_dict() for each in found]


def serve(folder: Path) -> tuple[list[object], Any]:
    load, planned = (
        "closed:4,count=60,prompt=16,output=16",
        st.schedule(RANKED, lambda _: LATENCY, range(1, 9), context=0),
    )
    planned.save(folder / "schedule.json")
    called = compare_schedules(schedules_in(planned), parse(load).requests(0)).to_dict()
    return ["--schedule", folder / "schedule.json", "--load", load], called


def undated(found: Any) -> Any:
    """JSON without the stamps, which have the time at which they were made."""
    if isinstance(found, dict):
        return {name: undated(value) for name, value in found.items() if name != "provenance"}
    return [undated(each) for each in found] if isinstance(found, list) else found


@pytest.mark.parametrize("case", [calibrate, diagnose, serve], ids=lambda case: case.__name__)
def test_other_commands_decide_as_their_calls(case: Callable[[Path], tuple[list[object], Any]], tmp_path: Path) -> None:
    arguments, called = case(tmp_path)
    assert undated(printed(case.__name__, *arguments)) == undated(json.loads(json.dumps(called)))


def test_counts_of_cycles_are_planned_by_classes_everywhere() -> None:
    chosen = st.plan(COUNTED, LATENCY)
    assert ASSUMED in chosen.provenance.assumptions
    classes = st.yields.RequestClasses.from_acceptance(COUNTED)
    assert chosen.tau == classes.block_efficiency(chosen.tree) != st.block_efficiency(chosen.tree, COUNTED)
