"""Ready tasks of `simulate.collect`: their blocks are what the called functions give, and paired differences of tasks.

Statistical tests have an error level of 1e-6; every seed is fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import simulate
import spectheory as st
from simulate import Collected, Server, StepTimes, Stop, Task
from simulate.load import parse
from simulate.worlds import ClassWorld, MarkovWorld, RateWorld, RecordedWorld
from spectheory.certify.zoo import SPECIMENS
from spectheory.core.ratios import ratio_half_width
from tests.known import known
from tests.refusals import refuses
from tests.simulate.counted import TASKS, noisy

RATES = st.Acceptance.by_rank([0.7, 0.1])
TIMES = Server(StepTimes.by_batch([1, 16], [st.Latency.constant(target_seconds=0.01, draft_seconds=5e-4)] * 2))
LOAD = "poisson:6,count=120,prompt=geometric:40,output=geometric:30"
LIMITS: dict[str, Any] = {"slo_ttft_seconds": 0.2, "slo_tpot_seconds": 0.008}
MARKOV = MarkovWorld(p=np.array([[0.9, 0.1], [0.4, 0.6]]), q=np.array([[0.7, 0.3], [0.4, 0.6]]))


@pytest.fixture(scope="module")
def schedules() -> dict[str, Task]:
    trees = {"off": st.Tree.chain(0), "chain": st.Tree.chain(3)}
    return {
        name: simulate.serving_task(tree, LOAD, server=TIMES, rates=RATES, name=name, **LIMITS)
        for name, tree in trees.items()
    }


@pytest.fixture(scope="module")
def served(schedules: dict[str, Task]) -> Collected:
    return simulate.collect(list(schedules.values()), stop=Stop(blocks=6))


def test_a_block_of_serving_is_a_run_of_serve(schedules: dict[str, Task], served: Collected) -> None:
    """The requests and the acceptance have the block's seed; each figure of a block is the one of the run."""
    task = schedules["chain"]
    seed = task.block(2).seed
    run = simulate.serve(st.Tree.chain(3), parse(LOAD).requests(seed), server=TIMES, rates=RATES, seed=seed, **LIMITS)
    block = replace(served[task], blocks={2: served[task].blocks[2]})
    assert (run.output_tokens == 1).any()
    assert 0 < run.goodput < run.requests_per_second
    expected = {
        "tpot": known(run.tpot).mean, "ttft": known(run.ttft).mean, "mean batch": run.mean_batch,
        "throughput": run.tokens_per_second, "goodput": run.goodput,
    }  # fmt: skip
    assert {found.figure.name: found.value for found in block.estimates()} == pytest.approx(expected, rel=1e-12)
    totals = block.total.totals
    assert (totals["drafted"], totals["accepted"], totals["unfinished"]) == (run.drafted, run.accepted, 0)


def test_schedules_of_one_stream_meet_the_same_requests(schedules: dict[str, Task], served: Collected) -> None:
    for number in range(6):
        assert schedules["off"].block(number).seed == schedules["chain"].block(number).seed
        tokens = {served[task].blocks[number].totals["tokens"] for task in schedules.values()}
        assert len(tokens) == 1
    other = simulate.serving_task(st.Tree.chain(3), LOAD, server=TIMES, rates=RATES, stream="another", **LIMITS)
    assert other.block(0).seed != schedules["chain"].block(0).seed


def test_a_paired_difference_is_narrower_than_an_independent_one(schedules: dict[str, Task], served: Collected) -> None:
    """The value is that of the figures; the interval of equal denominators is Student's of the pairs' differences."""
    off, chain = schedules["off"], schedules["chain"]
    found = served.difference(off, chain, "tpot")
    first, second = served[off].estimate("tpot"), served[chain].estimate("tpot")
    assert found.value == second.value - first.value
    assert found.value == -served.difference(chain, off, "tpot").value
    assert known(found.half_width) < math.hypot(known(first.half_width), known(second.half_width))
    by_run = simulate.Figure("tpot of a run", "tpot_seconds")
    columns = {name: [part.totals["tpot_seconds"] for part in served[task].run] for name, task in schedules.items()}
    pairs = np.subtract(columns["chain"], columns["off"])
    summed = Collected(tuple(replace(result, figures=(by_run,)) for result in served.results))
    assert summed.difference("off", "chain").half_width == pytest.approx(ratio_half_width(pairs, np.ones(6)), rel=1e-9)


