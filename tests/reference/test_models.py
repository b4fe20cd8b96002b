"""Tests of models by name, by config.json, and of configs that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from spectheory.hardware.shipped_models import model_names
from tests.refusals import refuses
from tests.tiny_configs import LLAMA, TINY


def test_configs_from_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert model(tmp_path) == model(str(tmp_path / "config.json")) == ModelConfig.from_hf(tmp_path)
    assert model("Llama-3.1-8B") is model(model("llama-3.1-8b"))
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    for file, message in {
        "torn": "cannot be read as a config.json",
        "list": "is not a config.json: it must contain an object",
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
        ({"rope_scaling": {"rope_type": "longrope", "factor": 8.0}}, 1000),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 300}}, 1200),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 4000),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2}}, 2000),
        ({"max_position_embeddings": None, "rope_scaling": {"factor": 2.0}}, None),
    ],
)
def test_the_longest_context_is_scaled_as_the_rope_says(change: dict[str, Any], longest: int | None) -> None:
    """As vLLM derives the longest model length."""
    assert ModelConfig.from_hf(LLAMA | {"max_position_embeddings": 1000} | change).longest_context == longest


def test_models_are_found_by_their_repository() -> None:
    assert model("meta-llama/Llama-3.1-8B") is model("llama-3.1-8b")
    with pytest.raises(
        ValueError, match="there is no file meta-llama/Llama-3.1-8: give a config.json, its folder, or a"
    ):
        model("meta-llama/Llama-3.1-8")


def test_a_folder_in_the_working_directory_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cfg").mkdir()
    Path("cfg/config.json").write_text(json.dumps(LLAMA))
    assert model("cfg").parameters == ModelConfig.from_hf(LLAMA).parameters
    refuses("unknown model 'cfh': known names are deepseek-r1", model, "cfh")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_position_embeddings": "x"}, "max_position_embeddings must be a whole number, got 'x'"),
        ({"max_position_embeddings": 9, "rope_scaling": 3}, "rope_scaling or rope_parameters must be an object, got 3"),
        (
            {"max_position_embeddings": 9, "rope_scaling": {"factor": "x"}},
            "factor of rope_scaling or rope_parameters must be a number above 0",
        ),
        ({"model_type": None}, "the config lacks the field 'model_type'"),
        ({"model_type": "lama"}, "unknown model_type 'lama': did you mean llama"),
        ({"hidden_size": None}, "the config lacks the field 'hidden_size', which a config of model_type 'llama'"),
        ({"vocab_size": None}, "lacks the field 'vocab_size'"),
        ({"model_type": "qwen3", "head_dim": None}, "lacks the field 'head_dim', which .* model_type 'qwen3'"),
        ({"model_type": "deepseek_v3"}, "lacks the field 'kv_lora_rank'"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "'num_experts_per_tok' or 'experts_per_token'"),
        (
            {"model_type": "mixtral", "num_local_experts": 1, "num_experts_per_tok": 2},
            "must be at most the 1 experts, got 2",
        ),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be between 1 and 1,000,000,000, got 0"),
        ({"num_hidden_layers": "12"}, "num_hidden_layers must be a whole number"),
        ({"num_key_value_heads": 3}, "num_attention_heads must be a multiple of num_key_value_heads=3, got 4"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, got 'no'"),
        ({"layer_types": ["full_attention"]}, "layer_types must have one entry .* num_hidden_layers=5 layers, got 1"),
        ({"torch_dtype": "float12"}, "unknown dtype 'float12': did you mean float"),
        ({"quantization_config": {"quant_method": "hqq"}}, "quant_method must be one of fp8, mxfp4, awq, gptq"),
        ({"quantization_config": {"quant_method": "awq"}}, "awq must have bits of 2, 3, 4 or 8, got bits=None"),
    ],
)
def test_configs_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    refuses(message, ModelConfig.from_hf, LLAMA | change)


def test_an_unknown_model_lists_near_names() -> None:
    with pytest.raises(
        ValueError, match=r"unknown model 'llama-3.1': did you mean .*llama-3.1-8b.*a config.json works"
    ):
        model("llama-3.1")


JSON = hs.recursive(
    hs.none() | hs.booleans() | hs.integers() | hs.floats() | hs.text(max_size=5),
    lambda inner: hs.lists(inner, max_size=3) | hs.dictionaries(hs.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(hs.sampled_from(TINY), hs.data())
@settings(deadline=None, derandomize=True, max_examples=120)
def test_a_damaged_config_is_read_or_refused_with_a_message(change: dict[str, Any], data: hs.DataObject) -> None:
    config = {"quantization_config": None, "torch_dtype": "bfloat16", **LLAMA, **change}
    for field in data.draw(hs.lists(hs.sampled_from(sorted(config)), min_size=1, max_size=3)):
        config[field] = data.draw(JSON)
    try:
        sizes = ModelConfig.from_hf(config)
    except ValueError as error:
        assert str(error).startswith("the config")  # noqa: PT017
    else:
        assert 0 < sizes.read_bytes(1) <= sizes.weight_bytes < float("inf")
