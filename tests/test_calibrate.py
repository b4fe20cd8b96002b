"""Costs that are calibrated on runs: what the fit reproduces, what its record holds, and the runs that are refused."""

from __future__ import annotations

import json
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
from spectheory.hardware.gpus import gpu
from spectheory.hardware.kernel_curves import kernel_curves
from spectheory.hardware.models import model
from spectheory.hardware.timed_setup import TimedSetup

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


def setup_of(**changed: Any) -> TimedSetup:
    known = {"draft": model(PAIR["draft"]), "gpus": 1, "parallel": "tensor", "draft_gpus": None}
    known |= {"target": model(PAIR["target"]), "gpu": gpu("h100_sxm")}
    return TimedSetup(**{**known, "drafting": "levels", **changed})


def timed(*runs: Run, costs: EngineCosts = TRUE) -> list[Run]:
    """The runs with the seconds that they take with `costs`."""
    return [replace(run, seconds=setup_of().seconds(run, costs)) for run in runs]


def calibrated(*runs: Run, **changed: Any) -> CalibratedCosts:
    return st.calibrate(runs, **{**PAIR, **changed})


def errors(found: CalibratedCosts, runs: list[Run], costs: EngineCosts) -> list[float]:
    return [abs(math.log(found.setup.seconds(run, costs) / run.seconds)) for run in runs]


EVERY = timed(*PLAIN, CHAIN, TREE, FORWARD)
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


def test_the_record_comes_back_and_a_contradiction_in_it_is_refused(tmp_path: Path) -> None:
    found = calibrated(*EVERY[:3])
    found.save(tmp_path / "costs.json")
    again = st.load(tmp_path / "costs.json")
    assert isinstance(again, CalibratedCosts)
    assert again.to_dict() == found.to_dict()
    data = json.loads(json.dumps(found.to_dict()))
    for path, value in {
        ("costs", "bandwidth_share"): 0.5,
        ("shipped", "step_seconds"): 1e-3,
        ("setup", "gpus"): 2,
        ("residuals", 0): 0.5,
        ("noise",): 0.5,
        ("runs", 0, "seconds"): 0.5,
    }.items():
        changed = json.loads(json.dumps(data))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with pytest.raises(st.RecordError, match=r"contradicts itself: .* calibrate again with"):
            CalibratedCosts.from_dict(changed)


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


def test_another_draft_is_said_and_another_deployment_is_refused() -> None:
    found = calibrated(*EVERY[:3])
    other = st.Deployment("h100_sxm", "llama-3.1-8b", "llama-3.2-1b", costs=found).latency(1)
    assert any("draft eagle3-llama-3.1-8b and are used for llama-3.2-1b" in one for one in other.provenance.assumptions)
    for changed, named in {
        "gpu": ("h200_sxm", "calibrated for gpu h100_sxm, the deployment has gpu h200_sxm"),
        "engine": ("sglang", "calibrated for engine vllm, the deployment has engine sglang"),
        "gpus": (2, "calibrated for gpus 1, the deployment has gpus 2"),
        "quant": ("fp8", "calibrated for target llama-3.1-8b, the deployment has target llama-3.1-8b-fp8"),
        "kv_dtype": ("fp8", "calibrated for target llama-3.1-8b"),
    }.items():
        value, message = named
        place = st.Deployment(**{**PAIR, changed: value}, costs=found)
        with pytest.raises(st.InputError, match=f"costs were {message}"):
            place.latency(1)


def test_the_version_and_the_engine_that_runs_name_are_used() -> None:
    (run,) = timed(PLAIN[0])
    assert calibrated(replace(run, engine="sglang", version="0.5.3")).engine == "sglang@0.5.3"
    assert calibrated(replace(run, version="0.11.2"), engine="vllm@0.11").engine == "vllm@0.11"
    assert calibrated(replace(run, engine="medusa"), engine="hf").engine == "hf"
    two = (replace(run, version="0.11.2"), replace(EVERY[1], version="0.12", source="newer"))
    with pytest.raises(st.InputError, match=r"newer: version is '0.12', .* engine vllm@0.11.2"):
        calibrated(*two)


@pytest.mark.parametrize(
    "named",
    [
        {"model": "meta-llama/Llama-3.1-8B"},
        {"model": "models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"},
        {"gpu": "NVIDIA H100 80GB HBM3"},
        {"draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"},
        {"gpus": 1, "quantisation": "bf16", "kv_dtype": "f16"},
    ],
)
def test_other_names_of_the_deployment_are_known(named: dict[str, Any]) -> None:
    (run,) = timed(PLAIN[0])
    assumed = calibrated(replace(run, **named)).provenance.assumptions
    assert not [one for one in assumed if "not known" in one]


