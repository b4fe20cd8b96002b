"""Tests of names, shapes and fields of draft heads against those of public checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reference.heads import LAYOUTS, HeadConfig, expected_shapes
from tests.reference.head_folders import written
from tests.reference.tiny_heads import EAGLE1, LAYERS3


def rope(theta: float) -> dict[str, Any]:
    """The parameters of a rotary embedding without scaling."""
    return {"rope_theta": theta, "rope_type": "default"}


LLAMA_8B = HeadConfig("eagle3", 4096, 14336, 128256, 32, 8, 128, 1e-5, own_embedding=False, draft_vocab_size=32000)
QWEN_32B = HeadConfig("eagle3", 5120, 25600, 151936, 64, 8, 128, own_embedding=False, draft_vocab_size=32000)
PUBLISHED: dict[str, tuple[HeadConfig, str, dict[str, tuple[int, ...]]]] = {
    "thoughtworks/Qwen3-32B-Eagle3 @ba10360, its safetensors header": (
        QWEN_32B,
        "sglang",
        {
            "d2t": (32000,),
            "fc.weight": (5120, 15360),
            "lm_head.weight": (32000, 5120),
            "midlayer.hidden_norm.weight": (5120,),
            "midlayer.input_layernorm.weight": (5120,),
            "midlayer.mlp.down_proj.weight": (5120, 25600),
            "midlayer.mlp.gate_proj.weight": (25600, 5120),
            "midlayer.mlp.up_proj.weight": (25600, 5120),
            "midlayer.post_attention_layernorm.weight": (5120,),
            "midlayer.self_attn.k_proj.weight": (1024, 10240),
            "midlayer.self_attn.o_proj.weight": (5120, 8192),
            "midlayer.self_attn.q_proj.weight": (8192, 10240),
            "midlayer.self_attn.v_proj.weight": (1024, 10240),
            "norm.weight": (5120,),
            "t2d": (151936,),
        },
    )
}
"""Names and shapes of public checkpoints, facts copied by hand from public code that checks or lists their headers.
 The header is quoted
there without its `t2d`."""

YUHUILI = {
    "architectures": ["LlamaForCausalLM"],
    "bias": False,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 1,
    "num_key_value_heads": 8,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.28.1",
    "use_cache": True,
    "vocab_size": 128256,
}
"""config.json of yuhuili/EAGLE-LLaMA3.1-Instruct-8B, as vllm-project/speculators pull request 31 prints it."""
REDHATAI = {
    "architectures": ["Eagle3DraftModel"],
    "draft_vocab_size": 32000,
    "dtype": "bfloat16",
    "eagle_aux_hidden_state_layer_ids": [2, 30, 57],
    "embed_requires_grad": False,
    "norm_before_fc": False,
    "norm_before_residual": True,
    "speculators_config": {
        "algorithm": "eagle3",
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
        ],
        "verifier": {"architectures": [], "name_or_path": "google/gemma-4-31B-it"},
    },
    "speculators_model_type": "eagle3",
    "target_hidden_size": None,
    "tie_word_embeddings": False,
    "transformer_layer_config": {
        "attention_bias": False,
        "head_dim": 256,
        "hidden_act": "silu",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "max_position_embeddings": 262144,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "num_key_value_heads": 16,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "vocab_size": 262144,
    },
}
"""config.json of RedHatAI/gemma-4-31B-it-speculator.eagle3, as public code quotes it."""


@pytest.mark.parametrize(
    ("layout", "fields", "own_embedding", "wanted"),
    [
        ("eagle", YUHUILI, True, HeadConfig("eagle1", 4096, 14336, 128256, 32, 8, 128, 1e-5, rope=rope(5e5))),
        (
            "speculators",
            REDHATAI,
            True,
            HeadConfig(
                *("eagle3", 5376, 21504, 262144, 32, 16, 256),
                positions=262144,
                draft_vocab_size=32000,
                layers=(2, 30, 57),
                norm_before_residual=True,
                target="google/gemma-4-31B-it",
            ),
        ),
    ],
    ids=["yuhuili", "RedHatAI"],
)
def test_published_config_files_say_what_they_are_read_as(
    layout: str, fields: dict[str, Any], own_embedding: bool, wanted: HeadConfig
) -> None:
    owners = [one for one in LAYOUTS if one.owns(fields)]
    assert [one.name for one in owners] == [layout]
    assert owners[0].read(fields, own_embedding=own_embedding) == wanted


@pytest.mark.parametrize("name", PUBLISHED)
def test_names_and_shapes_are_those_of_public_checkpoints(name: str) -> None:
    config, layout, shapes = PUBLISHED[name]
    assert expected_shapes(config, layout) == shapes
    assert expected_shapes(config, "speculators") == {
        key.replace("midlayer.", "layers.0."): shape for key, shape in shapes.items()
    }


def test_keys_are_those_of_public_checkpoints() -> None:
    keys = sorted(*(shapes for _, _, shapes in PUBLISHED.values()))
    assert sorted(expected_shapes(LLAMA_8B, "eagle")) == keys, "wantsleep/OLMoE_1B_7B_Eagle3, EAGLE issue 265"
    assert sorted(expected_shapes(replace(EAGLE1, own_embedding=False), "eagle")) == [
        "fc.bias",
        "fc.weight",
        "layers.0.mlp.down_proj.weight",
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.post_attention_layernorm.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.o_proj.weight",
        "layers.0.self_attn.q_proj.weight",
        "layers.0.self_attn.v_proj.weight",
    ], "as in cnets1.py: no input_layernorm in layer 0, no norm, no output head"


def test_layer_numbers_mean_what_each_library_means(tmp_path: Path) -> None:
    """A head that reads the inputs of layers 1, 2 and 3: speculators numbers these layers, SGLang the ones before."""
    config = json.loads((written(tmp_path, LAYERS3) / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]
    config = json.loads((written(tmp_path, LAYERS3, "sglang") / "config.json").read_text())
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2]
