"""Tests of model sizes against published numbers and transformers, and of configs that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory.hardware.hf_config import FAMILIES
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from spectheory.hardware.pairs import pair, require_pair
from spectheory.hardware.shipped_models import model_names

PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "mistral-7b-v0.3": 7_248_023_552,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "mixtral-8x7b": 46_702_792_704,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
    "deepseek-r1": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
    "glm-4.5": 352_797_829_024,
    "glm-4.5-air": 106_852_251_264,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "llama-2-13b": 13_015_864_320,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.3-70b": 70_553_706_496,
    "llama-4-scout": 108_641_793_536 - 871_932_416,
    "llama-4-maverick": 401_583_781_376 - 871_932_416,
    "gemma-3-4b": 4_300_079_472 - 419_816_304,
    "gemma-3-12b": 12_187_325_040 - 421_290_864,
    "gemma-3-27b": 27_432_406_640 - 423_060_336,
    "phi-4": 14_659_507_200,
    "mistral-small-24b": 23_572_403_200,
    "mixtral-8x22b": 140_620_634_112,
    "opt-125m": 125_239_296,
    "opt-6.7b": 6_658_473_984,
    "pythia-6.9b": 6_857_302_016,
    "tinyllama-1.1b": 1_100_048_384,
    "llama-68m": 68_030_208,
    "vicuna-7b": 6_738_415_616,
    "vicuna-13b": 13_015_864_320,
    "vicuna-33b": 32_528_943_616,
}
"""Parameters of the language models; vision parts, and modules for multi-token prediction, are subtracted."""
HEADS = {
    "eagle1-llama-2-7b": 0.24,
    "eagle1-llama-2-13b": 0.37,
    "eagle1-llama-2-70b": 0.99,
    "eagle1-llama-3-8b": 0.25,
    "eagle1-llama-3.1-8b": 0.25,
    "eagle1-llama-3-70b": 0.99,
}
"""Billions of parameters in the table of the EAGLE repository, without embeddings and output head."""
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 100,
}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
DEEPSEEK = {
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "n_routed_experts": 6,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 2,
    "n_group": 1,
    "topk_group": 1,
}
WINDOW = {"sliding_window": 7}
WHOLE = {"num_key_value_heads": 4, "head_dim": 16}
SHARED = {"shared_expert_intermediate_size": 56}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
    "linear_conv_kernel_dim": 3,
}
MAMBA = {
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 3,
    "hybrid_override_pattern": "ME*-M",
    "n_routed_experts": 6,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "moe_shared_expert_intermediate_size": 56,
}
INDEXED = {"index_n_heads": 3, "index_head_dim": 16, "index_topk": 9, "q_lora_rank": 20}
SPARSE = {"num_local_experts": 4, "num_experts_per_tok": 2}
PER_LAYER = {"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 90}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"] * 3, "num_hidden_layers": 6}
LOOKED_UP = ("wpe", "embed_positions", "embed_tokens_per_layer")
TINY: list[dict[str, Any]] = [
    {},
    {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    {"model_type": "mistral", **WINDOW},
    {"model_type": "ministral3", **WINDOW},
    {"model_type": "mixtral", **SPARSE},
    {"model_type": "qwen2"},
    {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 2, **WINDOW},
    {"model_type": "qwen3", "attention_bias": True},
    {"model_type": "qwen2_moe", **SHARED, **MOE},
    {"model_type": "qwen2_moe", **SHARED, "qkv_bias": False, **MOE},
    {"model_type": "qwen3_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1], **MOE},
    {"model_type": "qwen3_next", "mlp_only_layers": [1], **MOE, **SHARED, **DELTA},
    {"model_type": "qwen3_5_text", "full_attention_interval": 2, **DELTA},
    {"model_type": "qwen3_5_moe_text", **MOE, **SHARED, **DELTA},
    {"model_type": "gemma"},
    {"model_type": "gemma2", **WINDOW},
    {"model_type": "gemma3_text", **WINDOW},
    {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "global_head_dim": 32, **WINDOW},
    {
        "model_type": "gemma4_text",
        "hidden_size_per_layer_input": 0,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        **WINDOW,
    },
    {
        "model_type": "gemma4_text",
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        **PER_LAYER,
        **ALTERNATING,
        **WINDOW,
    },
    {
        "model_type": "gemma4_text",
        "enable_moe_block": True,
        "num_experts": 6,
        "top_k_experts": 2,
        "moe_intermediate_size": 40,
        "hidden_size_per_layer_input": 0,
        **WINDOW,
    },
    {"model_type": "phi", "num_key_value_heads": 4, "head_dim": 16, "tie_word_embeddings": False},
    {"model_type": "phi3", "head_dim": 16, **WINDOW},
    {"model_type": "gpt2", "n_embd": 64, "n_layer": 5, "n_head": 4, "n_positions": 30, "n_inner": 90, **WHOLE},
    {"model_type": "gpt_neox", **WHOLE},
    {"model_type": "gpt_neox", **WHOLE, "attention_bias": False},
    {
        "model_type": "opt",
        "ffn_dim": 96,
        "max_position_embeddings": 30,
        "word_embed_proj_dim": 64,
        **WHOLE,
    },
    {"model_type": "gpt_oss", **SPARSE, **WINDOW},
    {"model_type": "deepseek_v2", "q_lora_rank": None, **DEEPSEEK},
    {"model_type": "deepseek_v3", "q_lora_rank": 20, "attention_bias": True, **DEEPSEEK},
    {"model_type": "deepseek_v32", **DEEPSEEK, **INDEXED},
    {"model_type": "glm"},
    {"model_type": "glm4"},
    {"model_type": "glm4_moe", "use_qk_norm": True, **MOE, **{k: DEEPSEEK[k] for k in sorted(DEEPSEEK)[:6]}},
    {"model_type": "glm4_moe_lite", "q_lora_rank": 20, **DEEPSEEK, "first_k_dense_replace": 1, "head_dim": 8},
    {"model_type": "glm_moe_dsa", **DEEPSEEK, **INDEXED},
    {"model_type": "granite"},
    {"model_type": "granitemoe", **SPARSE},
    {"model_type": "olmo"},
    {"model_type": "olmo2"},
    {"model_type": "olmo3", **WINDOW},
    {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 2, "head_dim": 16},
    {"model_type": "cohere"},
    {"model_type": "cohere", "use_qk_norm": True},
    {"model_type": "cohere2", **WINDOW},
    {"model_type": "starcoder2", **WINDOW},
    {"model_type": "starcoder2", "use_bias": False},
    {"model_type": "smollm3"},
    {"model_type": "exaone4", **WINDOW},
    {"model_type": "seed_oss"},
    {"model_type": "ernie4_5"},
    {"model_type": "ernie4_5", "use_bias": True},
    {"model_type": "hunyuan_v1_dense"},
    {"model_type": "nemotron"},
    {"model_type": "nemotron_h", **MAMBA},
    {"model_type": "nemotron_h", **MAMBA, "moe_latent_size": 12, "use_bias": True, "use_conv_bias": False},
    {"model_type": "llama4_text", "num_local_experts": 4, "intermediate_size_mlp": 80, "num_experts_per_tok": 1},
    {
        "model_type": "llama4_text",
        "interleave_moe_layer_step": 2,
        "num_local_experts": 4,
        "intermediate_size_mlp": 80,
        "num_experts_per_tok": 1,
        "attention_chunk_size": 7,
    },
    {"model_type": "minimax_m2", **SPARSE},
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_models_have_the_published_number_of_parameters(name: str) -> None:
    """Totals as on the Hub and in the model cards."""
    assert model(name).parameters == PUBLISHED[name]


def test_every_shipped_model_is_held_to_a_total() -> None:
    heads = {name for name in model_names() if name.startswith("eagle")}
    assert set(model_names()) - heads == set(PUBLISHED)
    assert set(HEADS) < heads


@pytest.mark.parametrize("name", HEADS)
def test_eagle_heads_have_the_published_size_and_read_the_targets_output_head(name: str) -> None:
    head = model(name)
    target = model(str(head.base_model))
    assert round(head.parameters / 1e9, 2) == HEADS[name]
    assert head.shape.borrowed_parameters == (target.vocabulary or 0) * (target.hidden or 0)
    assert head.read_bytes(1) == pytest.approx(head.weight_bytes + 2 * head.shape.borrowed_parameters)


@pytest.mark.parametrize("name", [name for name in model_names() if name.startswith("eagle")])
def test_every_draft_head_fits_its_target(name: str) -> None:
    head = model(name)
    require_pair(model(str(head.base_model)), head, 100)


@pytest.mark.parametrize(
    ("name", "stored"),
    [("glm-4.5", 358_337_791_296), ("glm-4.5-air", 110_468_824_832), ("qwen3-next-80b-a3b", 81_324_862_720)],
)
def test_prediction_modules_fill_the_published_checkpoint(name: str, stored: int) -> None:
    """Totals of the Hub. The modules of GLM-4.5 store a copy of the embeddings and of the output head."""
    target, draft = pair(name, "mtp")
    copies = 0 if name.startswith("qwen") else 2 * draft.shape.borrowed_parameters
    assert target.parameters + draft.parameters + copies == stored


def test_a_prediction_module_is_one_layer_that_reads_the_targets_output_head() -> None:
    target, draft = pair("deepseek-v3", "mtp")
    assert (draft.name, draft.layers, draft.hidden) == ("deepseek-v3-mtp", 1, 7168)
    assert draft.parameters == pytest.approx(11.5e9, rel=0.02), "README of DeepSeek-V3: 11.5B unique parameters"
    assert draft.kv_bytes_per_token * 61 == target.kv_bytes_per_token
    assert draft.arithmetic == target.arithmetic == "fp8"
    require_pair(target, draft, 1000)
    with pytest.raises(ValueError, match="target llama-3.1-8b has no multi-token-prediction module .*: name a draft"):
        pair("llama-3.1-8b", "mtp")


def test_published_sizes_beside_the_total() -> None:
    """Active parameters (gpt-oss counts no input embedding), checkpoint sizes, bytes of cache."""
    assert model("mixtral-8x7b").active_parameters == 12_879_925_248
    assert model("qwen3-30b-a3b").active_parameters == 3_353_032_704
    oss, deepseek = model("gpt-oss-120b"), model("deepseek-v3")
    assert oss.active_parameters - oss.shape.lookup_parameters == pytest.approx(5.13e9, rel=1e-3)
    assert oss.weight_bytes / 2**30 == pytest.approx(60.8, abs=0.05)
    assert deepseek.active_parameters == pytest.approx(37e9, rel=0.02)
    assert deepseek.kv_bytes_per_token == 61 * (512 + 64) * 2
    assert model("llama-3.1-8b").kv_bytes_per_token == 131072
    assert model("eagle3-llama-3.1-8b").weight_bytes / 2**20 == pytest.approx(810, abs=1)
    assert (oss.layers, oss.shape.experts, oss.shape.experts_per_token) == (36, 128, 4)


def tiny(change: dict[str, Any]) -> dict[str, Any]:
    return LLAMA | {"pad_token_id": 0} | change


def test_every_family_is_compared_with_transformers() -> None:
    assert {change.get("model_type", "llama") for change in TINY} == set(FAMILIES)


@pytest.mark.parametrize("biases", [{}, {"attention_bias": True, "mlp_bias": True}], ids=["", "biases"])
@pytest.mark.parametrize("change", TINY, ids=lambda change: change.get("model_type", "llama"))
def test_every_family_has_the_parameters_and_windows_of_transformers(change: dict[str, Any], biases: Any) -> None:
    """The same config built by transformers on the meta device, buffers that are weights included."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = biases | tiny(change)
    built = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        network = transformers.AutoModelForCausalLM.from_config(built)
    stored = ("e_score_correction_bias", "layer_scalar")
    buffers = sum(b.numel() for name, b in network.named_buffers() if name.endswith(stored))
    ours = ModelConfig.from_hf(config)
    assert ours.parameters == sum(p.numel() for p in network.parameters()) + buffers
    looked_up = [network.get_input_embeddings()] if not built.tie_word_embeddings else []
    looked_up += [part for name, part in network.named_modules() if name.endswith(LOOKED_UP)]
    assert ours.shape.lookup_parameters == sum(part.weight.numel() for part in looked_up)
    types = (
        getattr(built, "layer_types", None)
        or ["sliding_attention" if getattr(built, "sliding_window", None) else ""] * 5
    )
    assert ours.shape.sliding_layers == sum(types.count(name) for name in ("sliding_attention", "chunked_attention"))


