"""`simulate.collect` in one process: identities, exact sums, the stop rule, results and their refusals."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from operator import add
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import simulate
import spectheory as st
from simulate import Collected, Figure, Statistics, Stop, Task, TaskError
from spectheory.certify.zoo import STEPS
from spectheory.certify.zoo.steps import StaleBuffer
from tests.known import known
from tests.refusals import refuses
from tests.simulate.counted import TASKS, Shifted, noisy, raises

ROOT = Path(__file__).parent.parent.parent
RATES = st.Acceptance.by_rank([0.65, 0.12, 0.06])


@pytest.fixture(scope="module")
def plan() -> st.Schedule:
    return st.plan(RATES, st.Latency.constant(draft_seconds=0.1), max_budget=6)


@pytest.fixture(scope="module")
def twelve() -> Collected:
    return simulate.collect(TASKS, stop=Stop(blocks=12))


def wrong(block: simulate.Block) -> Any:
    return {"trials": 1}


def other_names(block: simulate.Block) -> Statistics:
    return Statistics({"trials" if block.number < 2 else "attempts": 1})


def not_finite(block: simulate.Block) -> Statistics:
    return Statistics({"trials": math.nan})


def normal(block: simulate.Block, *, mean: float) -> Statistics:
    return Statistics({"value": block.rng().normal(mean)})


def constant(block: simulate.Block) -> Statistics:
    return Statistics({"value": 2.5})


def test_equal_tasks_have_equal_identities_and_different_ones_have_not(plan: st.Schedule) -> None:
    base = Task(noisy, {"scale": 1.0})
    assert base == Task(noisy, {"scale": np.float64(1.0)}, name="another name", figures=TASKS[0].figures)
    changed = [
        Task(noisy, {"scale": 2.0}),
        Task(noisy, {"scale": 1}),
        Task(noisy),
        Task(raises, {"at": 1}),
        Task(noisy, {"scale": 1.0}, seed=1),
        Task(noisy, {"scale": 1.0}, stream="shared"),
        Task(noisy, {"scale": 1.0}, version=2),
        Task(Shifted(1.0)),
        Task(Shifted(2.0)),
    ]
    assert len({base, *changed}) == len(changed) + 1
    later = replace(plan.provenance, created="2031-01-01T00:00:00+00:00", machine="another")
    assert simulate.walk_task(plan) == simulate.walk_task(replace(plan, provenance=later))
    assert simulate.walk_task(plan) != simulate.walk_task(plan, cycles=1_000)
    assert simulate.walk_task(plan) != simulate.walk_task(plan, world=RATES)


def test_an_identity_is_the_same_in_every_process() -> None:
    code = "from tests.simulate.counted import TASKS; print([task.identity for task in TASKS])"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == str([task.identity for task in TASKS])


def test_blocks_have_their_own_random_numbers_and_a_stream_shares_them() -> None:
    first, second = Task(noisy, {"scale": 1.0}), Task(noisy, {"scale": 2.0})
    drawn = {(task.name, n): task.block(n).rng().random() for task in (first, second) for n in range(50)}
    assert len(set(drawn.values())) == 100
    assert len({first.block(n).seed for n in range(50)}) == 50
    paired = [Task(noisy, {"scale": scale}, stream="arrivals") for scale in (1.0, 2.0)]
    for n in range(5):
        assert 2 * paired[0].run(n).totals["sum"] == paired[1].run(n).totals["sum"]


def test_settings_are_copied() -> None:
    given = {"scale": 1.0}
    task = Task(noisy, given)
    given["scale"] = 5.0
    assert task == Task(noisy, {"scale": 1.0})
    assert task.settings == {"scale": 1.0}


def test_sums_are_exact_in_every_order(twelve: Collected) -> None:
    """Python's own sum of the same numbers depends on the order; the sum of `Statistics` is the rounded true one."""
    parts = list(twelve[TASKS[0]].run)
    true = sum(Fraction(part.totals["sum"]) for part in parts)
    orders = [np.random.default_rng(seed).permutation(len(parts)) for seed in range(20)]
    assert len({sum(parts[i].totals["sum"] for i in order) for order in orders}) > 1
    for order in orders:
        total = Statistics.sum(parts[i] for i in order)
        assert total == twelve[TASKS[0]].total
        assert total.totals["sum"] == float(true)
        assert isinstance(total.totals["trials"], int)
        assert sum(total.tallies["lengths"]) == total.totals["trials"]


