"""Tests of models by name, by config.json, and of configs that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory.hardware.gpus import gpu, gpu_names
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import draft_of, model, model_names, repository
from spectheory.planning.deployment import Deployment
from tests.hardware.tiny_configs import LLAMA, TINY
from tests.helpers import known, refuses


def test_configs_from_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert model(tmp_path) == model(str(tmp_path / "config.json")) == ModelConfig.from_hf(tmp_path)
    assert model("Llama-3.1-8B") is model(model("llama-3.1-8b"))
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    for file, message in {
        "torn": "cannot be read as a config.json",
        "list": "it contains no object",
        "none": "there is no file",
    }.items():
        refuses(message, model, tmp_path / f"{file}.json")


def test_every_shipped_model_states_its_tokenizer_and_its_context() -> None:
    assert all(model(name).tokenizer for name in model_names())
    lengths = {name: model(name).longest_context for name in model_names()}
    assert lengths["eagle3-llama-3.1-8b"] is None, "a head runs at positions beyond those that its config states"
    assert (lengths["llama-3.1-8b"], lengths["deepseek-v3"], lengths["gpt2"]) == (131_072, 163_840, 1024)
    assert all((length is None) == name.startswith("eagle") for name, length in lengths.items())


@pytest.mark.parametrize(
    ("change", "longest"),
    [
        ({}, 1000),
        ({"rope_scaling": None}, 1000),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 125}}, 1000),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 300}}, 1200),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 4000),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2}}, 2000),
        ({"max_position_embeddings": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, None),
    ],
)
def test_the_longest_context_is_scaled_as_the_rope_says(change: dict[str, Any], longest: int | None) -> None:
    """As vLLM derives the longest model length."""
    assert ModelConfig.from_hf(LLAMA | {"max_position_embeddings": 1000} | change).longest_context == longest


def test_models_are_found_by_their_repository() -> None:
    assert model("meta-llama/Llama-3.1-8B") is model("llama-3.1-8b")
    assert repository("kimi-k2.5") == "moonshotai/Kimi-K2.5"
    tuned = {
        "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
        "RedHatAI/Qwen3-32B-FP8-dynamic": "qwen3-32b-fp8",
        "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "llama-3.1-8b-w4a16",
        "RedHatAI/Qwen3-32B-speculator.eagle3": "eagle3-qwen3-32b",
    }
    assert {name: model(name).name for name in tuned} == tuned
    file = "models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"
    assert (model(file).name, model(file).weight_bytes) == (file, model("llama-3.1-8b-q4_k_m").weight_bytes)
    head = known(draft_of(model("qwen3-32b"), "RedHatAI/Qwen3-32B-speculator.eagle3"))
    assert (head.name, head.shape) == ("RedHatAI/Qwen3-32B-speculator.eagle3", model("eagle3-qwen3-32b").shape)
    refuses("unknown model 'llama-3.1-8': did you mean llama-3.1-8b, ", model, "meta-llama/Llama-3.1-8-Instruct")
    refuses(r"unknown model 'llama-3.1': did you mean .*llama-3.1-8b.*a config.json works", model, "llama-3.1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_position_embeddings": "x"}, "max_position_embeddings must be a whole number, got 'x'"),
        ({"model_type": None}, "unknown model_type 'None'"),
        (
            {"model_type": "lama"},
            "unknown model_type .lama.: did you mean llama.*; for another model, give a JSON file",
        ),
        ({"hidden_size": None}, "the config lacks the field 'hidden_size'"),
        ({"model_type": "deepseek_v3"}, "lacks the field 'kv_lora_rank'"),
        ({"model_type": "mixtral", "num_local_experts": 1, "num_experts_per_tok": 2}, "must be between 1 and 1, got 2"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be between 1 and 1,000,000,000, got 0"),
        ({"num_key_value_heads": 3}, "num_attention_heads must be a multiple of num_key_value_heads=3, got 4"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, got 'no'"),
        ({"layer_types": ["full_attention"]}, "layer_types must be a list with 5 entries, one for each layer"),
        ({"torch_dtype": "float12"}, "unknown dtype 'float12': did you mean float"),
        ({"sizes": {"layers": 2}}, "sizes must have layers, kv_bytes_per_token or caches, and parameters or weights"),
    ],
)
def test_configs_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    refuses(message, ModelConfig.from_hf, LLAMA | change)


JSON = hs.recursive(
    hs.none() | hs.booleans() | hs.integers() | hs.floats() | hs.text(max_size=5),
    lambda inner: hs.lists(inner, max_size=3) | hs.dictionaries(hs.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(hs.sampled_from(TINY), hs.data())
@settings(derandomize=True, max_examples=120)
def test_a_damaged_config_is_read_or_refused_with_a_message(change: dict[str, Any], data: hs.DataObject) -> None:
    config = {"quantization_config": None, "torch_dtype": "bfloat16", **LLAMA, **change}
    for field in data.draw(hs.lists(hs.sampled_from(sorted(config)), min_size=1, max_size=3)):
        config[field] = data.draw(JSON)
    try:
        sizes = ModelConfig.from_hf(config)
    except ValueError as error:
        assert str(error).startswith("the config")  # noqa: PT017
    else:
        assert 0 < sizes.weight_bytes < float("inf")


def test_a_model_of_another_family_is_given_by_its_sizes(tmp_path: Path) -> None:
    """Of 10 million parameters, 8 million are in 8 experts in each layer, of which a token uses 2."""
    dense = {"layers": 4, "parameters": 10_000_000, "kv_bytes_per_token": 4096}
    (tmp_path / "own.json").write_text(json.dumps({"sizes": dense, "max_position_embeddings": 2000}))
    own = model(tmp_path / "own.json")
    assert (own.parameters, own.shape.layers, own.longest_context, own.weight_bytes) == (10_000_000, 4, 2000, 2e7)
    assert (own.kv_bytes(1), own.kv_bytes(10), own.quantised("int4g32").linear_bytes) == (4096, 40960, 0.625)
    moe = dense | {"active_parameters": 4_000_000, "experts": 8, "experts_per_token": 2}
    sizes = model({"sizes": moe, "quantization_config": {"quant_method": "mxfp4"}})
    assert (sizes.parameters, sizes.active_parameters) == (10_000_000, 4_000_000)
    assert sizes.weight_bytes == pytest.approx(2e6 * 2 + 8e6 * 4.25 / 8)
    refuses("q4_k_m mixes types, and the matrices of .* are not known: give a format", own.quantised, "q4_k_m")
    assert model(f"{tmp_path / 'own.json'}-fp8").linear_bytes == own.quantised("fp8").linear_bytes


def test_a_format_can_follow_a_name() -> None:
    for name in ("llama-3.1-8b-nvfp4", "LLaMA-2-7B Q8_0", "qwen3-235b-a22b-fp8"):
        assert model(name).name == name.lower().replace(" ", "-")
    refuses("llama-3.1-8b-q4_k_x: unknown quantisation 'q4_k_x': did you mean q4_k_s", model, "llama-3.1-8b-q4_k_x")


def test_rates_of_gpus_are_consistent_and_have_sources() -> None:
    """Narrower numbers are never slower, apart from int8; no figure is the one with sparsity of another column."""
    for card in map(gpu, gpu_names()):
        bf16, fp8, fp4 = card.bf16_flops_per_second, card.fp8_flops_per_second, card.fp4_flops_per_second
        assert fp8 is None or 1.9 * bf16 <= fp8 <= 2.1 * bf16
        assert fp4 is None or fp8 is None or 1.9 * fp8 <= fp4 <= 4.1 * fp8
        assert (card.link_bytes_per_second is None) == (card.link == "")
        assert 2e11 <= card.bandwidth_bytes_per_second <= 1e13
        assert card.sources
        assert gpu(card.full_name) is card
    assert {"h20", "l20", "rtx_pro_6000", "gb10", "thor", "b300", "mi355x", "v100_sxm", "m4_max"} <= set(gpu_names())


def test_a_deployment_packs_its_target_and_both_caches() -> None:
    pair: dict[str, Any] = {"gpu": "h200_sxm", "target": "qwen3-32b", "draft": "eagle3-qwen3-32b"}
    formats: list[dict[str, Any]] = [{}, {"target": "qwen3-32b-fp8"}, {"target": "qwen3-32b-fp8", "kv_dtype": "fp8"}]
    plain, packed, both = (Deployment(**pair | more).latency(8) for more in formats)
    assert plain.target(1, 1024) > packed.target(1, 1024) > both.target(1, 1024)
    assert plain.draft(1, 1024) == packed.draft(1, 1024) > both.draft(1, 1024)
    assert packed.provenance.target == "qwen3-32b-fp8"
    refuses("unknown quantisation 'fp9': did you mean", Deployment(**pair | {"target": "qwen3-32b-fp9"}).latency, 1)
