"""Tests of the names of models and GPUs that published measurements use, and of their formats on the command line."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import pytest

from spectheory.hardware.gpus import gpu, gpu_names
from spectheory.hardware.models import model
from spectheory.hardware.pairs import pair
from spectheory.hardware.roofline import Roofline
from spectheory.planning.deployment import Deployment
from tests.command_line import Run, plan, run, succeeded  # noqa: F401
from tests.refusals import refuses

TARGETS = [
    "llama-3.1-8b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "llama-2-13b",
    "llama-2-7b",
    "qwen3-8b",
    "qwen3-32b",
    "qwen3-14b",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "qwen3-235b-a22b-fp8",
    "llama-3.1-405b-fp8",
    "vicuna-33b",
    "llama-2-70b",
    "qwen3-1.7b",
    "qwen3-4b",
    "llama-3.1-70b",
    "mixtral-8x7b",
    "llama-3.1-8b-nvfp4",
    "qwen3-8b-nvfp4",
    "qwen3-1.7b-nvfp4",
]
TARGETS += ["llama-3.1-8b q4_0", "llama-2-7b int8", "llama-2-7b int4g32", "llama-2-70b int8", "llama-2-70b int4g32"]
TARGETS += ["llama-3.1-8b int8", "llama-3.1-70b int8", "llama-2-7b q8_0", "LLaMA-2-7B Q8_0"]
PAIRS = {
    "eagle1-llama-3.1-8b": "llama-3.1-8b",
    "eagle3-llama-3.1-8b": "llama-3.1-8b",
    "eagle1-llama-2-13b": "llama-2-13b",
    "eagle1-llama-2-7b": "llama-2-7b",
    "llama-68m": "llama-2-7b",
    "eagle3-qwen3-1.7b": "qwen3-1.7b",
    "eagle3-qwen3-4b": "qwen3-4b",
    "eagle3-qwen3-8b": "qwen3-8b",
    "eagle3-qwen3-14b": "qwen3-14b",
    "eagle3-qwen3-32b": "qwen3-32b",
    "eagle3-qwen3-30b-a3b": "qwen3-30b-a3b",
    "eagle3-llama-2-13b": "llama-2-13b",
    "eagle1-vicuna-33b": "vicuna-33b",
    "eagle3-llama-3.1-8b-nvfp4": "llama-3.1-8b-nvfp4",
    "eagle3-qwen3-8b-nvfp4": "qwen3-8b-nvfp4",
    "eagle3-qwen3-1.7b-nvfp4": "qwen3-1.7b-nvfp4",
    "tinyllama-1.1b": "llama-2-13b",
    "llama-2-7b": "llama-2-70b",
    "eagle1-llama-2-70b": "llama-2-70b",
}
MEASURED_ON = ("h100_sxm", "b200", "a100_80_sxm", "h20", "rtx4090", "a40", "rtx3090", "thor", "a100_40", "l20")
ASKED = ("h20", "l20", "rtx_pro_6000", "gb10", "thor", "b300", "gb200", "mi355x", "v100_sxm", "m4_max", "m2_ultra")


@pytest.mark.parametrize("name", TARGETS)
def test_every_published_target_is_known(name: str) -> None:
    assert model(name).name == name.lower().replace(" ", "-")


@pytest.mark.parametrize("draft", PAIRS)
def test_every_published_pair_is_known_and_fits(draft: str) -> None:
    first, second = pair(PAIRS[draft], draft)
    assert second.read_bytes(1) < first.read_bytes(1)


def test_other_names_are_refused_with_near_ones() -> None:
    refuses("unknown model 'llama-3.1-8b-q4_k_x': did you mean llama-3.1-8b", model, "llama-3.1-8b-q4_k_x")
    refuses("unknown model 'vicuna-34b': did you mean vicuna-33b", model, "vicuna-34b")
    refuses(
        "unknown model 'eagle1-llama-2-8b': did you mean eagle1-llama-3-8b, eagle1-llama-2-7b",
        model,
        "eagle1-llama-2-8b",
    )


@pytest.mark.parametrize("name", sorted({*MEASURED_ON, *ASKED}))
def test_published_gpus_are_known(name: str) -> None:
    assert gpu(name).sources
    assert gpu(gpu(name).full_name) is gpu(name)


def test_rates_of_gpus_are_consistent() -> None:
    """Narrower numbers are never slower, apart from int8; no figure is the one with sparsity of another column."""
    for card in map(gpu, gpu_names()):
        bf16, fp8, fp4 = card.bf16_flops_per_second, card.fp8_flops_per_second, card.fp4_flops_per_second
        assert fp8 is None or 1.9 * bf16 <= fp8 <= 2.1 * bf16
        assert fp4 is None or fp8 is None or 1.9 * fp8 <= fp4 <= 4.1 * fp8
        assert (card.link_bytes_per_second is None) == (card.link == "")
        assert 2e11 <= card.bandwidth_bytes_per_second <= 1e13


def test_every_row_of_the_table_names_its_source() -> None:
    rows = list(csv.DictReader((files("spectheory") / "data" / "gpus.csv").read_text().splitlines()))
    assert len({row["key"] for row in rows}) == len(rows)
    assert all(row["primary_source"] for row in rows)
    assert all("derived" in row["notes"] or row["vendor"] != "nvidia" for row in rows if row["form"] == "soc")


def test_consumer_cards_as_built() -> None:
    """With float32 accumulation: half of the rate with float16 accumulation (142 and 330 TFLOPS)."""
    assert gpu("rtx3090").bf16_flops_per_second == 71e12
    assert gpu("rtx4090").bf16_flops_per_second == 165.2e12


@pytest.mark.parametrize(("card", "peak"), [("b200", 9e15), ("h100_sxm", 989e12), ("rtx_pro_6000", 1871.2e12)])
def test_nvfp4_is_multiplied_in_fp4_where_the_gpu_can(card: str, peak: float) -> None:
    packed = model("llama-3.1-8b-nvfp4")
    place = Roofline(gpu(card))
    operations, share = place.forward_parts(packed, [1])["operations"][0], place.costs.flops_share
    share *= place.costs.low_precision_share if card != "h100_sxm" else 1
    assert operations == pytest.approx(packed.flops_per_token(1024) / (share * peak))


def deployment(**changes: Any) -> Deployment:
    arguments: dict[str, Any] = {"gpu": "h200_sxm", "target": "qwen3-32b", "draft": "eagle3-qwen3-32b"}
    return Deployment(**arguments | changes)


def test_a_deployment_packs_its_target_and_both_caches() -> None:
    plain, packed, both = deployment(), deployment(quant="fp8"), deployment(quant="fp8", kv_dtype="fp8")
    seconds = [place.latency(8).target(1, 1024) for place in (plain, packed, both)]
    assert seconds[0] > seconds[1] > seconds[2]
    drafts = [place.latency(8).draft(1, 1024) for place in (plain, packed, both)]
    assert drafts[0] == drafts[1] > drafts[2]
    assert packed.latency(8).provenance.target == "qwen3-32b-fp8"
    refuses("unknown quantisation 'fp9': did you mean", deployment(quant="fp9").latency, 1)


def test_the_four_deployments_of_the_issue_have_times() -> None:
    places = [
        Deployment("h100_sxm", "llama-3.1-70b", "eagle3-llama-3.3-70b", gpus=4),
        Deployment("h100_sxm", "qwen3-32b", "eagle3-qwen3-32b", quant="fp8"),
        Deployment("h200_sxm", "deepseek-v3", "mtp", gpus=8),
        Deployment("rtx4090", "llama-3.1-8b", "llama-3.2-1b-q8_0", quant="q4_k_m"),
    ]
    for place in places:
        assert 0 < place.latency(1).draft(1, 1024) < place.latency(1).target(1, 1024)


def test_the_command_takes_formats_and_the_prediction_module(plan: Run) -> None:  # noqa: F811
    module = ("--gpu", "h200_sxm", "--gpus", 8, "--target", "deepseek-v3", "--draft", "mtp")
    succeeded(plan(*module, "--kv-dtype", "fp8"))
    refused = plan("--gpu", "h100_sxm", "--target", "qwen3-8b", "--draft", "mtp")
    assert refused.exit_code == 2
    assert "has no multi-token-prediction module" in " ".join(refused.output.split())
    for option, value, message in (
        ("--quant", "fp9", "unknown quantisation 'fp9'"),
        ("--kv-dtype", "fp9", "unknown format of the KV cache 'fp9'"),
    ):
        refused = plan("--gpu", "h100_sxm", "--target", "qwen3-8b", "--draft", "qwen3-0.6b", option, value)
        assert message in " ".join(refused.output.split())
    succeeded(plan("--gpu", "rtx4090", "--target", "qwen3-8b", "--draft", "qwen3-0.6b", "--quant", "q4_k_m"))
