"""Costs that are calibrated on runs: what the fit reproduces, what its record holds, and which runs are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.engines import Run
from spectheory.hardware import calibrated_costs
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.timed_setup import TimedSetup
from tests.helpers import refuses

PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
SHIPPED = EngineCosts.of("vllm")
TRUE = replace(
    SHIPPED, bandwidth_share=0.72, step_seconds=2e-3, sequence_seconds=40e-6, spec_step_seconds=1e-3, level_seconds=4e-4
)
"""The costs of the engine that the synthetic runs are of."""
PLAIN = [Run("plain", batch, 512, 1.0, source=f"plain {batch}") for batch in (1, 64)]
CHAIN = Run("speculative", 1, 512, 1.0, tokens=6, depth=5, tau=3.0, source="chain")
TREE = Run("speculative", 4, 512, 1.0, tokens=61, depth=6, tau=3.5, source="tree")
FORWARD = Run("forward", 2, 512, 1.0, tokens=16, source="forward")
SETUP = TimedSetup(gpu("h100_sxm"), model(PAIR["target"]), model(PAIR["draft"]), 1, "tensor")


def timed(*runs: Run, costs: EngineCosts = TRUE) -> list[Run]:
    """The runs with the seconds that they take with `costs`."""
    return [replace(run, seconds=SETUP.seconds(run, costs)) for run in runs]


def calibrated(*runs: Run, **changed: Any) -> CalibratedCosts:
    return st.calibrate(runs, **{**PAIR, **changed})


EVERY = timed(*PLAIN, CHAIN, TREE, FORWARD)


def errors(found: CalibratedCosts, runs: list[Run], costs: EngineCosts) -> list[float]:
    return [abs(math.log(found.setup.seconds(run, costs) / run.seconds)) for run in runs]


HELD_OUT = timed(
    *(replace(PLAIN[0], batch=batch, source=f"plain {batch}") for batch in (2, 16, 32)),
    *(replace(CHAIN, batch=batch, source=f"chain {batch}") for batch in (2, 16)),
)


def test_runs_of_known_costs_are_reproduced_and_others_are_predicted_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrated_costs, "NOISE", 1e-7)
    found = calibrated(*EVERY)
    assert max(map(abs, found.residuals)) < 1e-6
    before, after = (errors(found, HELD_OUT, costs) for costs in (found.shipped, found.costs))
    assert all(a < b for a, b in zip(after, before, strict=True))
    assert max(after) < 0.1 < max(before)


@pytest.mark.parametrize("added", range(2, len(EVERY)))
def test_a_run_is_never_predicted_worse_with_it_than_without(added: int) -> None:
    """From two runs on, the fit minimises a sum, so adding the term of a run cannot make this term larger."""
    before, after = calibrated(*EVERY[:added]), calibrated(*EVERY[: added + 1])
    run = [EVERY[added]]
    assert errors(after, run, after.costs)[0] <= errors(before, run, before.costs)[0] + 1e-6


def test_the_predicted_run_is_what_the_latency_says() -> None:
    found = calibrated(*EVERY[:3])
    latency = found.latency(1, 512)
    assert latency.plain(512) == pytest.approx(found.seconds_after[0], rel=1e-12)
    assert latency.cycle(st.Tree.chain(5), 512) == pytest.approx(found.seconds_after[2], rel=1e-12)


Q4: dict[str, Any] = {"gpu": "rtx3090", "target": "llama-3.1-8b-q4_0", "draft": None, "engine": "llama.cpp"}
WIDE = [Run("forward", 1, 256, seconds, tokens=tokens) for seconds, tokens in ((0.0065, 1), (0.0137, 8))]
"""Forwards of 1 and of 8 tokens."""


@pytest.mark.parametrize("slower", [0.95, 1.3])
def test_a_lone_plain_run_scales_all_times_and_leaves_every_ratio(slower: float) -> None:
    found = calibrated(replace(PLAIN[0], seconds=slower * SETUP.seconds(PLAIN[0], SHIPPED)))
    for run in (*PLAIN, CHAIN, TREE, FORWARD):
        assert SETUP.seconds(run, found.costs) == pytest.approx(slower * SETUP.seconds(run, SHIPPED), rel=1e-9)
    assert found.moved == {}


def test_two_runs_move_the_prediction_towards_them_and_not_beyond() -> None:
    found = calibrated(*(replace(run, seconds=1.3 * SETUP.seconds(run, SHIPPED)) for run in PLAIN))
    assert 1.01 < found.factor < 1.3
    assert all(0 < residual < 0.05 for residual in found.residuals)


def test_plain_runs_of_packed_weights_ask_for_a_speculative_one() -> None:
    """They do not narrow the interval either: its errors are those before a calibration."""
    for runs, told in ((WIDE[:1], True), (WIDE, False)):
        found = st.calibrate(runs, **Q4)
        assert any("add a run with speculation" in one for one in found.warnings) is told
        inputs = found.latency(1, 256).inputs
        assert inputs is not None
        assert inputs.class_errors.calibrated is not told


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
    assert any(one.startswith("plain 16 contradicts the time model or another run: ") for one in found.warnings)
    assert set(found.warnings) <= set(found.latency(1, 512).provenance.assumptions)
    assert calibrated(*EVERY[:3]).warnings == ()


def test_the_record_comes_back(tmp_path: Path) -> None:
    found = calibrated(*EVERY[:3])
    found.save(tmp_path / "costs.json")
    again = st.load(tmp_path / "costs.json")
    assert isinstance(again, CalibratedCosts)
    assert again.to_dict() == found.to_dict()
    before, after = found.moved["level_seconds"]
    assert (before, after) == (pytest.approx(found.factor * found.shipped.level_seconds), found.costs.level_seconds)


def test_another_draft_is_said_and_another_deployment_is_refused() -> None:
    found = calibrated(*EVERY[:3])
    other = st.Deployment("h100_sxm", "llama-3.1-8b", "llama-3.2-1b", costs=found).latency(1)
    assert any("draft eagle3-llama-3.1-8b and are used for llama-3.2-1b" in one for one in other.provenance.assumptions)
    for name, value in {"gpu": "h200_sxm", "engine": "sglang", "gpus": 2, "target": "llama-3.1-8b-fp8"}.items():
        given: dict[str, Any] = {**PAIR, name: value}
        refuses("costs were calibrated for", st.Deployment(**given, costs=found).latency, 1)


def test_names_of_the_deployment_are_known_or_assumed() -> None:
    (run,) = timed(PLAIN[0])
    assert calibrated(replace(run, engine="sglang", version="0.5.3")).engine == "sglang@0.5.3"
    assert calibrated(replace(run, engine="medusa"), engine="hf").engine == "hf"
    names: tuple[dict[str, Any], ...] = (
        {"model": "meta-llama/Llama-3.1-8B", "gpu": "NVIDIA H100 80GB HBM3"},
        {"model": "llama-3.1-8b", "gpus": 1},
    )
    for named in names:
        said = calibrated(replace(run, **named)).provenance.assumptions
        assert not [one for one in said if "not known" in one]
    odd = calibrated(replace(run, model="our-finetune-v3", gpu="Card 9000")).provenance.assumptions
    for name in ("model 'our-finetune-v3'", "gpu 'Card 9000'"):
        assert any(f"the {name} of the runs, which is not known, is" in one for one in odd), name


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"model": "meta-llama/Llama-3.1-70B"}, "model is 'meta-llama/Llama-3.1-70B'.*with llama-3.1-8b: give"),
        ({"gpu": "NVIDIA H200"}, "gpu is 'NVIDIA H200'.*with h100_sxm"),
        ({"gpus": 4}, "gpus is 4.*with 1:"),
        ({"engine": "sglang"}, "engine is 'sglang'.*with vllm@0.11"),
    ],
)
def test_a_benchmark_of_another_deployment_is_refused_with_its_row(named: dict[str, Any], message: str) -> None:
    runs = timed(*PLAIN)
    runs[1] = replace(runs[1], source="bench.json, entry 2", **named)
    refuses(f"bench.json, entry 2: {message}", calibrated, *runs, engine="vllm@0.11")


def test_faster_than_the_bandwidth_is_refused_and_the_bound_is_the_bytes_of_the_model() -> None:
    target = model("llama-3.1-8b")
    read = target.weight_bytes - 2 * target.shape.lookup_parameters
    least = (read + target.kv_bytes(512)) / 3.35e12
    calibrated(replace(PLAIN[0], seconds=1.001 * least))
    message = r"plain 1: .* tokens per second at batch 1 are more than 1 x h100_sxm .*4\.5"
    refuses(message, calibrated, replace(PLAIN[0], seconds=0.999 * least))


def test_runs_of_a_lookup_draft_for_the_counted_share_or_the_usual_one() -> None:
    for engine, given, share in (("vllm", 0.4, 0.4), ("vllm", None, 0.72122), ("sglang", 0.4, 1.0)):
        (run,) = calibrated(
            replace(CHAIN, tau=2.4, seconds=0.012, drafted_share=given), draft="ngram", engine=engine
        ).runs
        assert run.drafted_share == pytest.approx(share, abs=1e-5)
    some, lookup = replace(CHAIN, drafted_share=0.4), replace(SETUP, draft=None)
    mixed, plain, every = (lookup.seconds(one, TRUE) for one in (some, PLAIN[0], replace(some, drafted_share=1.0)))
    assert mixed == pytest.approx(0.6 * plain + 0.4 * every)


def test_impossible_runs_are_refused() -> None:
    refuses("huge: llama-3.1-8b .* batch up to 952 fits", calibrated, replace(PLAIN[0], batch=5000, source="huge"))
    refuses("chain: tau of a speculative run is missing", replace, CHAIN, tau=None)
    refuses("chain: tau must be a number from 1 to 6", replace, CHAIN, tau=6.5)
    refuses("chain: a speculative run needs the draft", calibrated, replace(CHAIN, seconds=0.012), draft=None)
    assert calibrated(replace(CHAIN, seconds=0.012), draft="ngram").setup.draft is None
    refuses("chain: drafted_share must be a number from 0.001 to 1, got 2", replace, CHAIN, drafted_share=2.0)
    refuses("runs must be one run or more, such as read_runs", calibrated)
    refuses("runs must be one run or more, such as read_runs", calibrated, 141.0)
