"""Tests of the bytes of packed weights and caches: formats of checkpoints, formats by name, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from tests.hardware.tiny_configs import LLAMA as TINY
from tests.refusals import refuses

MATRICES = 5 * (96 + 48 + 48 + 96 + 3 * 96) * 64
ROWS = 5 * (96 + 48 + 48 + 64 + 96 + 96 + 64)
UP, LAYER, HEAD = 5 * 96 * 64, MATRICES // 5, 100 * 64
PLAIN = ModelConfig.from_hf(TINY)


def stored(config: dict[str, Any], **changes: Any) -> ModelConfig:
    return ModelConfig.from_hf(TINY | {"quantization_config": config} | changes)


def tensors(weights: dict[str, Any], activations: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A quantization_config of compressed-tensors with one group."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **changes}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
ACTIVE = {"num_bits": 8, "type": "float", "dynamic": True}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4"}


@pytest.mark.parametrize(
    ("config", "saved_bits", "arithmetic"),
    [
        (tensors(INT4), MATRICES * (16 - 4 - 16 / 32), "bf16"),
        (tensors(INT4 | {"symmetric": False}), MATRICES * (16 - 4 - 20 / 32), "bf16"),
        (tensors(INT4, ignore=["lm_head", "re:.*up_proj"]), (MATRICES - UP) * 11.5, "bf16"),
        (tensors(INT4, ignore=["lm_head", "model.layers.3"]), (MATRICES - LAYER) * 11.5, "bf16"),
        (tensors(INT4, ignore=["lm_head", "model.layers.2.mlp.gate_up_proj"]), (MATRICES - 2 * UP / 5) * 11.5, "bf16"),
        (tensors(FP8, ACTIVE), MATRICES * 8 - ROWS * 32, "fp8"),
        (tensors(FP8 | {"type": "int"}, ACTIVE | {"type": "int"}), MATRICES * 8 - ROWS * 32, "int8"),
        (tensors(NVFP4, NVFP4), MATRICES * (16 - 4.5), "fp4"),
        (tensors(FP8 | {"strategy": "block", "block_structure": [32, 16]}, ACTIVE), MATRICES * (8 - 32 / 512), "fp8"),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.0*"]},
            (MATRICES - LAYER) * 11.5,
            "fp4",
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, MATRICES * 8 - 5 * 7 * 32, "fp8"),
        (NF4, MATRICES * (12 - 32 / 64), "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, MATRICES * 8 - ROWS * 32, "int8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, MATRICES * (12 - 20 / 32), "bf16"),
        ({"quant_method": "fp8", "weight_block_size": [32, 16]}, MATRICES * (8 - 32 / 512), "fp8"),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.1"]}, (MATRICES - LAYER) * (8 - 32 / 128**2), "fp8"),
        ({"quant_method": "mxfp4"}, 0.0, "bf16"),
    ],
)
def test_checkpoints_store_what_their_config_says(config: dict[str, Any], saved_bits: float, arithmetic: str) -> None:
    """The bits saved against 16 a weight, with scales and zero points counted here from the sizes of the matrices."""
    packed = stored(config)
    assert PLAIN.weight_bytes - packed.weight_bytes == pytest.approx(saved_bits / 8, rel=1e-12)
    assert packed.parameters == PLAIN.parameters
    assert packed.arithmetic == arithmetic
    assert packed.kv_bytes_per_token == PLAIN.kv_bytes_per_token


def test_a_checkpoint_states_the_format_of_its_cache() -> None:
    scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert stored(tensors(FP8, ACTIVE) | scheme).kv_bytes_per_token == PLAIN.kv_bytes_per_token / 2
    algorithm = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    assert stored(algorithm).kv_bytes_per_token == PLAIN.kv_bytes_per_token / 2


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
    ],
)
def test_formats_of_llama_cpp_have_the_sizes_that_llama_bench_prints(name: str, gibibytes: float) -> None:
    """llama-bench prints the bytes of all tensors, rounded to 0.01 GiB, as in the tables of llama.cpp's discussions."""
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
    ("config", "message"),
    [
        ({"quant_method": "quark"}, "quantization_config of 'quark' is not known .*: known are fp8, mxfp4, awq"),
        ({"quant_method": "awq"}, "quantization_config of 'awq' is not known .*name the format"),
        (tensors(INT4 | {"group_size": "x"}), "is not known"),
        (tensors(INT4, ignore=["re:("]), r"has the pattern 're:\(', which is not a regular expression"),
    ],
)
def test_quantisations_that_cannot_be_are_refused(config: dict[str, Any], message: str) -> None:
    refuses(message, stored, config)


VALUES = hs.recursive(
    hs.none() | hs.booleans() | hs.integers(-5, 300) | hs.floats() | hs.sampled_from(["Linear", "re:(", "int", "FP8"]),
    lambda inner: hs.lists(inner, max_size=3) | hs.dictionaries(hs.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
EXAMPLES = [tensors(INT4), tensors(FP8, ACTIVE), NF4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}]
EXAMPLES += [{"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:x": {}}}, {"quant_method": "fp8"}]
FIELDS = ("bits", "group_size", "config_groups", "ignore", "quant_algo", "dynamic", "load_in_4bit")


@given(hs.sampled_from(EXAMPLES), hs.dictionaries(hs.sampled_from(FIELDS), VALUES, min_size=1, max_size=3))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_a_damaged_quantisation_is_read_or_refused_with_a_message(base: dict[str, Any], damage: dict[str, Any]) -> None:
    try:
        packed = stored(base | damage)
    except ValueError as error:
        assert str(error).startswith("the config: ")  # noqa: PT017
    else:
        assert 0 < packed.read_bytes(1) <= packed.weight_bytes <= 2 * PLAIN.weight_bytes
