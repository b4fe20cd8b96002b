"""Tests of the bytes of packed weights and caches: formats of checkpoints, formats by name, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from tests.hardware.tiny_configs import LLAMA as TINY
from tests.helpers import refuses

MATRICES = 5 * (96 + 48 + 48 + 96 + 3 * 96) * 64
PLAIN = ModelConfig.from_hf(TINY)


def stored(config: Any) -> ModelConfig:
    return ModelConfig.from_hf(TINY | {"quantization_config": config})


def tensors(weights: dict[str, Any], active: bool = True, **changes: Any) -> dict[str, Any]:
    """A quantization_config of compressed-tensors with one group."""
    group = {"weights": weights, "input_activations": {"num_bits": 8} if active else None}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **changes}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (tensors({"num_bits": 4, "type": "int"}, active=False), "w4a16"),
        (tensors({"num_bits": 8, "type": "float"}), "fp8"),
        (tensors({"num_bits": 8, "type": "int"}), "w8a8"),
        (tensors({"num_bits": 8, "type": "int"}, active=False), "int8"),
        (tensors({"num_bits": 4, "type": "float"}), "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "mxfp4"}, "bf16"),
    ],
)
def test_checkpoints_are_in_the_format_that_their_config_says(config: dict[str, Any], named: str) -> None:
    """MXFP4 packs experts only, and this model has none."""
    packed, by_name = stored(config), PLAIN.quantised(named)
    assert (packed.weight_bytes, packed.arithmetic) == (by_name.weight_bytes, by_name.arithmetic)
    assert packed.kv_bytes(1) == PLAIN.kv_bytes(1)


def test_a_checkpoint_states_the_format_of_its_cache() -> None:
    packed = stored(tensors({"num_bits": 8, "type": "float"}, kv_cache_scheme={"num_bits": 8, "type": "float"}))
    assert packed.kv_bytes(1) == PLAIN.kv_bytes(1) / 2


def test_only_the_experts_of_mxfp4_are_packed() -> None:
    moe = TINY | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    whole = ModelConfig.from_hf(moe)
    packed = ModelConfig.from_hf(moe | {"quantization_config": {"quant_method": "mxfp4"}})
    assert whole.weight_bytes - packed.weight_bytes == pytest.approx(5 * 4 * 3 * 96 * 64 * (2 - 4.25 / 8))


@pytest.mark.parametrize(
    ("name", "gibibytes"),
    [
        ("llama-2-7b q4_0", 3.56),
        ("llama-2-7b-q8_0", 6.67),
        ("llama-2-13b q4_0", 6.86),
        ("llama-3.1-8b-q4_k_m", 4.58),
        ("llama-3.1-8b Q8_0", 7.95),
        ("llama-3.1-70b-q4_k_m", 39.59),
        ("llama-3.1-8b IQ3_XS", 3.27),
        ("llama-3.1-8b-q4_k_s", 4.36),
        ("gpt-oss-20b-mxfp4.gguf", 11.25),
    ],
)
def test_formats_of_llama_cpp_have_the_sizes_that_llama_bench_prints(name: str, gibibytes: float) -> None:
    """The bytes of all tensors as llama-bench prints them, but 11.27 for gpt-oss, whose biases have 32 bits."""
    assert round(model(name).weight_bytes / 2**30, 2) == gibibytes


@pytest.mark.parametrize(
    ("quantisation", "bits", "arithmetic"),
    [
        ("int4", 4 + 16 / 128, "bf16"),
        ("int4g32", 5.0, "bf16"),
        ("w4a16", 4 + 16 / 128, "bf16"),
        ("awq", 4 + 20 / 128, "bf16"),
        ("nvfp4", 4.5, "fp4"),
        ("mxfp4", 4.25, "bf16"),
        ("nf4", 4 + 8 / 64 + 32 / 64 / 256, "bf16"),
        ("fp8-block", 8 + 32 / 128**2, "fp8"),
    ],
)
def test_formats_by_name(quantisation: str, bits: float, arithmetic: str) -> None:
    packed = PLAIN.quantised(quantisation)
    assert PLAIN.weight_bytes - packed.weight_bytes == pytest.approx(MATRICES * (16 - bits) / 8, rel=1e-12)
    assert (packed.arithmetic, packed.name) == (arithmetic, f"the config-{quantisation}")


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "quark"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        tensors({"num_bits": "x"}),
        3,
    ],
)
def test_quantisations_that_cannot_be_are_refused(config: Any) -> None:
    refuses("quantization_config of .* is not known .* name the format of the weights", stored, config)
