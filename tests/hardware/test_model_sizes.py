"""Tests of model sizes against published numbers and transformers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model, model_names
from tests.hardware.tiny_configs import LLAMA, TINY

TEXT = Path(__file__).with_name("parameters.csv").read_text(encoding="utf-8")
PUBLISHED = {row["model"]: int(row["parameters"]) for row in csv.DictReader(TEXT.splitlines())}
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
