"""Tests of GPUs and of the terms of the roofline, against the published fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import Gpu, gpu, gpu_names
from spectheory.hardware.models import model, model_names
from spectheory.hardware.roofline import Roofline
from tests.helpers import refuses
from tests.planning.test_confidence import PUBLISHED

COSTS = EngineCosts.of("vllm")
H100 = Roofline(gpu("h100_sxm"), costs=PUBLISHED)
KEYS = ("weights", "experts", "operations", "overlap", "cache", "layers", "communication", "launches")
BOUNDLESS = Gpu("boundless", "", 1e18, 2e12, 5e14, None, ())


def test_the_gpu_table() -> None:
    h100 = gpu("h100_sxm")
    assert (h100.memory_bytes, h100.bandwidth_bytes_per_second) == (80e9, 3.35e12)
    assert (h100.bf16_flops_per_second, h100.fp8_flops_per_second) == (989e12, 1978e12)
    assert gpu("NVIDIA H100 SXM") is gpu("H100-SXM") is gpu(h100) is h100
    assert gpu("RTX 4090") is gpu("rtx4090")
    assert gpu("a40").fp8_flops_per_second is None
    assert all(gpu(name).sources for name in gpu_names())
    assert gpu("NVIDIA A100-SXM4-40GB") is gpu("NVIDIA A100-PCIE-40GB") is gpu("a100_40")


def test_the_fit_on_an_h100_is_reproduced() -> None:
    """SpecDecode-Bench: T = 5.886e-3 + 2.101e-5 tokens + 3.926e-8 kv_tokens s, Llama-3.1-8B, vLLM: all within 1 %."""
    parts = H100.forward_parts(model("llama-3.1-8b"), [1, 100])
    fixed = parts["weights"][0] + parts["layers"][0]
    assert fixed == pytest.approx(5.886e-3, rel=0.01)
    assert parts["operations"] == pytest.approx(2.101e-5 * np.array([1, 100]), rel=0.01)
    assert parts["cache"] == pytest.approx(3.926e-8 * 1024, rel=0.01)
    eight = dataclasses.replace(H100, batch=8).forward_seconds(model("llama-3.1-8b"), [5])
    assert eight == pytest.approx(5.886e-3 + 2.101e-5 * 40 + 3.926e-8 * 8 * 1024, rel=0.01)


@given(
    name=hs.sampled_from(model_names()),
    batch=hs.integers(1, 512),
    context=hs.integers(0, 100_000),
    tokens=hs.integers(1, 300),
    gpus=hs.sampled_from([1, 2, 8]),
)
@settings(derandomize=True, max_examples=150)
def test_more_work_takes_longer_and_more_gpus_less(name: str, batch: int, context: int, tokens: int, gpus: int) -> None:
    free = {name: 0.0 for name in vars(COSTS) if name.endswith("_seconds")}
    quiet = dataclasses.replace(COSTS, reduce_seconds=0, reduce_gpu_seconds=0)
    place, sizes = Roofline(BOUNDLESS, gpus, batch, context, quiet), model(name)

    def seconds(place: Roofline, tokens: int = tokens) -> float:
        return float(place.forward_seconds(sizes, [tokens])[0])

    now, ceilings = seconds(place), [part[0] for part in place.forward_parts(sizes, [tokens]).values()]
    assert 0 < max(ceilings) <= now < seconds(place, tokens + 1)
    assert now < seconds(dataclasses.replace(place, batch=batch + 1))
    assert now <= seconds(dataclasses.replace(place, context=context + 1000))
    assert now > seconds(dataclasses.replace(place, gpus=2 * gpus))
    doubled = dataclasses.replace(BOUNDLESS, bandwidth_bytes_per_second=4e12, bf16_flops_per_second=1e15)
    bare = dataclasses.replace(COSTS, **free)
    whole, half = (Roofline(card, gpus, batch, context, bare) for card in (BOUNDLESS, doubled))
    assert seconds(half) == pytest.approx(seconds(whole) / 2)
    layers = sizes.shape.layers * COSTS.layer_seconds + sizes.shape.moe_layers * COSTS.moe_layer_seconds
    linear = COSTS.linear_layer_seconds + (tokens - 1) * COSTS.state_seconds if sizes.shape.state_bytes else 0
    layers += 3 / 4 * sizes.shape.layers * linear
    loads = {k: place.forward_parts(sizes, [tokens])[k][0] - whole.forward_parts(sizes, [tokens])[k][0] for k in KEYS}
    assert loads["layers"] == pytest.approx(layers)
    assert seconds(place) == pytest.approx(seconds(whole) + sum(loads.values()))
    assert place.memory_needed(sizes) <= dataclasses.replace(place, batch=batch + 1).memory_needed(sizes)


def test_fp8_and_float32_peaks() -> None:
    """An A40 has no units for fp8: weights are unpacked. Experts that are not have a bandwidth share of their own."""

    def operations(card: str, arithmetic: Any) -> float:
        sizes = dataclasses.replace(model("llama-3.1-8b"), arithmetic=arithmetic)
        return float(Roofline(gpu(card)).forward_parts(sizes, [1])["operations"][0])

    bf16 = operations("h100_sxm", "bf16")
    assert operations("h100_sxm", "fp8") == pytest.approx(bf16 / 2 / COSTS.low_precision_share)
    assert operations("h100_sxm", "fp32") == pytest.approx(bf16 * 2)
    assert operations("a40", "fp8") == operations("a40", "bf16")
    slower = dataclasses.replace(COSTS, low_precision_expert_share=COSTS.low_precision_expert_share / 4)
    for card, ratio in (("h100_sxm", 4), ("a40", 1)):
        both = [Roofline(gpu(card), costs=costs) for costs in (slower, COSTS)]
        one, other = (place.forward_parts(model("qwen3-30b-a3b-fp8"), [1])["experts"] for place in both)
        assert one / other == pytest.approx(ratio)


@pytest.mark.parametrize("change", [{"bandwidth_share": 0.0}, {"flops_share": 1.1}, {"layer_seconds": -1.0}])
def test_costs_that_cannot_be_are_refused(change: dict[str, float]) -> None:
    refuses(f"{next(iter(change))} must be", dataclasses.replace, COSTS, **change)


def test_packed_weights_are_slower_up_to_8_tokens() -> None:
    """Where kernels unpack the weights, 2 to 8 tokens cost more each; where the GPU multiplies fp8, they do not.

    The attention does not run in these kernels.
    """
    costs = dataclasses.replace(COSTS, packed_flops_share=0.1, packed_large_share=0.5, flops_share=0.8)
    place = Roofline(gpu("h100_sxm"), costs=costs)
    sizes, tokens = model("llama-3.1-8b-q4_0"), np.array([1, 2, 8, 9, 64, 65])
    packed = place.forward_parts(sizes, tokens)["operations"]
    one = sizes.flops_per_token(0) / 989e12
    attention = (sizes.flops_per_token(1024) - sizes.flops_per_token(0)) / 989e12 / 0.8
    kernels = one * np.array([1 / 0.8, 2 / 0.1, 8 / 0.1, 8 / 0.1, 64 / 0.4, 65 / 0.4])
    assert packed == pytest.approx(kernels + tokens * attention)
    fp8 = place.forward_parts(model("llama-3.1-8b-fp8"), [1, 2])["operations"]
    assert fp8[1] == pytest.approx(2 * fp8[0])


@pytest.mark.parametrize("batch", [1, 64])
def test_multiplications_in_fp4_overlap_with_the_reading_of_weights(batch: int) -> None:
    """The longer one of the two is the time of both. GPUs without such units, and fp8, add them."""
    place, tokens, sizes = Roofline(gpu("b200"), batch=batch), [1, 4, 4000], model("llama-3.1-8b-nvfp4")
    parts = place.forward_parts(sizes, tokens)
    reached = COSTS.flops_share * COSTS.low_precision_share * (gpu("b200").fp4_flops_per_second or 0)
    kernels = batch * np.array(tokens) * sizes.flops_per_token(0) / reached
    assert parts["weights"] + parts["overlap"] + kernels == pytest.approx(np.maximum(parts["weights"], kernels))
    assert kernels[0] < parts["weights"][0]
    assert parts["weights"][-1] < kernels[-1]
    for card, name in (("h100_sxm", "llama-3.1-8b-nvfp4"), ("b200", "llama-3.1-8b-fp8"), ("b200", "llama-3.1-8b")):
        assert not Roofline(gpu(card)).forward_parts(model(name), tokens)["overlap"].any()


def test_sharing_of_experts() -> None:
    """Without independent choice, 4 tokens of each of 8 sequences use the experts of one token."""
    place = Roofline(gpu("h100_sxm"), batch=8, costs=dataclasses.replace(COSTS, independent_share=1e-12))
    one, four = place.forward_parts(model("qwen3-30b-a3b"), [1, 4])["experts"]
    alone = Roofline(gpu("h100_sxm")).forward_parts(model("qwen3-30b-a3b"), [1])["experts"][0]
    assert one == pytest.approx(alone)
    assert four == pytest.approx(alone)
