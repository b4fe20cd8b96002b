"""Plans and schedules by replay: tree, verifier and limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.errors import InputError
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed import planned_verifiers
from spectheory.replay import ChainText, GreedyText, Replays
from spectheory.verify import name_of, verifier_of
from tests.replay.inputs import LATENCY, RATES, TEXTS, TREE


def test_a_verifier_that_costs_more_than_it_gains_is_not_chosen() -> None:
    texts = Replays(TEXTS)
    free = evaluate(TREE, RATES, LATENCY, replays=texts)
    assert free.verifier is not None
    slow = replace(LATENCY, verifier_seconds={free.verifier: (100.0, 0.0, 0.0)})
    other = evaluate(TREE, RATES, slow, replays=texts)
    assert other.verifier != free.verifier
    assert other.tau <= free.tau
    assert evaluate(TREE, RATES, slow, replays=texts, verifier=free.verifier).cycle_parts()["overhead"] == 100


def test_nothing_is_drafted_where_no_replayed_tree_pays() -> None:
    slow = st.Latency.constant(draft_seconds=10)
    off = search(RATES, slow, max_budget=4, replays=Replays(TEXTS))
    assert (off.answer, off.verifier, off.replayed) == ("off", None, None)


def test_the_local_search_finds_a_shape_that_rates_by_depth_cannot_see() -> None:
    """A rank-1 token is always followed by rank 0 and then by a miss; a rank-0 token by a miss or by rank 1."""
    ranks = np.array([1, 0, -1, 0, -1] * 60)
    texts = Replays([GreedyText(np.roll(ranks, shift)) for shift in range(5)], first=0)
    rates = st.Acceptance.by_rank([0.4, 0.2])
    chosen = search(rates, st.Latency.constant(draft_seconds=0.01), max_budget=3, replays=texts)
    best = max(
        (st.Tree([-1, *parents]) for parents in ([0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2], [0, 0], [0, 1], [0])),
        key=lambda tree: evaluate(tree, rates, st.Latency.constant(draft_seconds=0.01), replays=texts).speedup,
    )
    assert chosen.tree == best


def at(batch: int) -> st.Latency:
    """Verification costs more with every sequence, so that speculation stops to pay."""
    seconds = np.array([[1.0, 1.0 + 0.05 * batch * 15]])
    return st.Latency(
        np.array([1, 16]), np.array([64]), seconds, seconds * 0.02, verifier_seconds={"RRS": (0.2, 0.0, 0.0)}
    )


def test_a_schedule_names_a_verifier_at_each_batch_size(tmp_path: Path) -> None:
    texts = Replays(TEXTS)
    made = st.schedule(RATES, at, [1, 4, 64], context=64, max_budget=6, replays=texts)
    made.save(tmp_path / "schedule.json")
    loaded = st.Schedule.load(tmp_path / "schedule.json")
    assert [one.verifier for one in loaded.options] == [one.verifier for one in made.options]
    assert made.option(2).answer == "off"
    for row, batch in enumerate((1, 4)):
        option = made.option(row)
        tree, verifier, rule = option.tree, option.verifier, option.rule
        assert verifier is not None
        assert rule is not None
        tau = texts.replay(tree, verifier_of(verifier), st.DrawRule[rule]).tau
        assert made.taus[made.choice[row]] == tau
        assert made.speedups[row] == pytest.approx(tau * at(batch).plain(64) / at(batch).cycle(tree, 64, verifier))
        assert made.speedups[row] >= made.chain_speedups[row]
        for other, how in planned_verifiers(texts, tree):
            replayed = texts.replay(tree, other, how).tau
            assert replayed / at(batch).cycle(tree, 64, name_of(other)) <= tau / at(batch).cycle(tree, 64, verifier)


@pytest.mark.parametrize(
    "limits",
    [{"max_depth": 1}, {"max_fanout": 1, "max_depth": 3}, {"max_fanout": 2, "max_depth": 2}, {}],
    ids=str,
)
@pytest.mark.parametrize("rates", [[0.4, 0.3, 0.1, 0.05], [0.0, 0.0]], ids=str)
def test_limits_and_narrow_traces_are_kept_to(limits: dict[str, Any], rates: list[float]) -> None:
    """Texts that rank two candidates, or only a chain of 3, judge no wider and no longer trees."""
    ranks = np.array([0, 1, -1, 0, 0] * 12)
    for texts in ([GreedyText(ranks, candidates=2)] * 3, [ChainText(np.array([3, 2, 1, 0] * 15), 3)] * 3):
        plan = search(st.Acceptance.by_rank(rates), LATENCY, max_budget=8, replays=Replays(texts), **limits)
        assert Replays(texts).can_replay(plan.tree)
        assert plan.tree.max_depth <= limits.get("max_depth", 8)


def test_one_long_text_does_not_decide_alone() -> None:
    """19 hard texts of 8 tokens and an easy one of 40: no chain of 32."""
    rng = np.random.default_rng(0)
    texts = [GreedyText(np.where(rng.random(8) < 0.2, 0, -1)) for _ in range(19)] + [GreedyText(np.zeros(40, int))]
    rates = st.Acceptance.by_rank([0.4, 0.1])
    plan = search(rates, LATENCY, max_budget=32, replays=Replays([*texts, GreedyText(np.array([0, 0]))]))
    assert plan.tree.max_depth <= 3
    with pytest.raises(InputError, match="texts are too short to plan with: .*; record more tokens per prompt"):
        search(RATES, LATENCY, max_budget=4, replays=Replays([GreedyText(np.array([0, 0]))]))


def test_a_greedy_plan_tells_the_paths_of_a_depth_apart() -> None:
    """Half of the cycles take rank 0 and miss, the others rank 1 and then rank 0: no tree of the rates drafts that."""
    pieces = np.array([[0, -1], [1, 0]])
    draws = np.random.default_rng(0).integers(0, 2, (6, 100))
    texts = Replays(
        [GreedyText(np.concatenate([[*pieces[i], *([-1] if i else [])] for i in row])) for row in draws], first=0
    )
    rates = st.Acceptance.by_rank([0.4, 0.3])
    plan = search(rates, st.Latency.constant(draft_seconds=0.01), max_budget=3, replays=texts)
    assert sorted(plan.tree.to_paths()) == [(0,), (1,), (1, 0)]