def test_names_that_are_not_known_are_assumed() -> None:
    (run,) = timed(PLAIN[0])
    odd = replace(run, model="our-finetune-v3", gpu="Card 9000", draft="our-head", kv_dtype="q3", version="main-3f2a")
    assumed = calibrated(odd).provenance.assumptions
    for name in ("model 'our-finetune-v3'", "gpu 'Card 9000'", "draft 'our-head'", "kv_dtype 'q3'"):
        assert any(f"the {name} of the runs, which is not known, is" in one for one in assumed), name
    packed = calibrated(replace(run, quantisation="compressed-tensors", seconds=0.006), quant="fp8").provenance
    assert any("quantisation 'compressed-tensors'" in one for one in packed.assumptions)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            {"model": "meta-llama/Llama-3.1-70B"},
            "model is 'meta-llama/Llama-3.1-70B'.*target llama-3.1-8b: give the mo",
        ),
        ({"model": "/models/Qwen3-8B-FP8"}, "model is '/models/Qwen3-8B-FP8'.*target llama-3.1-8b"),
        ({"draft": "llama-3.2-1b"}, "draft is 'llama-3.2-1b'.*draft eagle3-llama-3.1-8b: give the draft"),
        ({"gpu": "NVIDIA H200"}, "gpu is 'NVIDIA H200'.*gpu h100_sxm: give the GPU of the run as gpu"),
        ({"gpus": 4}, "gpus is 4.*gpus=1: give the number of GPUs"),
        ({"engine": "sglang"}, "engine is 'sglang'.*engine vllm@0.11: give the engine"),
        ({"version": "0.10.2"}, "version is '0.10.2'.*engine vllm@0.11: give the version of the run"),
        ({"quantisation": "q4_k_m"}, "quantisation is 'q4_k_m'.*weights of 2 bytes .*: give the format of the run"),
        ({"quantisation": "awq_marlin"}, "quantisation is 'awq_marlin'.*weights of 2 bytes"),
        ({"kv_dtype": "fp8"}, "kv_dtype is 'fp8'.*2 bytes for a number in the KV cache: give"),
    ],
)
def test_a_benchmark_of_another_deployment_is_refused_with_its_row(named: dict[str, Any], message: str) -> None:
    runs = timed(*PLAIN)
    runs[1] = replace(runs[1], source="bench.json, entry 2", **named)
    with pytest.raises(st.InputError, match=f"bench.json, entry 2: {message}"):
        calibrated(*runs, engine="vllm@0.11")


def test_faster_than_the_bandwidth_is_refused_and_the_bound_is_the_bytes_of_the_model() -> None:
    target = model("llama-3.1-8b")
    least = (target.read_bytes(1) + target.kv_bytes(512)) / 3.35e12
    calibrated(replace(PLAIN[0], seconds=1.001 * float(least)))
    with pytest.raises(
        st.InputError, match=r"plain 1: .* tokens per second at batch 1 are more than 1 x h100_sxm .*4\.5"
    ):
        calibrated(replace(PLAIN[0], seconds=0.999 * float(least)))
    with pytest.raises(st.InputError, match="chain: .* are more than 1 x h100_sxm allows"):
        calibrated(replace(CHAIN, seconds=0.004))


def test_packed_weights_may_have_a_few_percent_fewer_bytes_than_their_format_says() -> None:
    """The output layer may be packed too, so 4% less than the least time of the format is possible; 6% is not."""
    setup = setup_of(target=model(PAIR["target"]).quantised("nvfp4"), gpu=gpu("b200"))
    least = setup.least_seconds(PLAIN[0])
    found = calibrated(replace(PLAIN[0], seconds=0.96 * least), quant="nvfp4", gpu="b200")
    assert -0.2 < found.residuals[0] < 0
    with pytest.raises(st.InputError, match="plain 1: .* are more than 1 x b200 allows"):
        calibrated(replace(PLAIN[0], seconds=0.94 * least), quant="nvfp4", gpu="b200")


def test_times_that_contradict_each_other_are_refused() -> None:
    one, many = timed(*PLAIN)
    with pytest.raises(st.InputError, match="plain 64: 6 ms of a plain step at batch 64 contradicts plain 1, 8.6 ms"):
        calibrated(one, replace(many, seconds=0.006))
    with pytest.raises(
        st.InputError, match="chain: 6 ms of a cycle at batch 1 contradicts plain 1.* more in less time"
    ):
        calibrated(one, replace(CHAIN, seconds=0.006))


def test_a_repeated_run_is_refused() -> None:
    (one,) = timed(PLAIN[0])
    with pytest.raises(st.InputError, match="again: the run repeats the conditions of plain 1: keep one"):
        calibrated(one, replace(one, seconds=1.01 * one.seconds, source="again"))


def test_a_batch_that_does_not_fit_is_refused_with_the_batch_that_does() -> None:
    (measured,) = timed(replace(PLAIN[0], batch=952))
    calibrated(measured)
    with pytest.raises(st.InputError, match="huge: llama-3.1-8b .* are missing; batch up to 952 fits"):
        calibrated(replace(PLAIN[0], batch=5000, source="huge"))


def test_a_speculative_run_needs_tau_and_a_draft() -> None:
    with pytest.raises(st.InputError, match="chain: tau of a speculative run is missing"):
        replace(CHAIN, tau=None)
    with pytest.raises(st.InputError, match="chain: tau must be at most 6"):
        replace(CHAIN, tau=6.5)
    with pytest.raises(st.InputError, match="chain: a speculative run needs the draft: name a draft model"):
        calibrated(replace(CHAIN, seconds=0.012), draft=None)
    assert calibrated(replace(CHAIN, seconds=0.012), draft="ngram").setup.draft is None
    with pytest.raises(st.InputError, match="runs must contain at least one run"):
        calibrated()
    with pytest.raises(st.InputError, match="runs must be a list of runs, such as read_runs"):
        calibrated(141.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, 2.0])
def test_noise_out_of_range_is_refused(noise: float) -> None:
    with pytest.raises(st.InputError, match="noise must be from"):
        calibrated(*timed(PLAIN[0]), noise=noise)


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