def test_adding_is_associative_commutative_and_counts_a_block_once(twelve: Collected) -> None:
    whole = twelve[TASKS[1]]
    parts = [
        replace(whole, blocks={n: whole.blocks[n] for n in numbers}) for numbers in ((0, 1, 2), (2, 3, 4), range(5, 12))
    ]
    a, b, c = parts
    assert (a + b) + c == a + (b + c) == c + (b + a) == whole
    assert a + a == a
    assert a + c != whole
    assert ((a + c).counted, (a + c).left_out) == (3, 7)
    assert (a + c).estimate("mean") == a.estimate("mean")


def test_results_of_different_tasks_and_contradicting_blocks_are_not_added(twelve: Collected) -> None:
    first, second = twelve[TASKS[0]], twelve[TASKS[1]]
    refuses("results of different tasks cannot be added: 'noisy scale=1.0'", add, first, second)
    altered = replace(first, blocks={0: second.blocks[0]})
    refuses("block 0 of task 'noisy scale=1.0' was counted twice with different", add, first, altered)


def test_the_stop_rule_looks_at_doubling_numbers_of_the_first_blocks() -> None:
    assert list(Stop(blocks=100, half_width=0.1).looks()) == [8, 16, 32, 64, 100]
    assert list(Stop(blocks=100).looks()) == [100]
    assert list(Stop(blocks=4, relative=0.1).looks()) == [4]
    task = Task(normal, {"mean": 4.0}, figures=(Figure("mean", "value"),))
    rule = Stop(blocks=500, half_width=0.3)
    result = simulate.collect(task, stop=rule)[task]
    everything = simulate.collect(task, stop=Stop(blocks=500))[task]
    shorter = [replace(everything, blocks={n: everything.blocks[n] for n in range(look)}) for look in rule.looks()]
    wide = [part.estimate().half_width or math.inf for part in shorter]
    stopped = next(i for i, half in enumerate(wide) if half <= 0.3)
    assert 0 < stopped < len(wide) - 1
    assert result == shorter[stopped]
    relative = simulate.collect(task, stop=Stop(blocks=500, relative=0.3 / 4))[task].estimate()
    assert known(relative.half_width) <= 0.3 / 4 * relative.value


def test_equal_blocks_are_no_proof_of_a_narrow_interval() -> None:
    """A rare event has not been seen yet in most short runs, so a width of exactly 0 does not stop."""
    task = Task(constant, figures=(Figure("value", "value"),))
    assert simulate.collect(task, stop=Stop(blocks=20, half_width=0.1))[task].counted == 20


def test_a_walk_agrees_with_the_exact_block_efficiency(plan: st.Schedule) -> None:
    """The interval, 3.5 times as wide as at 95%, holds the exact value: error level 1e-6, by t for 20 blocks."""
    task = simulate.walk_task(plan)
    result = simulate.collect(task, stop=Stop(blocks=20))[task]
    found, exact = result.estimate("tau"), st.block_efficiency(plan.tree, RATES)
    assert abs(found.value - exact) < 3.5 * known(found.half_width)
    total = result.total
    assert total.totals["cycles"] == sum(total.tallies["accepted"]) == 40_000
    assert total.totals["emitted"] == sum((n + 1) * count for n, count in enumerate(total.tallies["accepted"]))


def test_certificates_of_the_zoo_run_in_blocks() -> None:
    """They count the verdicts of the certifier, called with the seeds of the blocks and a step of fresh state."""
    step = simulate.step_task("stale-buffer", tv=0.3)
    found = simulate.collect(step, stop=Stop(blocks=4))[step]
    given = next(specimen for specimen in STEPS if specimen.name == "stale-buffer")
    direct = [
        st.certify_step(
            StaleBuffer(), given.target, contexts=((), (1,)), vocab_size=given.vocab_size, alpha=1e-3, tv=0.3,
            max_samples=20_000, seed=step.block(n).seed,
        )
        for n in range(4)
    ]  # fmt: skip
    assert found.total.totals["lossy"] == sum(test.verdict is st.Verdict.LOSSY for test in direct) > 0
    assert found.estimate("samples").value == np.mean([test.samples for test in direct])
    refuses("name must be one of zero-coin, .*, got 'no-such'", simulate.verifier_task, "no-such")


def test_progress_counts_up_to_what_was_asked() -> None:
    seen: list[tuple[int, ...]] = []
    simulate.collect(TASKS[:2], stop=Stop(blocks=3), progress=lambda *numbers: seen.append(numbers))
    assert seen == [(n, 6) for n in range(1, 7)]


LAMBDA = lambda block: Statistics({"a": 1})  # noqa: E731