def test_the_difference_of_a_task_with_itself_is_zero(served: Collected) -> None:
    for figure in served["chain"].figures:
        found = served.difference("chain", "chain", figure.name)
        assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_difference_is_over_the_blocks_that_both_have() -> None:
    """Blocks 4 to 7 are in both results. Results without a common block or without the figure have no difference."""
    task, twice = (Task(noisy, {"scale": scale}, figures=TASKS[1].figures, stream="s") for scale in (1.0, 2.0))
    longer = simulate.collect(task, stop=Stop(blocks=8))
    later = simulate.collect(twice, stop=Stop(blocks=8), first_block=4)
    found = (longer + later).difference(task, twice)
    alone = simulate.collect(task, stop=Stop(blocks=4), first_block=4)[task].estimate()
    assert found.value == pytest.approx(alone.value, rel=1e-12)
    assert found.half_width == pytest.approx(alone.half_width, rel=1e-9)
    one = longer + simulate.collect(twice, stop=Stop(blocks=1), first_block=7)
    assert one.difference(task, twice).half_width is None
    with pytest.raises(st.InputError, match="have no block in common: collect both with the same first_block"):
        (longer + simulate.collect(twice, stop=Stop(blocks=1), first_block=8)).difference(task, twice)
    refuses("has no figure 'tau', it has mean", longer.difference, task, task, "tau")


@pytest.mark.parametrize(
    ("world", "shape", "verifier", "rule"),
    [
        (RateWorld(RATES), st.Tree([-1, 0, 0, 1]), None, None),
        (ClassWorld(st.RequestClasses.from_histogram(np.array([420, 180, 110, 290]))), st.Tree.chain(3), None, None),
        (MARKOV, st.Tree.chain(2), st.verify.Block(), st.DrawRule.IID),
    ],
)
def test_a_block_of_a_world_is_its_walks(world: Any, shape: Any, verifier: Any, rule: Any) -> None:
    """The block has the walks of its random source. Over 20 blocks tau agrees with the exact value: 6.5 half-widths
    of the interval of 95% by Student's t of 19 degrees of freedom leave less than 1e-6 outside.
    """
    task = simulate.world_task(world, shape, verifier, rule, requests=3, cycles=40)
    found = simulate.collect(task, stop=Stop(blocks=20))[task]
    walks = world.walks(shape, verifier, rule, requests=3, cycles=40, rng=task.block(5).rng())
    assert found.blocks[5].tallies["accepted"] == tuple(np.bincount(walks.accepted).tolist())
    first = verifier is not None
    exact = world.tau_of_first(40, shape, verifier, rule) if first else world.block_efficiency(shape)
    assert task.settings["exact"] == exact
    tau, surplus = found.estimates()
    assert surplus.value == pytest.approx(tau.value - exact, abs=1e-12)
    assert surplus.half_width == pytest.approx(tau.half_width, rel=1e-9)
    assert abs(surplus.value) < 6.5 * (surplus.half_width or 0)


def test_a_world_without_the_exact_value_counts_the_same() -> None:
    task = simulate.world_task(MARKOV, st.Tree.chain(2), st.verify.Block(), st.DrawRule.IID, cycles=20, stream="s")
    plain = simulate.world_task(
        MARKOV, st.Tree.chain(2), st.verify.Block(), st.DrawRule.IID, cycles=20, stream="s", exact=False
    )
    assert task.run(0).tallies == plain.run(0).tallies
    assert [figure.name for figure in plain.figures] == ["tau"]


@pytest.mark.parametrize(("name", "share"), [("block-q-one", 1.0), ("token-by-token", 0.0)])
def test_certificates_of_verifiers_run_in_blocks(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong rule and one right one: the verdicts of the certifier, called with the seeds of the blocks."""
    verdicts: dict[int, st.Verdict] = {}

    def certify(verifier: Any, *, policies: Any, cases: int, seed: int, zero_coins: bool) -> Any:
        assert (verifier, policies, cases, zero_coins) == (given.given, given.policies, 6, given.zero_coins)
        certificate = st.certify_verifier(verifier, policies=policies, cases=cases, seed=seed, zero_coins=zero_coins)
        verdicts[seed] = certificate.verdict
        return certificate

    monkeypatch.setattr("spectheory.certify.certify_verifier", certify)
    task = simulate.verifier_task(name, cases=6)
    given = next(specimen for specimen in SPECIMENS if specimen.name == name)
    found = simulate.collect(task, stop=Stop(blocks=2))[task]
    assert len(verdicts) == len(found.blocks) == 2
    for number, block in found.blocks.items():
        verdict = verdicts[task.block(number).seed]
        assert block.totals["lossy"] == (verdict is st.Verdict.LOSSY)
        assert block.totals["passed"] == (verdict is st.Verdict.LOSSLESS)
    assert found.estimate("lossy").value == share


def test_what_a_ready_task_cannot_count_is_refused_when_it_is_made() -> None:
    refuses("rates must be given", simulate.serving_task, st.Tree.chain(3), LOAD, server=TIMES)
    refuses("server must be given", simulate.serving_task, None, LOAD)
    refuses("steady", simulate.serving_task, None, "steady:3", server=TIMES)
    refuses("verifier must be left out", simulate.world_task, RateWorld(RATES), st.Tree.chain(2), st.verify.Block())
    refuses("verifier must be a Verifier", simulate.world_task, MARKOV, st.Tree.chain(2), rule=st.DrawRule.IID)
    refuses(
        "has no identity",
        simulate.world_task,
        RecordedWorld(st.Replays([st.GreedyText(np.zeros(9, int), 3)])),
        st.Tree.chain(2),
        st.verify.Greedy(),
    )
