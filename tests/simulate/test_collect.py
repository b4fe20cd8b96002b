"""`simulate.collect`: identities, exact sums, the stop rule, workers, interruptions and refusals."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

import simulate
import spectheory as st
from simulate import Task, collect
from tests.helpers import refuses

ROOT = Path(__file__).parents[2]
RATES = st.Acceptance.by_rank([0.65, 0.12, 0.06])


def noisy(seed: int, *, scale: float = 1.0, die_at: str = "") -> dict[str, Any]:
    """Floats of very different sizes, whose sum depends on the order if it is rounded at each step."""
    rng = np.random.default_rng(seed)
    if die_at and len(Path(die_at, "blocks.jsonl").read_bytes().splitlines()) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"sum": scale * 10.0 ** rng.integers(-8, 9) * rng.standard_normal(), "trials": rng.integers(1, 50)}


def constant(seed: int) -> dict[str, float]:
    return {"value": 2.5, "blocks": 1}


def wrong(seed: int, *, value: Any) -> Any:
    return {"sum": value} if seed % 3 or not isinstance(value, list) else value


NOISY = Task(noisy, figure=("sum", "trials"))
DOUBLED = Task(noisy, {"scale": 2.0}, figure=("sum", "trials"))


@pytest.fixture(scope="module")
def plan() -> Any:
    return st.plan(RATES, st.Latency.constant(draft_seconds=0.1), max_budget=6)


def test_equal_tasks_have_equal_identities_in_every_process(plan: Any) -> None:
    tasks = [NOISY, DOUBLED, replace(NOISY, stream="shared"), replace(NOISY, version=2), Task(constant)]
    assert len({*tasks, Task(noisy, {}, name="another")}) == len(tasks)
    later = replace(plan, provenance=plan.provenance.replace(created="2031-01-01T00:00:00+00:00"))
    assert Task(simulate.walk, {"plan": plan}) == Task(simulate.walk, {"plan": later})
    assert Task(simulate.walk, {"plan": plan}) != Task(simulate.walk, {"plan": plan, "cycles": 10})
    code = "from tests.simulate.test_collect import DOUBLED; print(DOUBLED.identity, DOUBLED.seed(3))"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.split() == [DOUBLED.identity, str(DOUBLED.seed(3))]


def test_sums_are_exact_and_do_not_depend_on_the_workers() -> None:
    found = collect([NOISY], blocks=12)
    true = sum(Fraction(block["sum"]) for block in found.blocks[0])
    assert found.totals(NOISY)["sum"] == float(true)
    assert isinstance(found.totals(NOISY)["trials"], int)
    assert collect([NOISY], blocks=12, workers=2) == found
    assert collect([NOISY], blocks=12, workers=2, backend="threading") == found
    assert len({NOISY.seed(number) for number in range(50)} | {DOUBLED.seed(number) for number in range(50)}) == 100


def test_the_stop_rule_looks_at_doubling_numbers_of_the_first_blocks() -> None:
    everything = collect([NOISY], blocks=64)
    halves = [collect([NOISY], blocks=count).figure(NOISY).half_width for count in (8, 16, 32, 64)]
    wanted = sorted(halves)[1]
    stopped = next(count for count, half in zip((8, 16, 32, 64), halves, strict=True) if half <= wanted)
    found = collect([NOISY], blocks=64, half_width=wanted)
    assert found.blocks[0] == everything.blocks[0][:stopped]
    still = Task(constant, figure=("value", "blocks"))
    assert len(collect([still], blocks=20, half_width=0.1).blocks[0]) == 20, "a width of exactly 0 is not enough"


def test_pairs_share_what_their_stream_shares() -> None:
    pair = [replace(task, stream="arrivals") for task in (NOISY, DOUBLED)]
    found = collect(pair, blocks=16)
    gain, half = found.difference(pair[0], pair[1])
    assert gain == pytest.approx(found.figure(pair[0]).value)
    assert half == pytest.approx(found.figure(pair[0]).half_width)
    assert len(found.table().rows) == 2


def test_a_killed_run_continues_to_the_same_result(tmp_path: Path) -> None:
    """Killed after three blocks, and the last line cut: the same call counts only what is missing."""
    code = (
        "import sys, tests.simulate.test_collect as t\n"
        "t.collect([t.Task(t.noisy, {'die_at': sys.argv[1]})], blocks=8, folder=sys.argv[1])"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(run, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    file = tmp_path / "blocks.jsonl"
    lines = file.read_text().splitlines()
    assert len(lines) == 3
    file.write_text("\n".join([*lines[:2], lines[2][:10]]))
    assert subprocess.run(run, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    file.write_text(file.read_text() + lines[0].replace(", 0, ", ", 9, ") + "\n")
    subprocess.run(run, cwd=ROOT, check=True)
    blocks = {number: totals for _, number, totals in map(json.loads, file.read_text().splitlines())}
    fresh = Task(noisy, {"die_at": str(tmp_path)})
    assert all(blocks[number] == noisy(fresh.seed(number)) for number in range(8))


def test_two_writers_and_damaged_lines_are_refused(tmp_path: Path) -> None:
    with FileLock(tmp_path / "blocks.lock"):
        refuses("is in use by another process", collect, [NOISY], folder=tmp_path)
    (tmp_path / "blocks.jsonl").write_text("[1]\n")
    refuses("line 1 is damaged", collect, [NOISY], folder=tmp_path)
    refuses("tasks must be at least one and all different", collect, [NOISY, Task(noisy, {})])


@pytest.mark.parametrize(
    ("message", "task", "options"),
    [
        ("must return finite totals by name", Task(wrong, {"value": math.nan}), {}),
        ("has no total 'emitted'", NOISY, {"half_width": 0.1}),
        ("half_width must be finite and above 0", NOISY, {"half_width": 0}),
    ],
)
def test_bad_input_is_named(message: str, task: Task, options: dict[str, Any]) -> None:
    figure = ("emitted", "cycles") if "emitted" in message else task.figure
    refuses(message, collect, [replace(task, figure=figure)], **{"blocks": 4, "least": 2, **options})