def test_bad_input_is_refused_with_its_repair() -> None:
    refuses("define it at the top level of a module", Task, LAMBDA)
    refuses("function must be a function of a module or a callable frozen dataclass", Task, cast(Any, print))
    refuses("function cannot be called .* unexpected keyword argument 'size'", Task, noisy, {"size": 1})
    refuses(r"settings\['scale'\] is <object .* which has no identity", Task, noisy, {"scale": object()})
    refuses(r"settings\['scale'\] must have texts as keys, got 1", Task, noisy, {"scale": {1: 2}})
    refuses("seed must be at least 0, got -1", Task, noisy, seed=-1)
    refuses("the share 'right' needs a denominator", Figure, "right", "right", share=True)
    refuses("blocks must be at least 1, got 0", Stop, blocks=0)
    refuses("half_width must be finite and above 0, got nan", Stop, half_width=math.nan)
    refuses("least must be at least 2, got 1", Stop, least=1)
    refuses("the total 'a' must be a finite number up to 1e\\+100, got inf", Statistics, {"a": math.inf})
    refuses("the total 'a' must be a finite number", Statistics, {"a": True})
    refuses("the tally 'a' must be a list of whole numbers of at least 0", Statistics, {}, {"a": (1, -1)})
    refuses("parts must hold at least one Statistics, got none", Statistics.sum, [])
    refuses("tasks must hold at least one simulate.Task, got none", simulate.collect, [])
    refuses("two tasks are the same", simulate.collect, [TASKS[0], TASKS[0]])
    refuses("workers must be at least 1, or -1 for all cores, got 0", simulate.collect, TASKS[0], workers=0)
    refuses("the backend 'spark' cannot be used", simulate.collect, TASKS[0], backend="spark")
    refuses("the backend 'dask' cannot be used: .* Dask Client", simulate.collect, TASKS[0], backend="dask")
    refuses("block 2 has the totals .'attempts'., block 0 of task", simulate.collect, Task(other_names))
    refuses("function must return simulate.Statistics, got {'trials': 1}", simulate.collect, Task(wrong))
    refuses("block 0 of task 'not_finite' raised .* got nan", simulate.collect, Task(not_finite))
    refuses("has no figure 'tau'", simulate.collect, TASKS[0], stop=Stop(half_width=1, figure="tau"))
    refuses("no figure '', it has no figures", simulate.collect, Task(noisy), stop=Stop(half_width=1))
    refuses("folders must name at least one folder", simulate.combine)


def test_a_task_that_raises_is_named_with_its_settings_and_traceback(tmp_path: Path) -> None:
    task = Task(raises, {"at": 4})
    with pytest.raises(TaskError, match=r"block 4 of task 'raises at=4' raised ZeroDivisionError: no trials") as caught:
        simulate.collect(task, stop=Stop(blocks=8), folder=tmp_path)
    assert "{'at': 4}" in str(caught.value)
    assert 'raise ZeroDivisionError("no trials")' in caught.value.__notes__[0]
    assert simulate.combine(tmp_path)[task].counted == 4


def test_the_example_runs_and_agrees_with_the_exact_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of 6 values is within 3.5 half-widths of the exact one: error level 5e-4, by Student's t for 8 blocks."""
    example = runpy.run_path(str(ROOT / "examples" / "collect_sweep.py"), run_name="collect_sweep")
    found = example["main"](tmp_path, half_width=0.1, workers=1)
    assert "walk planned=0.8 true=0.6" in capsys.readouterr().out
    assert (tmp_path / "tau.svg").read_text().startswith("<svg ")
    for row in found.to_rows():
        rates = st.Acceptance.by_rank([row["planned"], 0.1])
        tree = st.plan(rates, st.Latency.constant(draft_seconds=0.1), max_budget=8).tree
        exact = st.block_efficiency(tree, st.Acceptance.by_rank([row["true"], 0.1]))
        assert abs(row["tau"] - exact) < 3.5 * (row["tau_high"] - row["tau_low"]) / 2


def test_the_example_of_a_matrix_decodes_the_prompts_of_the_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every lossless combination is there. A block depends on its prompt and its seeds alone."""
    example = runpy.run_path(str(ROOT / "examples" / "collect_matrix.py"), run_name="collect_matrix")
    found = example["main"](tmp_path, prompts=2, new_tokens=4, workers=1)
    said = capsys.readouterr().out
    assert said.count("tokens per target call against chain of 4, NSS") == 2 * (len(found.results) // 2 - 1)
    rows = found.to_rows()
    assert {(row["verifier"], row["temperature"]) for row in rows} == {
        (verifier, temperature) for verifier in ("NSS", "RRS", "Block", "Traversal") for temperature in (0.6, 1.0)
    }
    assert not [row for row in rows if "tree of 12, Block" in row["task"]]
    task = example["tasks"](4)[-1]
    block = task.run(1)
    assert found[task].blocks[1] == block
    assert 4 <= block.totals["emitted"] <= 3 + 1 + task.settings["tree"].max_depth
    assert simulate.combine(tmp_path) == found
