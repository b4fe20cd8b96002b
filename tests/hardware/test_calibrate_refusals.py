"""Costs that are calibrated on runs: the names of a deployment that are understood, and the runs that are refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import spectheory as st
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from tests.hardware.timed_runs import CHAIN, EVERY, PAIR, PLAIN, calibrated, setup_of, timed
from tests.refusals import refuses


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
        given: dict[str, Any] = {**PAIR, changed: value}
        place = st.Deployment(**given, costs=found)
        refuses(f"costs were {message}", place.latency, 1)


def test_the_version_and_the_engine_that_runs_name_are_used() -> None:
    (run,) = timed(PLAIN[0])
    assert calibrated(replace(run, engine="sglang", version="0.5.3")).engine == "sglang@0.5.3"
    assert calibrated(replace(run, version="0.11.2"), engine="vllm@0.11").engine == "vllm@0.11"
    assert calibrated(replace(run, engine="medusa"), engine="hf").engine == "hf"
    two = (replace(run, version="0.11.2"), replace(EVERY[1], version="0.12", source="newer"))
    refuses(r"newer: version is '0.12', .* engine vllm@0.11.2", calibrated, *two)


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
    refuses(f"bench.json, entry 2: {message}", calibrated, *runs, engine="vllm@0.11")


def test_faster_than_the_bandwidth_is_refused_and_the_bound_is_the_bytes_of_the_model() -> None:
    target = model("llama-3.1-8b")
    least = (target.read_bytes(1) + target.kv_bytes(512)) / 3.35e12
    calibrated(replace(PLAIN[0], seconds=1.001 * float(least)))
    with pytest.raises(
        st.InputError, match=r"plain 1: .* tokens per second at batch 1 are more than 1 x h100_sxm .*4\.5"
    ):
        calibrated(replace(PLAIN[0], seconds=0.999 * float(least)))
    refuses("chain: .* are more than 1 x h100_sxm allows", calibrated, replace(CHAIN, seconds=0.004))


def test_packed_weights_may_have_a_few_percent_fewer_bytes_than_their_format_says() -> None:
    """The output layer may be packed too, so 4% less than the least time of the format is possible; 6% is not."""
    setup = setup_of(target=model(PAIR["target"]).quantised("nvfp4"), gpu=gpu("b200"))
    least = setup.least_seconds(PLAIN[0])
    found = calibrated(replace(PLAIN[0], seconds=0.96 * least), quant="nvfp4", gpu="b200")
    assert -0.2 < found.residuals[0] < 0
    with pytest.raises(st.InputError, match="plain 1: .* are more than 1 x b200 allows"):
        calibrated(replace(PLAIN[0], seconds=0.94 * least), quant="nvfp4", gpu="b200")


def test_runs_that_contradict_or_repeat_each_other_are_refused() -> None:
    one, many = timed(*PLAIN)
    with pytest.raises(st.InputError, match="plain 64: 6 ms of a plain step at batch 64 contradicts plain 1, 8.6 ms"):
        calibrated(one, replace(many, seconds=0.006))
    with pytest.raises(
        st.InputError, match="chain: 6 ms of a cycle at batch 1 contradicts plain 1.* more in less time"
    ):
        calibrated(one, replace(CHAIN, seconds=0.006))
    with pytest.raises(st.InputError, match="again: the run repeats the conditions of plain 1: keep one"):
        calibrated(one, replace(one, seconds=1.01 * one.seconds, source="again"))


def test_a_batch_that_does_not_fit_is_refused_with_the_batch_that_does() -> None:
    (measured,) = timed(replace(PLAIN[0], batch=952))
    calibrated(measured)
    with pytest.raises(st.InputError, match="huge: llama-3.1-8b .* are missing; batch up to 952 fits"):
        calibrated(replace(PLAIN[0], batch=5000, source="huge"))


def test_a_speculative_run_needs_tau_and_a_draft_and_every_fit_runs_and_their_noise() -> None:
    refuses("chain: tau of a speculative run is missing", replace, CHAIN, tau=None)
    refuses("chain: tau must be at most 6", replace, CHAIN, tau=6.5)
    with pytest.raises(st.InputError, match="chain: a speculative run needs the draft: name a draft model"):
        calibrated(replace(CHAIN, seconds=0.012), draft=None)
    assert calibrated(replace(CHAIN, seconds=0.012), draft="ngram").setup.draft is None
    refuses("runs must contain at least one run", calibrated)
    refuses("runs must be a list of runs, such as read_runs", calibrated, 141.0)
    for noise in (0.0, -1.0, math.nan, 2.0):
        refuses("noise must be from", calibrated, *timed(PLAIN[0]), noise=noise)
