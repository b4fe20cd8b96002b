"""Tests of model sizes against published numbers and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model, model_names
from tests.hardware.tiny_configs import LLAMA, TINY

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
    "deepseek-v3.2": 671_026_419_200,
    "gpt2": 124_439_808,
    "deepseek-r1": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
    "kimi-k2.5": 1_026_408_232_448,
    "glm-4.5": 352_797_829_024,
    "glm-4.6": 352_797_829_024,
    "glm-4.5-air": 106_852_251_264,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "qwen3.8-27b": 26_895_998_464,
    "qwen3.6-27b": 26_895_998_464,
    "qwen3.5-27b": 26_895_998_464,
    "qwen3.5-4b": 4_205_751_296,
    "qwen3.5-9b": 8_953_803_264,
    "qwen3.5-35b-a3b": 34_660_610_688,
    "qwen3.6-35b-a3b": 34_660_610_688,
    "qwen3.5-122b-a10b": 122_111_526_912,
    "qwen3.5-397b-a17b": 396_346_350_336,
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


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_models_have_the_published_number_of_parameters(name: str) -> None:
    """Totals as on the Hub and in the model cards."""
    assert model(name).parameters == PUBLISHED[name]


def test_every_shipped_model_is_held_to_a_total() -> None:
    heads = {name for name in model_names() if name.startswith("eagle")}
    assert set(model_names()) - heads == set(PUBLISHED)


def test_published_sizes_beside_the_total() -> None:
    """Active parameters (gpt-oss counts no input embedding), checkpoint sizes, bytes of cache."""
    assert model("mixtral-8x7b").active_parameters == 12_879_925_248
    assert model("qwen3-30b-a3b").active_parameters == 3_353_032_704
    oss, deepseek = model("gpt-oss-120b"), model("deepseek-v3")
    assert oss.active_parameters - oss.shape.lookup_parameters == pytest.approx(5.13e9, rel=1e-3)
    assert oss.weight_bytes / 2**30 == pytest.approx(60.8, abs=0.05)
    assert deepseek.active_parameters == pytest.approx(37e9, rel=0.02)
    assert deepseek.kv_bytes(1) == 61 * (512 + 64) * 2
    assert model("llama-3.1-8b").kv_bytes(1) == 131072
    assert model("eagle3-llama-3.1-8b").weight_bytes / 2**20 == pytest.approx(810, abs=1)
    assert (oss.shape.layers, oss.shape.experts, oss.shape.experts_per_token) == (36, 128, 4)


@pytest.mark.parametrize("change", TINY, ids=lambda change: change.get("model_type", "llama"))
def test_every_family_has_the_parameters_and_windows_of_transformers(change: dict[str, Any]) -> None:
    """The same config built by transformers on the meta device, buffers that are weights included."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = LLAMA | {"pad_token_id": 0} | change
    built = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        network = transformers.AutoModelForCausalLM.from_config(built)
    buffers = sum(b.numel() for name, b in network.named_buffers() if name.endswith("e_score_correction_bias"))
    ours = ModelConfig.from_hf(config)
    assert ours.parameters == sum(p.numel() for p in network.parameters()) + buffers
    assert ours.shape.lookup_parameters == (0 if built.tie_word_embeddings else 64 * 100)
    types = (
        getattr(built, "layer_types", None)
        or ["sliding_attention" if getattr(built, "sliding_window", None) else ""] * 5
    )
    assert sum(cache.layers for cache in ours.shape.caches if cache.window) == types.count("sliding_attention")


def test_latent_attention_computes_with_the_latent_twice() -> None:
    """Scores against latent and rotary key, then the mix of the latents: a multiply and an add each, 128 heads."""
    deepseek = model("deepseek-v3")
    assert deepseek.flops_per_token(1001) - deepseek.flops_per_token(1000) == 61 * 128 * 2 * ((512 + 64) + 512)
    assert model("llama-3.1-8b").flops_per_token(1) - model("llama-3.1-8b").flops_per_token(0) == 32 * 32 * 4 * 128


def test_cached_tokens_stop_at_the_window() -> None:
    sliding = ModelConfig.from_hf({**LLAMA, "model_type": "mistral", "sliding_window": 7})
    full = ModelConfig.from_hf(LLAMA)
    assert sliding.kv_bytes(7) == full.kv_bytes(7) == 7 * full.kv_bytes(1) == 7 * 5 * 2 * 2 * 24 * 2
    assert sliding.kv_bytes(100) == sliding.kv_bytes(7)
    assert full.kv_bytes(100) == 100 * full.kv_bytes(1)


def test_the_expected_union_of_experts_against_drawn_ones() -> None:
    """Means of 20,000 drawn unions, and of drawn shares of uses, within 5 standard errors in 20 cases: level 1.2e-5."""
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
            if taken < experts:
                shares = rng.beta(9 * taken / experts, 9 * (1 - taken / experts), 20_000)
                used = experts * (1 - (1 - shares) ** tokens)
                assert abs(used.mean() - moe.expected_experts(tokens, 0.9)) <= 5 * used.std() / np.sqrt(20_000)
        assert moe.expected_experts(1) == pytest.approx(taken)
        assert moe.expected_experts(10**6) == pytest.approx(experts)
