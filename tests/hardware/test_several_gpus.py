"""Tests of several GPUs: what they share, what they send each other, and the memory that they need."""

from __future__ import annotations

import dataclasses

import pytest

from spectheory.hardware.engine_costs import EngineCosts, Parallel
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.roofline import Roofline

COSTS = EngineCosts.of("vllm")


def test_gpus_share_weights_and_as_much_cache_as_has_heads() -> None:
    sizes = model("llama-3.1-70b")
    for gpus, shards in ((1, 1), (8, 8), (16, 8)):
        needed = Roofline(gpu("h100_sxm"), gpus, 4, 1000).memory_needed(sizes)
        assert needed == pytest.approx(sizes.weight_bytes / gpus + 4 * 1000 * 327680 / shards)
    deepseek = model("deepseek-v3")
    assert Roofline(gpu("h200_sxm"), 8, 1, 10**6).memory_needed(deepseek) > deepseek.kv_bytes(10**6)


def parts(name: str, parallel: Parallel, gpus: int = 4, batch: int = 6, **costs: float) -> dict[str, float]:
    place = Roofline(gpu("h100_sxm"), gpus, batch, 1000, dataclasses.replace(COSTS, **costs), parallel)
    return {term: float(seconds[0]) for term, seconds in place.forward_parts(model(name), [2]).items()}


def test_tensor_parallelism_divides_and_reduces() -> None:
    """32 layers with two all-reduces each; 8 heads for 16 GPUs."""
    one, four, many = (parts("llama-3.1-8b", "tensor", gpus) for gpus in (1, 4, 16))
    for term in ("weights", "operations", "cache"):
        assert four[term] == pytest.approx(one[term] / 4)
    assert many["cache"] == pytest.approx(one["cache"] / 8)
    assert one["communication"] == 0
    assert four["communication"] == pytest.approx(2 * 32 * (COSTS.reduce_seconds + 4 * COSTS.reduce_gpu_seconds))


def test_expert_parallelism_has_data_parallel_attention() -> None:
    """6 sequences on 4 GPUs: one GPU reads the caches of two. 48 layers exchange 12 tokens."""
    one, four = (parts("qwen3-30b-a3b", "expert", gpus) for gpus in (1, 4))
    assert four["weights"] == one["weights"]
    assert four["experts"] == pytest.approx(one["experts"] / 4)
    assert four["cache"] == pytest.approx(one["cache"] * 2 / 6)
    exchange = COSTS.exchange_seconds + 12 * COSTS.exchange_token_seconds
    assert four["communication"] == pytest.approx(48 * exchange)
    sizes, place = model("qwen3-30b-a3b"), Roofline(gpu("h100_sxm"), 4, 6, 1000, COSTS, "expert")
    shape = sizes.shape
    experts = 2.0 * shape.moe_layers * shape.experts * (shape.expert_linear_parameters + shape.expert_other_parameters)
    needed = sizes.weight_bytes - experts + experts / 4 + 2 * sizes.kv_bytes(1000)
    assert place.memory_needed(sizes) == pytest.approx(needed)


def test_a_split_by_layers_divides_memory_only() -> None:
    """The GPUs work one after the other, and launches are waited for: 32 layers of 1 ms."""
    one, four = (parts("llama-3.1-8b", "layers", gpus, eager_seconds=1e-3) for gpus in (1, 4))
    device = sum(seconds for term, seconds in one.items() if term != "launches")
    assert {term: seconds for term, seconds in four.items() if term != "launches"} == {
        term: seconds for term, seconds in one.items() if term != "launches"
    }
    assert one["launches"] == pytest.approx(max(0.0, 32e-3 - device))
    assert four["launches"] == pytest.approx(32e-3)
    sizes, place = model("llama-3.1-8b"), Roofline(gpu("h100_sxm"), 4, 6, 1000, COSTS, "layers")
    assert place.memory_needed(sizes) == pytest.approx((sizes.weight_bytes + 6 * sizes.kv_bytes(1000)) / 4)


@pytest.mark.parametrize(
    ("card", "parallel", "bytes_sent"),
    [
        ("h100_pcie", "tensor", 2 * 3 / 4 * 12 * 4096 * 2),
        ("l40s", "tensor", 2 * 3 / 4 * 12 * 4096 * 2),
        ("h100_sxm", "tensor", 0),
        ("b200", "tensor", 0),
        ("h100_pcie", "layers", 0),
    ],
)
def test_a_slower_link_than_nvlink_4_adds_the_longer_time_of_its_bytes(
    card: str, parallel: Parallel, bytes_sent: float
) -> None:
    """A ring over 4 GPUs sends 2 * 3/4 of the states of 12 tokens, 4,096 numbers of 2 bytes, twice in 32 layers."""
    sizes = model("llama-3.1-8b")
    slow = Roofline(gpu(card), 4, 6, 1000, COSTS, parallel)
    unknown = dataclasses.replace(slow, gpu=dataclasses.replace(gpu(card), link_bytes_per_second=None))
    found, known = (place.forward_parts(sizes, [2])["communication"][0] for place in (slow, unknown))
    link = gpu(card).link_bytes_per_second
    assert link is not None
    assert found - known == pytest.approx(64 * bytes_sent * (1 / link - 1 / 450e9), abs=1e-12)
    said = [one for one in slow.provenance(sizes, None, "vllm", False).assumptions if "communication over" in one]
    assert len(said) == (bytes_sent > 0)


def test_experts_over_a_slower_link_are_sent_to_each_of_the_other_gpus_once() -> None:
    """12 tokens over 4 GPUs, each to 3 others although it has 8 experts, and back; 2,048 numbers in 48 layers."""
    both = [Roofline(gpu(card), 4, 6, 1000, COSTS, "expert") for card in ("h100_pcie", "h100_sxm")]
    slow, fast = (place.forward_parts(model("qwen3-30b-a3b"), [2])["communication"][0] for place in both)
    assert slow - fast == pytest.approx(48 * 2 * 12 / 4 * 3 * 2048 * 2 * (1 / 64e9 - 1 / 450e9))
