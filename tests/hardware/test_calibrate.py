"""Costs that are calibrated on runs: what the fit reproduces, and what its record holds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.engines import Run
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.kernel_curves import kernel_curves
from tests.hardware.timed_runs import CHAIN, EVERY, FORWARD, PAIR, PLAIN, SHIPPED, TREE, TRUE, calibrated, timed


def errors(found: CalibratedCosts, runs: list[Run], costs: EngineCosts) -> list[float]:
    return [abs(math.log(found.setup.seconds(run, costs) / run.seconds)) for run in runs]


HELD_OUT = timed(
    *(replace(PLAIN[0], batch=batch, source=f"plain {batch}") for batch in (2, 16, 32)),
    *(replace(CHAIN, batch=batch, source=f"chain {batch}") for batch in (2, 16)),
)


def test_runs_of_known_costs_are_reproduced_and_others_are_predicted_better_than_before() -> None:
    found = calibrated(*EVERY, noise=1e-7)
    assert found.largest_residual < 1e-6
    before, after = (errors(found, HELD_OUT, costs) for costs in (found.shipped, found.costs))
    assert all(a < b for a, b in zip(after, before, strict=True))
    assert max(after) < 0.1 < max(before)


def test_two_plain_runs_and_a_speculative_one_help_at_other_batch_sizes_with_the_usual_noise() -> None:
    found = calibrated(*EVERY[:3])
    assert found.largest_residual < 0.01
    before, after = (errors(found, HELD_OUT, costs) for costs in (found.shipped, found.costs))
    assert all(a < b for a, b in zip(after, before, strict=True))


def test_a_calibration_can_start_from_other_costs() -> None:
    found = calibrated(*timed(*PLAIN, CHAIN), costs=TRUE)
    assert found.shipped == TRUE
    assert found.moved == ()
    assert any("before the calibration, the costs were given" in one for one in found.provenance.assumptions)


def test_runs_of_the_shipped_costs_move_nothing() -> None:
    found = calibrated(*timed(*PLAIN, CHAIN, costs=SHIPPED))
    assert found.moved == ()
    for name, value in vars(found.costs).items():
        assert value == pytest.approx(getattr(SHIPPED, name), rel=1e-5), name


@pytest.mark.parametrize("added", range(1, len(EVERY)))
def test_a_run_is_never_predicted_worse_with_it_than_without(added: int) -> None:
    """The fit minimises a sum, so adding the term of a run cannot make this term larger."""
    before, after = calibrated(*EVERY[:added]), calibrated(*EVERY[: added + 1])
    run = [EVERY[added]]
    assert errors(after, run, after.costs)[0] <= errors(before, run, before.costs)[0] + 1e-6


def test_deviations_shrink_with_every_run_and_never_exceed_the_spread() -> None:
    runs = timed(*PLAIN, CHAIN, TREE, FORWARD, costs=SHIPPED)
    known = [calibrated(*runs[:count]) for count in range(1, len(runs) + 1)]
    for fewer, more in pairwise(known):
        for name, deviation in more.deviations.items():
            assert deviation <= fewer.deviations.get(name, fewer.spreads[name]) * (1 + 1e-4), name
        assert sum(more.deviations.values()) < sum(fewer.deviations.get(n, fewer.spreads[n]) for n in more.deviations)


def test_shares_stay_below_the_peak_rates() -> None:
    runs = timed(PLAIN[0], costs=replace(SHIPPED, bandwidth_share=1.0, layer_seconds=0.0, step_seconds=0.0))
    found = calibrated(*runs)
    assert found.costs.bandwidth_share <= 1
    assert found.seconds_after[0] < found.seconds_before[0]


def test_the_predicted_run_is_what_the_latency_says() -> None:
    found = calibrated(*EVERY[:3])
    latency = found.latency(1, 512)
    assert latency.plain(512) == pytest.approx(found.seconds_after[0], rel=1e-12)
    assert latency.cycle(st.Tree.chain(5), 512) == pytest.approx(found.seconds_after[2], rel=1e-12)


Q4: dict[str, Any] = {"gpu": "rtx3090", "target": "llama-3.1-8b", "draft": None, "quant": "q4_0", "engine": "llama.cpp"}
WIDE = [Run("forward", 1, 256, seconds, tokens=tokens) for seconds, tokens in ((0.0065, 1), (0.0137, 8))]
"""Forwards of 1 and of 8 tokens."""


def test_a_calibration_of_shipped_costs_follows_their_curves_and_so_do_its_times_and_plans() -> None:
    found = st.calibrate(WIDE[:1], **Q4)
    assert found.setup.curves == kernel_curves("llama.cpp")
    place = st.Deployment(**dict[str, Any](Q4 | {"draft": "ngram"}), context=256, costs=found)
    for latency in (found.latency(1, 256), place.latency(1)):
        assert latency.target(8, 256) == pytest.approx(found.setup.seconds(WIDE[1], found.costs), rel=1e-12)
        assert any("follow a measured curve (llama.cpp PR 15802)" in one for one in latency.provenance.assumptions)


def test_given_costs_have_no_curves_unless_they_are_given_too() -> None:
    costs = EngineCosts.of("llama.cpp")
    curves = kernel_curves("llama.cpp")
    assert st.calibrate(WIDE, **Q4, costs=costs).setup.curves == ()
    assert st.calibrate(WIDE, **Q4, curves=()).setup.curves == ()
    assert st.calibrate(WIDE[:1], **Q4, costs=costs, curves=curves).costs == st.calibrate(WIDE[:1], **Q4).costs


def test_the_least_time_of_a_run_does_not_rest_on_a_curve() -> None:
    """A curve was measured on some kernels; better ones may be faster than it, up to the peak rates."""
    with_curves, without = (st.calibrate(WIDE[:1], **Q4, curves=curves).setup for curves in (None, ()))
    assert with_curves.least_seconds(WIDE[1]) == without.least_seconds(WIDE[1])


def test_the_record_keeps_its_curves(tmp_path: Path) -> None:
    found = st.calibrate(WIDE[:1], **Q4)
    found.save(tmp_path / "costs.json")
    again = st.load(tmp_path / "costs.json")
    assert isinstance(again, CalibratedCosts)
    assert again.setup.curves == found.setup.curves
    assert again.seconds_after == found.seconds_after


def test_a_draft_that_drafts_at_once_runs_once() -> None:
    runs = [replace(CHAIN, seconds=0.012)]
    found = st.calibrate(runs, gpu="h100_sxm", target="qwen3-8b", draft="dflash")
    assert found.setup.drafting == "at once"
    assert found.latency(1, 512).cycle(st.Tree.chain(5), 512) == pytest.approx(found.seconds_after[0], rel=1e-12)


def test_between_batch_sizes_the_seconds_of_a_dense_model_are_on_a_line() -> None:
    one, two, between = timed(*(replace(PLAIN[0], batch=batch) for batch in (3, 4, 3.25)))
    assert between.seconds == pytest.approx(0.75 * one.seconds + 0.25 * two.seconds, rel=1e-12)


def test_the_record_comes_back(tmp_path: Path) -> None:
    found = calibrated(*EVERY[:3])
    found.save(tmp_path / "costs.json")
    again = st.load(tmp_path / "costs.json")
    assert isinstance(again, CalibratedCosts)
    assert again.to_dict() == found.to_dict()


def test_a_schedule_with_calibrated_costs_says_how_they_were_calibrated() -> None:
    found = calibrated(*EVERY[:3])
    place = st.Deployment(*PAIR.values(), context=512, costs=found)
    assert place.latency(2).target_seconds == pytest.approx(found.latency(2, 512).target_seconds, rel=1e-12)
    planned = place.schedule(st.Acceptance.by_rank([0.7]), [1, 8], max_budget=8)
    said = planned.provenance.assumptions
    (sentence,) = [one for one in said if "calibrated on 3 runs, largest residual" in one]
    assert sentence == found.said
    given = st.Deployment(*PAIR.values(), context=512, costs=found.costs).latency(2)
    assert given.target_seconds.tolist() == place.latency(2).target_seconds.tolist()


def test_a_run_that_the_model_cannot_follow_is_named() -> None:
    """A step of 16 sequences cannot take as long as one of 64 and five times as long as one of 1."""
    seconds = {1: 0.0071, 16: 0.04, 64: 0.036}
    runs = [replace(PLAIN[0], batch=b, seconds=s, source=f"plain {b}") for b, s in seconds.items()]
    found = calibrated(*runs)
    assert any(one.startswith("plain 16 contradicts the time model or another run: ") for one in found.contradictions)
    assert set(found.contradictions) <= set(found.latency(1, 512).provenance.assumptions)
    assert calibrated(*EVERY[:3]).contradictions == ()


def test_a_number_that_moves_farther_than_anywhere_else_is_named() -> None:
    found = calibrated(replace(PLAIN[0], seconds=1 / 50))
    (sentence,) = found.surprises
    assert sentence.startswith("step_seconds has moved to")
    assert calibrated(*EVERY[:3]).surprises == ()
