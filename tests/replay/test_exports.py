"""What engines run of a replayed plan: chains and their losses by replay, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulate
import spectheory as st
from spectheory.planning.fitting import BY_RATES, Fitting, at_most, one_length
from spectheory.planning.planner import PRODUCT, evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed import planned_verifiers
from spectheory.planning.schedule_record import EDITED
from spectheory.replay import GreedyText, Replays
from spectheory.results.plan_comparison import mismatches
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
    chains = fastest_chains(LATENCY)
    best = max(chains, key=lambda length: chains[length])
    assert PLAN.chain.tree == st.Tree.chain(best)
    assert PLAN.chain_speedups[0] == pytest.approx(chains[best], rel=1e-12)
    assert PLAN.tau_interval is not None
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
    np.testing.assert_allclose(fitting.chain_speedups, [expected], rtol=1e-12)
    assert fitting.chains(at_most(1), "X takes").speedups[0] == pytest.approx(chains[1])
    assert fitting.chains(one_length(7), "X takes").runs[0].length in chains


def test_an_envelope_keeps_its_share_of_the_plan_by_the_rates() -> None:
    fitting = Fitting.of(PLAN)
    found = fitting.first_envelope
    by_rates = block_efficiency(PLAN.tree, RATES) * PLAN.plain_seconds / PLAN.cycle_seconds
    expected = found.speedups[0] / by_rates
    assert fitting.envelope_speedups(found) / PLAN.speedup == pytest.approx([expected])
    assert BY_RATES in st.export(PLAN, "eagle", draft="my/eagle").notes
    assert BY_RATES not in st.export(search(RATES, LATENCY, max_budget=8), "eagle", draft="my/eagle").notes


def test_a_tree_of_a_schedule_is_timed_with_its_replayed_tau_everywhere() -> None:
    made = st.schedule(RATES, lambda batch: LATENCY, [1, 2], context=0, max_budget=8, replays=REPLAYS)
    fitting = Fitting.of(made)
    assert fitting.tree_speedups == pytest.approx(made.speedups)
    assert fitting.chain_speedups.max(1) == pytest.approx(made.chain_speedups)


def test_a_chain_of_ones_own_that_was_replayed_is_the_chain_that_is_exported() -> None:
    texts = Replays([GreedyText(np.array([0, -1] * 20))] * 2)
    made = evaluate(st.Tree.chain(2), st.Acceptance.by_rank([0.9]), LATENCY, replays=texts)
    assert made.chain.tree == st.Tree.chain(2)


def test_the_reach_of_a_replayed_tree_is_replayed_and_a_drawing_says_so(tmp_path: Path) -> None:
    chain = evaluate(st.Tree.chain(3), RATES, LATENCY, replays=REPLAYS)
    for made in (chain, PLAN):
        assert made.reach.sum() == pytest.approx(made.tau)
        assert made.reach_source == "nodes by replay of recorded texts"
    verifier, rule = verifier_of(PLAN.verifier or ""), st.DrawRule[PLAN.option().rule or ""]
    np.testing.assert_array_equal(PLAN.reach, REPLAYS.reach(PLAN.tree, verifier, rule))
    PLAN.save(tmp_path / "plan.json")
    np.testing.assert_array_equal(st.Schedule.load(tmp_path / "plan.json").reach, PLAN.reach)
    assert search(RATES, LATENCY, max_budget=8).reach_source == "nodes by the rates"


def test_a_simulation_of_a_replayed_plan_gives_the_replayed_tau() -> None:
    """20,000 cycles; the interval holds the exact tau for 95 in 100 seeds, and this seed is one of them."""
    low, high = simulate.run(PLAN).tau_interval()
    assert low <= PLAN.tau <= high
    assert not low <= block_efficiency(PLAN.tree, RATES) <= high
    low, high = simulate.run(PLAN, world=RATES).tau_interval()
    assert low <= block_efficiency(PLAN.tree, RATES) <= high


def test_a_schedule_of_replayed_trees_has_intervals_without_counts() -> None:
    made = st.schedule(RATES, lambda batch: LATENCY, [1], context=0, max_budget=8, replays=REPLAYS)
    assert RATES.trials is None
    low, high = known(made.speedup_interval())
    assert low < made.speedup < high


def test_a_prediction_from_rates_assumes_a_product_of_rates_and_a_replayed_one_does_not() -> None:
    for tree, assumed in ((PLAN.tree, True), (st.Tree.chain(0), False)):
        assert (PRODUCT in evaluate(tree, RATES, LATENCY).provenance.assumptions) == assumed
    assert PRODUCT not in PLAN.provenance.assumptions


def test_a_comparison_uses_what_was_replayed_and_says_which_verifier_differs() -> None:
    theory = st.compare(PLAN, None).theory
    assert theory.tau == known(PLAN.replayed).tau
    assert theory.accepted @ np.arange(1, PLAN.tree.max_depth + 2) == pytest.approx(theory.tau)
    same, other = str(verifier_of(known(PLAN.verifier))), "TopDown(solver=NSS())"
    assert mismatches(PLAN, st.Provenance("decoding", verifier=same)) == []
    assert mismatches(PLAN, st.Provenance("decoding", verifier=other)) == [
        f"the plan was made for the verifier {same}, while decoding uses {other}"
    ]


def test_an_interval_needs_cycles_in_two_texts() -> None:
    texts = Replays([GreedyText(np.zeros(30, int)), GreedyText(np.zeros(3, int))])
    assert evaluate(st.Tree.chain(8), RATES, LATENCY, replays=texts).tau_interval is None


def test_a_plan_that_is_off_by_replay_exports_nothing() -> None:
    texts = Replays([GreedyText(np.full(50, -1))] * 2)
    off = search(st.Acceptance.by_rank([0.9]), LATENCY, max_budget=8, replays=texts)
    assert off.summary.startswith("Do not speculate: after 0 tokens of context no draft is predicted")
    assert (off.tree, off.chain.tree) == (st.Tree.chain(0), st.Tree.chain(0))
    assert st.export(off, "llama.cpp").args == ("--spec-type", "none")


def test_an_edited_tree_is_evaluated_again_by_the_rates_and_says_so() -> None:
    data = PLAN.to_dict()
    data["options"][PLAN.choice[0]]["tree"] = st.Tree.k_ary(2, 2).parent.tolist()
    edited = st.Schedule.from_dict(data)
    assert edited.tau == block_efficiency(st.Tree.k_ary(2, 2), RATES)
    assert EDITED in edited.summary
    assert mismatches(edited, st.Provenance("decoding")) == [f"the plan's tree was {EDITED}"]
    assert st.Schedule.from_dict(edited.to_dict()).summary == edited.summary


def test_cycles_of_another_tree_are_refused() -> None:
    refuses("replayed must be of Tree.*: plan again", replace, PLAN.option(), tree=st.Tree.chain(1), planned=None)


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
    ],
)
def test_arguments_of_another_type_are_refused(call: Any, message: str) -> None:
    refuses(message, call)


def test_verifiers_without_overheads_of_their_own_are_named() -> None:
    sentences = PLAN.provenance.assumptions
    assert any(one.startswith("the overheads of ") and f"{PLAN.verifier}" in one for one in sentences)
    every: dict[str, tuple[float, ...]] = dict.fromkeys(("Block", "Naive", "RRS", "Traversal"), (0.0, 0.0, 0.0))
    timed = search(RATES, replace(LATENCY, verifier_seconds=every), max_budget=8, replays=REPLAYS)
    assert not any("were not measured" in one for one in timed.provenance.assumptions)
    greedy = Replays([GreedyText(np.array([0, 0, -1] * 20))] * 2)
    assert not any(
        "were not" in one for one in search(RATES, LATENCY, max_budget=4, replays=greedy).provenance.assumptions
    )