def test_latent_attention_computes_with_the_latent_twice() -> None:
    """Scores against latent and rotary key, then the mix of the latents: a multiply and an add each, 128 heads."""
    deepseek = model("deepseek-v3")
    assert deepseek.flops_per_token(1001) - deepseek.flops_per_token(1000) == 61 * 128 * 2 * ((512 + 64) + 512)
    assert model("llama-3.1-8b").flops_per_token(1) - model("llama-3.1-8b").flops_per_token(0) == 32 * 32 * 4 * 128


def test_an_eagle_head_fuses_three_features_of_the_targets_width() -> None:
    head = LLAMA | {"draft_vocab_size": 50, "num_hidden_layers": 1}
    own, wide = ModelConfig.from_hf(head), ModelConfig.from_hf(head | {"target_hidden_size": 200})
    assert wide.parameters - own.parameters == 3 * (200 - 64) * 64


def test_cached_tokens_stop_at_the_window() -> None:
    sliding = ModelConfig.from_hf({**LLAMA, "model_type": "mistral", "sliding_window": 7})
    full = ModelConfig.from_hf(LLAMA)
    assert sliding.kv_bytes(7) == full.kv_bytes(7) == 7 * full.kv_bytes_per_token == 7 * 5 * 2 * 2 * 24 * 2
    assert sliding.kv_bytes(100) == sliding.kv_bytes(7)
    assert full.kv_bytes(100) == 100 * full.kv_bytes_per_token


