"""Replayed plans and schedules as records: contradictions, intervals, comparisons, exports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.planning.assumptions import PRODUCT
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.scheduler import schedule_of
from spectheory.replay import GreedyText, Replayed, Replays
from spectheory.results.plan_comparison import mismatches
from spectheory.verify import verifier_of
from tests.known import known
from tests.refusals import refuses
from tests.replay.inputs import LATENCY, RATES, TEXTS, TREE

OWN = evaluate(TREE, RATES, LATENCY, replays=Replays(TEXTS))


def replayed(**changes: Any) -> Replayed:
    given = {"emitted": [3.0, 2.0], "cycles": [2.0, 1.0], "variance": [0.1, 0.0], "accepted": [1.0, 2.0]} | changes
    return Replayed(**{name: np.array(values) for name, values in given.items()})


def reached(reach: np.ndarray | None, made: st.Plan = OWN) -> st.Plan:
    """A plan whose replayed reach was edited."""
    return replace(made, replayed=replace(known(made.replayed), reach=reach))


def moved(node: int, onto: int, share: float, made: st.Plan = OWN) -> st.Plan:
    """A plan in which a share of the cycles keeps the node `onto` in place of `node`."""
    change = np.zeros(len(made.reach))
    change[[node, onto]] = -share, share
    return reached(made.reach + change, made)


RANKS = [0, 1, 0, -1, 1, 0, 0, 0, -1] * 8
GREEDY = evaluate(TREE, RATES, LATENCY, replays=Replays([GreedyText(np.array(RANKS))] * 2))


def test_contradictions_are_refused() -> None:
    refuses("one entry for each text.*1, 2, 2", replayed, emitted=[3.0])
    refuses("cycles.*finite", replayed, cycles=[np.nan, 1])
    refuses("the sum of cycles must be 4.*got 3", replayed, accepted=[2.0, 2.0])
    refuses("the sum of emitted must be 5.*got 7", replayed, emitted=[3.0, 4.0])
    refuses("cycles must sum to more than 0", replayed, emitted=[0.0], cycles=[0.0], variance=[0.0], accepted=[0.0])
    refuses("verifier, rule and replayed.*together", replace, OWN, verifier=None)
    refuses("rule.*Traversal.*TOP_K", replace, OWN, verifier="Traversal", rule="TOP_K")
    refuses("must verify trees.*Block", replace, OWN, verifier="Block", rule="NO_REPLACEMENT")
    refuses("rule.*Greedy, TOP_K.*IID", replace, OWN, verifier="Greedy", rule="IID")
    refuses("tau.*between 1 and 2", replayed, emitted=[-1.0, 0.0], cycles=[0.5, 0.5], accepted=[3.0, -2.0])
    refuses("verifier.*'Nobody'", replace, OWN, verifier="Nobody")
    refuses("replayed.*2 deep, got 1", replace, OWN, replayed=replayed())
    refuses("reach must be given.*siblings", reached, None)
    refuses("reach must sum to tau", reached, OWN.reach[:-1])
    refuses("reach must have 7 entries.*got 1", reached, np.array([OWN.block_efficiency]))
    refuses("reach at depth 0 must sum to 1.*got 0.75", moved, 0, 1, 0.25)
    refuses("reach at depth 1 must sum to.*keep 1 tokens", moved, 1, 3, 0.1)
    refuses("reach of node 4.*got -0.01", moved, 4, 3, GREEDY.reach[4] + 0.01, GREEDY)
    refuses("reach of node.*the reach of its parent, 0", moved, 1, 2, GREEDY.reach[1], GREEDY)
    refuses("reach of node.*the reach of its parent", moved, 5, 3, 50.0)
    refuses("verifier 'Traversal'.*replays", evaluate, TREE, RATES, LATENCY, verifier="Traversal")
    refuses("verifier.*'Block'", evaluate, TREE, RATES, LATENCY, replays=Replays(TEXTS), verifier="Block")
    refuses(r"verifier_seconds\['RRS'\].*-1.0", replace, LATENCY, verifier_seconds={"RRS": (1.0, -1.0, 0.0)})
    refuses("verifier.*Traversal.*'traversal'", verifier_of, "traversal")


def test_only_a_prediction_from_rates_assumes_a_product_of_rates() -> None:
    assert PRODUCT in evaluate(TREE, RATES, LATENCY).provenance.assumptions
    assert PRODUCT not in OWN.provenance.assumptions
    assert PRODUCT not in evaluate(st.Tree.chain(0), RATES, LATENCY).provenance.assumptions


def test_a_comparison_uses_what_was_replayed_and_says_which_verifier_differs() -> None:
    theory = st.compare(OWN, None).theory
    assert theory.tau == known(OWN.replayed).tau
    assert theory.accepted @ np.arange(1, TREE.max_depth + 2) == pytest.approx(theory.tau)
    same, other = str(verifier_of(known(OWN.verifier))), "TopDown(solver=NSS())"
    assert mismatches(OWN, st.Provenance("decoding", verifier=same)) == []
    assert mismatches(OWN, st.Provenance("decoding", verifier=other)) == [
        f"the plan was made for the verifier {same}, while decoding uses {other}"
    ]


def test_an_interval_needs_cycles_in_two_texts() -> None:
    texts = Replays([GreedyText(np.zeros(30, int)), GreedyText(np.zeros(3, int))])
    assert evaluate(st.Tree.chain(8), RATES, LATENCY, replays=texts).block_efficiency_interval is None


def test_a_plan_that_is_off_by_replay_says_so_and_exports_nothing() -> None:
    texts = Replays([GreedyText(np.full(50, -1))] * 2)
    off = search(st.Acceptance.by_rank([0.9]), LATENCY, max_budget=8, replays=texts)
    said = "the best replayed draft is predicted to run at 0.98x the plain speed."
    assert off.summary == f"Do not speculate: after 0 tokens of context {said}"
    assert off.by_budget.highest_speedup == pytest.approx(1 / 1.02)
    made = schedule_of(off)
    assert [made.trees[number].budget for number in (*made.choice, *made.chain_choice)] == [0, 0]
