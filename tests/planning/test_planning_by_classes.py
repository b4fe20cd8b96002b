"""Plans and schedules whose tau is predicted by request classes, from the counts of an engine's chain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import spectheory as st
from spectheory.planning.candidates import ByRates, Candidates, Limits
from spectheory.planning.fitting import Fitting
from spectheory.yields.request_classes import ASSUMED
from tests.cli.test_cli import run
from tests.helpers import known

__all__ = ["run"]

EASY, HARD, CYCLES = 0.9, 0.3, 100_000
COUNTS = np.array([round(CYCLES * (EASY**d + HARD**d) / 2) for d in range(6)])
"""How many of the cycles of a chain of 5 kept at least 0..5 tokens: half of the cycles are easy, half are hard."""
RATES = st.Acceptance.from_counts(COUNTS[1:, None], COUNTS[:-1], cycles_of=st.Tree.chain(5))
CLASSES = st.yields.RequestClasses.from_acceptance(RATES)
LATENCY = st.Latency.constant(draft_seconds=0.06)


def tau(chain: int) -> float:
    """Of cycles of a chain of 5, half are easy: the shares of the tokens follow, and the cycles of another chain."""
    kept = {length: [sum(rate**d for d in range(length + 1)) for rate in (EASY, HARD)] for length in (5, chain)}
    tokens = np.array(kept[5]) / sum(kept[5])
    return float(1 / (tokens / np.array(kept[chain])).sum())


def test_a_plan_by_classes_predicts_what_the_classes_give() -> None:
    found = st.plan(RATES, LATENCY, max_budget=16)
    assert found.tree.is_chain
    assert found.tau == pytest.approx(tau(found.tree.budget), rel=0.01)
    assert found.reach.sum() == pytest.approx(found.tau)
    assert known(found.tau_interval)[0] <= found.tau
    assert ASSUMED in found.provenance.assumptions
    by_table = st.plan(replace(RATES, cycles_of=None), LATENCY, max_budget=16)
    assert ASSUMED not in by_table.provenance.assumptions
    truth = np.array([tau(n) / (1 + 0.06 * n) for n in range(17)])
    assert truth[found.tree.budget] == pytest.approx(truth.max(), rel=0.01)
    again = st.Schedule.from_dict(found.to_dict())
    assert (again.speedup, again.chain.tree) == (found.speedup, found.chain.tree)
    own = st.evaluate(found.tree, RATES, LATENCY)
    assert own.speedup == pytest.approx(found.speedup)


def test_every_candidate_has_the_tau_of_the_classes() -> None:
    rates = replace(RATES, table=np.hstack([RATES.table, (1 - RATES.table) / 3]), hits=None, trials=None)
    classes = replace(CLASSES, later=np.full((len(CLASSES.falls), 1), 1 / 3))
    candidates = Candidates(rates, Limits(9), classes=classes)
    trees = [candidates.tree(i) for i in range(len(candidates.block_efficiency))]
    assert any(not tree.is_chain for tree in trees)
    assert candidates.block_efficiency == pytest.approx([classes.block_efficiency(tree) for tree in trees])
    by_rates = ByRates(rates, classes)
    assert [by_rates.reach(tree).sum() for tree in trees] == pytest.approx(candidates.block_efficiency)
    budgets = np.arange(trees[-1].budget + 1)
    assert ByRates(rates).taus(trees[-1], budgets)[-1] == pytest.approx(st.block_efficiency(trees[-1], rates))


def test_a_schedule_and_what_engines_run_of_it_use_the_classes() -> None:
    found = st.schedule(RATES, lambda batch: LATENCY, [1, 2], context=0, max_budget=12)
    chains = Fitting.of(found).chain_speedups[0]
    assert chains[5] == pytest.approx(CLASSES.block_efficiency(st.Tree.chain(5)) / 1.3)
    assert found.speedup == pytest.approx(chains.max())
    assert st.Schedule.from_dict(found.to_dict()).speedups == pytest.approx(found.speedups)


def test_rates_that_classes_do_not_fit_say_why() -> None:
    one = st.Acceptance.from_counts(COUNTS[1:2, None], COUNTS[:1], cycles_of=st.Tree.chain(1))
    said = " ".join(st.plan(one, LATENCY, max_budget=4).provenance.assumptions)
    assert "tau is a product of rates, because no classes of contexts fit their counts" in said