def test_the_expected_union_of_experts_against_drawn_ones() -> None:
    """Mean of 20,000 drawn unions within 5 standard errors, for each of 12 cases: level 7e-6 in all."""
    rng = np.random.default_rng(0)
    for experts, taken in ((8, 2), (128, 8), (5, 5)):
        moe = ModelConfig.from_hf(
            {**LLAMA, "model_type": "mixtral", "num_local_experts": experts, "num_experts_per_tok": taken}
        )
        for tokens in (1, 2, 5, 17):
            chosen = np.argsort(rng.random((20_000 // tokens, tokens, experts)), axis=-1)[..., :taken]
            drawn = np.zeros((len(chosen), experts), bool)
            np.put_along_axis(drawn, chosen.reshape(len(chosen), -1), True, axis=1)
            union = drawn.sum(1)
            slack = 5 * union.std() / np.sqrt(len(union)) + 1e-9
            assert abs(union.mean() - moe.expected_experts(tokens)) <= slack
            one_expert = 5 * 3 * 64 * 96 * 2
            assert moe.read_bytes(tokens) - moe.read_bytes(1) == pytest.approx(
                one_expert * (moe.expected_experts(tokens) - taken)
            )
        assert moe.expected_experts(1) == pytest.approx(taken)
        assert moe.expected_experts(10**6) == pytest.approx(experts)


def test_reading_all_experts_is_reading_all_weights_but_the_embedding() -> None:
    mixtral = model("mixtral-8x7b")
    assert mixtral.read_bytes(10**4) == pytest.approx(mixtral.weight_bytes - 2 * mixtral.shape.lookup_parameters)
    dense = model("llama-3.1-8b")
    assert dense.read_bytes(1) == dense.read_bytes(500) == 2 * (8_030_261_248 - 128256 * 4096)


def test_packed_weights() -> None:
    plain = ModelConfig.from_hf(LLAMA)
    awq = ModelConfig.from_hf({**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})
    fp8 = ModelConfig.from_hf({**LLAMA, "quantization_config": {"quant_method": "fp8"}})
    matrices = plain.shape.linear_parameters
    assert plain.weight_bytes - awq.weight_bytes == pytest.approx(matrices * (2 - (4 + 20 / 128) / 8))
    assert plain.weight_bytes - fp8.weight_bytes == pytest.approx(matrices * (1 - 4 / 128**2))
    assert (plain.arithmetic, awq.arithmetic, fp8.arithmetic) == ("bf16", "bf16", "fp8")
    assert ModelConfig.from_hf({**LLAMA, "torch_dtype": "float32"}).weight_bytes == 2 * plain.weight_bytes


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
        with pytest.raises(ValueError, match=message):
            model(tmp_path / f"{file}.json")


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
    with pytest.raises(ValueError, match="unknown model 'cfh': known names are deepseek-r1"):
        model("cfh")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_position_embeddings": "x"}, "max_position_embeddings must be a whole number, got 'x'"),
        ({"max_position_embeddings": 9, "rope_scaling": 3}, "rope_scaling must be an object, got 3"),
        (
            {"max_position_embeddings": 9, "rope_scaling": {"factor": "x"}},
            "factor of rope_scaling must be a number above 0",
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
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_hf(LLAMA | change)


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
@settings(deadline=None, derandomize=True, max_examples=300)
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
