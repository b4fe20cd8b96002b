"""What engines run of a replayed plan: chains and their losses by replay, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulate
import spectheory as st
from spectheory.planning.fitting import BY_RATES, Fitting
from spectheory.planning.length_rules import at_most, one_length
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed_options import planned_verifiers
from spectheory.planning.replayed_tree import replayed_tree
from spectheory.planning.scheduler import schedule_of
from spectheory.planning.tried_trees import TriedTrees
from spectheory.replay import GreedyText, Replays
from spectheory.verify import name_of, verifier_of
from spectheory.yields import block_efficiency
from tests.known import known
from tests.refusals import refuses
from tests.replay.inputs import RATES, TEXTS

NAMED = st.Provenance.now("test", draft="my/draft")
LATENCY = replace(st.Latency.constant(draft_seconds=0.05), provenance=NAMED)
REPLAYS = Replays(TEXTS)
PLAN = search(RATES, LATENCY, max_budget=8, replays=REPLAYS)


def fastest_chains(latency: st.Latency, context: int = 0) -> dict[int, float]:
    """For each length the highest replayed speedup of any verifier, one replay at a time."""
    found = {}
    for length in (1, 2, 3, 4, 5, 6, 8):
        chain = st.Tree.chain(length)
        found[length] = max(
            REPLAYS.replay(chain, verifier, rule).tau
            * latency.plain(context)
            / latency.cycle(chain, context, name_of(verifier))
            for verifier, rule in planned_verifiers(REPLAYS, chain)
        )
    return found


def test_the_chain_beside_a_replayed_tree_is_the_fastest_replayed_one() -> None:
    assert PLAN.answer == "tree"
    assert PLAN.chain is not None
    chains = fastest_chains(LATENCY)
    best = max(chains, key=lambda length: chains[length])
    assert PLAN.chain.tree == st.Tree.chain(best)
    made = schedule_of(PLAN)
    assert made.speedup[0] == PLAN.speedup
    assert made.chain_speedup[0] == pytest.approx(chains[best], rel=1e-12)
    assert made.block_efficiency_interval is not None
    lost = 1 - chains[best] / PLAN.speedup
    exported = st.export(PLAN, "llama.cpp")
    assert f"--spec-draft-n-max {best}" in exported.command
    assert exported.notes[0] == f"for batch size 1: predicted {lost:.1%} slower than the plan"
    assert exported.notes[1] == (
        f"tau is that of {PLAN.chain.verifier}, and differs if the engine verifies by another rule"
    )


def test_an_engine_with_a_limit_gets_the_fastest_chain_that_was_replayed_within_it() -> None:
    fitting = Fitting.of(PLAN)
    chains = fastest_chains(LATENCY)
    expected = [1.0, *(chains.get(length, 0.0) for length in range(1, 9))]
    np.testing.assert_allclose(fitting.speeds.chain_speedups, [expected], rtol=1e-12)
    assert fitting.chains(at_most(1), "X takes").speedups[0] == pytest.approx(chains[1])
    assert fitting.chains(one_length(7), "X takes").runs[0].length in chains


def test_an_envelope_keeps_its_share_of_the_plan_by_the_rates() -> None:
    fitting = Fitting.of(PLAN)
    found = fitting.speeds.first_envelope
    by_rates = block_efficiency(PLAN.tree, RATES) * PLAN.plain_seconds / PLAN.cycle_seconds
    expected = found.speedup_at(LATENCY, 0) / by_rates
    assert fitting.speeds.envelope_speedups(found) / PLAN.speedup == pytest.approx([expected])
    assert BY_RATES in st.export(PLAN, "eagle", draft="my/eagle").notes
    assert BY_RATES not in st.export(search(RATES, LATENCY, max_budget=8), "eagle", draft="my/eagle").notes


def test_a_tree_of_a_schedule_is_timed_with_its_replayed_tau_everywhere() -> None:
    made = st.schedule(RATES, lambda batch: LATENCY, [1, 2], context=0, max_budget=8, replays=REPLAYS)
    fitting = Fitting.of(made)
    assert fitting.speeds.tree_speedups == pytest.approx(made.speedup)
    assert made.tried is not None
    assert fitting.speeds.chain_speedups.max(1) == pytest.approx(made.chain_speedup)


def test_a_chain_of_ones_own_that_was_replayed_is_the_chain_that_is_exported() -> None:
    texts = Replays([GreedyText(np.array([0, -1] * 20))] * 2)
    made = schedule_of(evaluate(st.Tree.chain(2), st.Acceptance.by_rank([0.9]), LATENCY, replays=texts))
    assert made.trees[made.chain_choice[0]] == st.Tree.chain(2)


def test_curves_are_replayed_at_the_replayed_budgets(tmp_path: Path) -> None:
    curves = PLAN.by_budget
    assert PLAN.tree.budget in curves.budgets
    at = int(np.searchsorted(curves.budgets, PLAN.tree.budget))
    assert curves.tree_speedup.max() == curves.tree_speedup[at] == pytest.approx(PLAN.speedup)
    chains = fastest_chains(LATENCY)
    assert curves.fastest_chain == max(chains, key=lambda length: chains[length])
    for length, speedup in chains.items():
        assert curves.speedup_of_chain(length) == pytest.approx(speedup)
    assert (np.diff(curves.tree_block_efficiency) >= 0).all()
    PLAN.save(tmp_path / "plan.json")
    loaded = st.Plan.load(tmp_path / "plan.json")
    np.testing.assert_array_equal(np.array(loaded.by_budget), np.array(curves))
    assert schedule_of(loaded).chain_speedup == schedule_of(PLAN).chain_speedup


def test_the_reach_of_a_replayed_tree_is_replayed_and_a_drawing_says_so(tmp_path: Path) -> None:
    chain = evaluate(st.Tree.chain(3), RATES, LATENCY, replays=REPLAYS)
    for made in (chain, PLAN):
        assert made.reach.sum() == pytest.approx(made.block_efficiency)
        assert made.reach_source == "nodes by replay of recorded texts"
    verifier, rule = verifier_of(PLAN.verifier or ""), st.DrawRule[PLAN.rule or ""]
    np.testing.assert_array_equal(PLAN.reach, REPLAYS.reach(PLAN.tree, verifier, rule))
    PLAN.save(tmp_path / "plan.json")
    np.testing.assert_array_equal(st.Plan.load(tmp_path / "plan.json").reach, PLAN.reach)
    np.testing.assert_array_equal(schedule_of(PLAN).reach(0).values, PLAN.reach)
    assert search(RATES, LATENCY, max_budget=8).reach_source == "nodes by the rates"


def test_a_simulation_of_a_replayed_plan_gives_the_replayed_tau() -> None:
    """20,000 cycles; the interval holds the exact tau for 95 in 100 seeds, and this seed is one of them."""
    low, high = simulate.run(PLAN).tau_interval()
    assert low <= PLAN.block_efficiency <= high
    assert not low <= block_efficiency(PLAN.tree, RATES) <= high
    low, high = simulate.run(PLAN, world=RATES).tau_interval()
    assert low <= block_efficiency(PLAN.tree, RATES) <= high


def test_a_schedule_of_replayed_trees_has_intervals_without_counts() -> None:
    made = st.schedule(RATES, lambda batch: LATENCY, [1], context=0, max_budget=8, replays=REPLAYS)
    assert RATES.trials is None
    low, high = made.speedup_interval
    assert known(low)[0] < made.speedup[0] < known(high)[0]


SLOW = replace(st.Latency.constant(draft_seconds=9.0), provenance=NAMED)
SCHEDULE = st.schedule(
    RATES, lambda batch: LATENCY if batch == 1 else SLOW, [1, 2], context=0, max_budget=8, replays=REPLAYS
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replayed": (None,) * 3, "verifiers": (None,) * 3, "rules": (None,) * 3}, "replayed must be given for Tree"),
        ({"tried": None}, "tried must be given together with verifiers"),
        ({"choice": SCHEDULE.chain_choice}, r"choice must hold the fastest, but at batch 1 Tree.* is faster than"),
        ({"choice": SCHEDULE.choice[[0, 0]]}, r"choice must hold the fastest, but at batch 2 Tree.chain\(0\) is"),
        ({"chain_choice": SCHEDULE.choice[[1, 1]]}, "chain_choice must hold the fastest, but at batch 1 Tree.chain"),
        (
            {"latencies": tuple(replace(LATENCY, provenance=NAMED.replace(batch=batch)) for batch in (2, 1))},
            r"latencies must be in the order of the batches, got latencies of batches \[2, 1\]",
        ),
    ],
)
def test_a_schedule_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    assert len(SCHEDULE.trees) == 3
    refuses(message, replace, SCHEDULE, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tried": None, "chain": None}, "tried must be given, because Tree.* was replayed"),
        ({"tried": PLAN.tried and replace(PLAN.tried, tau=PLAN.tried.tau * 0.99 + 0.01)}, "tried must hold Tree"),
        ({"verifier": None, "rule": None, "replayed": None}, "replayed must be given for Tree"),
        ({"chain": replayed_tree(PLAN.tree, PLAN.verifier, PLAN.rule, PLAN.replayed)}, "chain must be a chain, got"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    refuses(message, replace, PLAN, **change)


def test_tried_trees_that_cannot_be_are_refused() -> None:
    good = TriedTrees((st.Tree.chain(2),) * 2, ("Block", "Naive"), np.array([1.6, 1.5]))
    refuses("must have one entry each", replace, good, tau=np.array([1.5]))
    refuses(
        "verifiers must be able to verify their trees, got Block for Tree.chain",
        replace,
        good,
        trees=(st.Tree.chain(0),) * 2,
    )
    refuses("verifiers must be able to verify their trees, got Block", replace, good, trees=(st.Tree.k_ary(2, 2),) * 2)
    refuses(r"tau of Tree.chain\(2\) must be between 1 and 3, got 4.5", replace, good, tau=np.array([1.5, 4.5]))
    refuses("'Nobody'", replace, good, verifiers=("Block", "Nobody"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: evaluate(st.Tree.chain(0), RATES, LATENCY, replays=REPLAYS, verifier="Bogus"),
            r"verifier 'Bogus' needs a tree with drafted nodes, got Tree.chain\(0\)",
        ),
        (
            lambda: evaluate(st.Tree.chain(2), RATES, LATENCY, replays=TEXTS),  # type: ignore[arg-type]
            "replays must be a Replays, made from texts of the target, got",
        ),
        (
            lambda: search(RATES, LATENCY, max_budget=2, replays="trace"),  # type: ignore[arg-type]
            "replays must be a Replays, .*, got 'trace'",
        ),
        (
            lambda: st.schedule(RATES, lambda _: LATENCY, [1], context=0, max_budget=2, replays=3),  # type: ignore
            "replays must be a Replays, .*, got 3",
        ),
        (
            lambda: evaluate(st.Tree.chain(2), RATES, LATENCY, replays=REPLAYS, verifier=["Block"]),  # type: ignore
            r"verifier must be a name, such as 'Traversal', got \['Block'\]",
        ),
    ],
)
def test_arguments_of_another_type_are_refused(call: Any, message: str) -> None:
    refuses(message, call)


def test_verifiers_without_overheads_of_their_own_are_named() -> None:
    sentences = PLAN.provenance.assumptions
    assert any("the overheads of Block, Naive, RRS, Traversal were not measured" in one for one in sentences)
    every: dict[str, tuple[float, ...]] = dict.fromkeys(("Block", "Naive", "RRS", "Traversal"), (0.0, 0.0, 0.0))
    timed = search(RATES, replace(LATENCY, verifier_seconds=every), max_budget=8, replays=REPLAYS)
    assert not any("were not measured" in one for one in timed.provenance.assumptions)
    greedy = Replays([GreedyText(np.array([0, 0, -1] * 20))] * 2)
    assert not any(
        "were not" in one for one in search(RATES, LATENCY, max_budget=4, replays=greedy).provenance.assumptions
    )
