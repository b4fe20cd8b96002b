"""Plans and schedules by replay: tree, verifier and limits, and what they say, export and compare."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import simulate
import spectheory as st
from spectheory.planning.fitting import BY_RATES, Fitting, at_most, one_length
from spectheory.planning.planner import PRODUCT, evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed import WEIGHT, counted_paths, planned_verifiers
from spectheory.replay import GreedyText, Replays
from spectheory.results.plan_comparison import mismatches
from spectheory.verify import name_of, verifier_of
from spectheory.yields import block_efficiency
from tests.helpers import refuses
from tests.replay.enumerated import LATENCY, RATES, TEXTS

REPLAYS = Replays(TEXTS)
TIMES = replace(LATENCY, provenance=st.Provenance.now("test", draft="my/draft"))
PLAN = search(RATES, TIMES, max_budget=8, replays=REPLAYS)
FAST = st.Latency.constant(draft_seconds=0.01)


def test_the_local_search_finds_a_shape_that_rates_by_depth_cannot_see() -> None:
    """A rank-1 token is always followed by rank 0 and then by a miss; a rank-0 token by a miss or by rank 1."""
    ranks = np.array([1, 0, -1, 0, -1] * 60)
    texts = Replays([GreedyText(np.roll(ranks, shift)) for shift in range(5)], first=0)
    rates = st.Acceptance.by_rank([0.4, 0.2])
    best = max(
        (st.Tree([-1, *parents]) for parents in ([0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2], [0, 0], [0, 1], [0])),
        key=lambda tree: evaluate(tree, rates, FAST, replays=texts).speedup,
    )
    assert search(rates, FAST, max_budget=3, replays=texts).tree == best


def at(batch: int) -> st.Latency:
    """Verification costs more with every sequence, so that speculation stops to pay."""
    seconds = np.array([[1.0, 1.0 + 0.05 * batch * 15]])
    return st.Latency(
        np.array([1, 16]), np.array([64]), seconds, seconds * 0.02, verifier_seconds={"RRS": (0.2, 0.0, 0.0)}
    )


def test_a_schedule_names_a_verifier_at_each_batch_size(tmp_path: Path) -> None:
    made = st.schedule(RATES, at, [1, 4, 64], context=64, max_budget=6, replays=REPLAYS)
    made.save(tmp_path / "schedule.json")
    loaded = st.Schedule.load(tmp_path / "schedule.json")
    assert [one.verifier for one in loaded.options] == [one.verifier for one in made.options]
    off = made.option(2)
    assert (off.answer, off.verifier, off.replayed) == ("off", None, None)
    for row, batch in enumerate((1, 4)):
        tree, used = made.option(row).tree, made.option(row).verifier
        speeds = {
            name_of(other): REPLAYS.replay(tree, other, rule).tau / at(batch).cycle(tree, 64, name_of(other))
            for other, rule in planned_verifiers(REPLAYS, tree)
        }
        assert used == max(speeds, key=lambda name: speeds[name])
        assert made.speedups[row] == pytest.approx(speeds[str(used)] * at(batch).plain(64))
        assert made.speedups[row] >= made.chain_speedups[row]
    assert "batch size 1: predicted no slower than" in Fitting.of(made).notes_at_first(made.tree)[0]
    assert made.speedup_interval() is not None, "replayed cycles have an interval, although the rates have no counts"


def test_limits_and_narrow_traces_are_kept_to() -> None:
    """Texts that rank two candidates judge no wider trees."""
    texts = Replays([GreedyText(np.array([0, 1, -1, 0, 0] * 12), candidates=2)] * 3)
    plan = search(st.Acceptance.by_rank([0.4, 0.3, 0.1]), LATENCY, max_budget=8, replays=texts, max_depth=2)
    assert texts.can_replay(plan.tree)
    assert plan.tree.max_depth <= 2


def test_one_long_text_does_not_decide_alone() -> None:
    """19 hard texts of 8 tokens and an easy one of 40: no chain of 32."""
    rng = np.random.default_rng(0)
    texts = [GreedyText(np.where(rng.random(8) < 0.2, 0, -1)) for _ in range(19)] + [GreedyText(np.zeros(40, int))]
    short = GreedyText(np.array([0, 0]))
    plan = search(st.Acceptance.by_rank([0.4, 0.1]), LATENCY, max_budget=32, replays=Replays([*texts, short]))
    assert plan.tree.max_depth <= 3
    refused = "texts are too short to plan with: .*; record more tokens per prompt"
    refuses(refused, search, RATES, LATENCY, max_budget=4, replays=Replays([short]))


def test_a_greedy_plan_tells_the_paths_of_a_depth_apart() -> None:
    """Half of the cycles take rank 0 and miss, the others rank 1 and then rank 0: no tree of the rates drafts that."""
    pieces, draws = ([0, -1], [1, 0, -1]), np.random.default_rng(0).integers(0, 2, (6, 100))
    texts = Replays([GreedyText(np.concatenate([pieces[i] for i in row])) for row in draws], first=0)
    plan = search(st.Acceptance.by_rank([0.4, 0.3]), FAST, max_budget=3, replays=texts)
    assert sorted(plan.tree.to_paths()) == [(0,), (1,), (1, 0)]


def test_an_engine_gets_the_fastest_chain_that_was_replayed_within_its_limits() -> None:
    chains = {}
    for length in (1, 2, 3, 4, 5, 6, 8):
        chain = st.Tree.chain(length)
        chains[length] = max(
            REPLAYS.replay(chain, verifier, rule).tau * LATENCY.plain(0) / LATENCY.cycle(chain, 0, name_of(verifier))
            for verifier, rule in planned_verifiers(REPLAYS, chain)
        )
    best, fitting = max(chains, key=lambda length: chains[length]), Fitting.of(PLAN)
    assert PLAN.answer == "tree"
    assert PLAN.chain.tree == st.Tree.chain(best)
    exported = st.export(PLAN, "llama.cpp")
    assert f"--spec-draft-n-max {best}" in exported.command
    lost, other = 1 - chains[best] / PLAN.speedup, f"tau is that of {PLAN.chain.verifier}, and differs if the engine "
    assert exported.notes[0] == f"for batch size 1: predicted {lost:.1%} slower than the plan"
    assert exported.notes[1] == f"{other}verifies by another rule"
    np.testing.assert_allclose(
        fitting.chain_speedups, [[1.0, *(chains.get(length, 0.0) for length in range(1, 9))]], rtol=1e-12
    )
    assert fitting.chains(at_most(1), "X takes").speedups[0] == pytest.approx(chains[1])
    assert fitting.chains(one_length, "X takes").runs[0].length in chains


def test_an_envelope_keeps_its_share_of_the_plan_by_the_rates() -> None:
    found = (fitting := Fitting.of(PLAN)).first_envelope
    by_rates = block_efficiency(PLAN.tree, RATES) * PLAN.plain_seconds / PLAN.cycle_seconds
    assert fitting.envelope_speedups(found) / PLAN.speedup == pytest.approx([found.speedups[0] / by_rates])
    assert BY_RATES in st.export(PLAN, "eagle", draft="my/eagle").notes
    assert BY_RATES not in st.export(search(RATES, LATENCY, max_budget=8), "eagle", draft="my/eagle").notes


def test_the_reach_of_a_replayed_tree_is_replayed_and_simulated(tmp_path: Path) -> None:
    """20,000 cycles; the interval holds the exact tau for 95 in 100 seeds, and this seed is one of them."""
    verifier, rule = verifier_of(PLAN.verifier or ""), st.DrawRule[PLAN.option().rule or ""]
    np.testing.assert_array_equal(PLAN.reach, REPLAYS.reach(PLAN.tree, verifier, rule))
    PLAN.save(tmp_path / "plan.json")
    np.testing.assert_array_equal(st.Schedule.load(tmp_path / "plan.json").reach, PLAN.reach)
    low, high = simulate.run(PLAN).tau_interval()
    assert low <= PLAN.tau <= high
    assert not low <= block_efficiency(PLAN.tree, RATES) <= high


def test_a_replayed_plan_assumes_no_product_and_is_compared_with_its_verifier() -> None:
    assert PRODUCT in evaluate(PLAN.tree, RATES, LATENCY).provenance.assumptions
    assert PRODUCT not in PLAN.provenance.assumptions
    assert any(one.startswith("the overheads of ") and f"{PLAN.verifier}" in one for one in PLAN.provenance.assumptions)
    accepted = st.compare(PLAN, simulate.run(PLAN)).accepted[0]
    assert accepted @ np.arange(1, PLAN.tree.max_depth + 2) == pytest.approx(PLAN.tau)
    same, other = str(verifier_of(PLAN.verifier or "")), "TopDown(solver=NSS())"
    assert mismatches(PLAN, st.Provenance("decoding", verifier=same)) == []
    assert mismatches(PLAN, st.Provenance("decoding", verifier=other)) == [
        f"the plan was made for the verifier {same}, while decoding uses {other}"
    ]


def test_a_plan_that_is_off_by_replay_exports_nothing() -> None:
    texts = Replays([GreedyText(np.full(50, -1))] * 2)
    off = search(st.Acceptance.by_rank([0.9]), TIMES, max_budget=8, replays=texts)
    assert (off.tree, off.chain.tree) == (st.Tree.chain(0), st.Tree.chain(0))
    assert st.export(off, "llama.cpp").args == ("--spec-type", "none")


def test_replayed_cycles_of_another_tree_are_refused() -> None:
    refuses("replayed must be of Tree.*: plan again", replace, PLAN.option(), tree=st.Tree.chain(1))


# Trees from counted paths of ranks, against all trees by plain counting

RANKS = 3


def plain_values(
    texts: list[GreedyText], starts: list[np.ndarray], paths: list[tuple[int, ...]]
) -> dict[tuple[int, ...], float]:
    """The value of each path, counted start by start; parents and smaller siblings come first in `paths`."""
    values: dict[tuple[int, ...], float] = {(): 1.0}
    chances: dict[tuple[int, ...], float] = {}
    for path in paths:
        above, rank = path[:-1], path[-1]
        visits = hits = 0.0
        for text, weights in zip(texts, starts, strict=True):
            for start, weight in enumerate(weights):
                ends = [start + depth for depth in range(len(path))]
                taken = [
                    text.ranks[min(d, len(text.ranks) - 1), i] if i < len(text) else -1 for d, i in enumerate(ends)
                ]
                if tuple(taken[:-1]) == above:
                    visits, hits = visits + weight, hits + weight * (taken[-1] == rank)
        own = (hits + WEIGHT * RATES.row(len(above))[rank]) / (visits + WEIGHT)
        chances[path] = min(own, chances.get((*above, rank - 1), 1.0))
        values[path] = values[above] * chances[path]
    return values


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_has_a_higher_counted_value(seed: int) -> None:
    """Among all trees of 4 nodes of up to 3 children and 3 levels; a draft whose ranks depend on the depth too."""
    rng = np.random.default_rng(seed)
    shape = (2, 700) if seed % 2 else 700
    texts = [GreedyText(rng.choice(5, shape, p=[0.1, 0.4, 0.3, 0.1, 0.1]) - 1) for _ in range(2)]
    starts = [(rng.random(700) < 0.7) * rng.random(700) for _ in texts]
    every = [path for length in (1, 2, 3) for path in itertools.product(range(RANKS), repeat=length)]
    values = plain_values(texts, starts, every)
    found = counted_paths(texts, starts, RATES, budget=4, depth=3, fanout=RANKS)
    total = sum(values[path] for path in found)
    closed = [
        chosen
        for chosen in itertools.combinations(every, 4)
        if all(p[:-1] in (*chosen, ()) and (p[-1] == 0 or (*p[:-1], p[-1] - 1) in chosen) for p in chosen)
    ]
    assert total == pytest.approx(max(sum(values[path] for path in chosen) for chosen in closed), rel=1e-12)


def test_where_no_cycle_starts_the_tree_is_that_of_the_rates() -> None:
    texts, starts = [GreedyText(np.zeros(50, int))], [np.zeros(50)]
    paths = counted_paths(texts, starts, RATES, budget=6, depth=9, fanout=9)
    sizes = (1, 3, 6)
    found = [st.block_efficiency(st.Tree.from_paths(paths[:size]), RATES) for size in sizes]
    assert found == pytest.approx([st.block_efficiency(st.best_tree(RATES, size), RATES) for size in sizes], rel=1e-12)
