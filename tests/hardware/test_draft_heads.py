"""Tests of the sizes of draft heads: published ones, derived ones, and modules in the config of a target."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import draft_of, draft_of_kind, model, model_names, require_pair
from tests.hardware.tiny_configs import LLAMA
from tests.helpers import refuses

SHIPPED = [name for name in model_names() if name.startswith("eagle")]
WHOLE = [name for name in model_names() if not name.startswith("eagle")]
KINDS = ("eagle1", "eagle3", "p-eagle", "dflash", "dspark", "medusa")
HEADS = {
    "eagle1-llama-2-7b": 0.24,
    "eagle1-llama-2-13b": 0.37,
    "eagle1-llama-2-70b": 0.99,
    "eagle1-llama-3-8b": 0.25,
    "eagle1-llama-3.1-8b": 0.25,
    "eagle1-llama-3-70b": 0.99,
}
"""Billions of parameters in the table of the EAGLE repository, without embeddings and output head."""


@pytest.mark.parametrize("name", HEADS)
def test_eagle_heads_have_the_published_size_and_read_the_targets_output_head(name: str) -> None:
    head = model(name)
    target = model(str(head.base_model))
    assert round(head.parameters / 1e9, 2) == HEADS[name]
    assert head.shape.borrowed_parameters == (target.vocabulary or 0) * (target.hidden or 0)


@pytest.mark.parametrize(
    ("name", "stored"),
    [("glm-4.5", 358_337_791_296), ("glm-4.5-air", 110_468_824_832), ("qwen3-next-80b-a3b", 81_324_862_720)],
)
def test_prediction_modules_fill_the_published_checkpoint(name: str, stored: int) -> None:
    """Totals of the Hub. The modules of GLM-4.5 store a copy of the embeddings and of the output head."""
    target, draft = model(name), model(f"{name}-mtp")
    copies = 0 if name.startswith("qwen") else 2 * draft.shape.borrowed_parameters
    assert target.parameters + draft.parameters + copies == stored


def test_a_prediction_module_is_one_layer_that_reads_the_targets_output_head() -> None:
    target, draft = model("deepseek-v3"), model("deepseek-v3-mtp")
    assert (draft.name, draft.shape.layers, draft.hidden) == ("deepseek-v3-mtp", 1, 7168)
    assert draft.parameters == pytest.approx(11.5e9, rel=0.02), "README of DeepSeek-V3: 11.5B unique parameters"
    assert draft.kv_bytes(1) * 61 == target.kv_bytes(1)
    assert draft.arithmetic == target.arithmetic == "fp8"
    require_pair(target, draft, 1000)
    refuses("target llama-3.1-8b has no multi-token-prediction module .*: name a draft", model, "mtp-llama-3.1-8b")


@pytest.mark.parametrize("name", SHIPPED)
def test_derived_heads_have_the_sizes_of_published_ones(name: str) -> None:
    """The target is read under another name, so that the shipped head of its name is not used.

    Three published heads are not as wide as assumed. The MLP for Llama 4 Scout is 32,768 wide, not 6 hidden sizes of
    5,120, and AngelSlim's for Qwen3-30B-A3B 6,144, not 6 of 2,048, as SpecForge's is. The head for Vicuna 33B has 13
    key-value heads of size 128, not the 52 of its target.
    """
    published, kind = model(name), name.split("-")[0]
    config = files("spectheory") / "data" / "models" / f"{published.base_model}.json"
    target = ModelConfig.from_hf(json.loads(config.read_text(encoding="utf-8")), name="copy")
    derived = draft_of_kind(target, kind)
    assert derived.name == f"{kind}-copy"
    assert derived.tokenizer == published.tokenizer
    exceptions = {
        "scout": 3 * (32_768 - 6 * 5120) * 5120,
        "qwen3-30b-a3b": 3 * (6144 - 6 * 2048) * 2048,
        "vicuna-33b": -2 * (52 - 13) * 128 * 6656,
    }
    missing = sum(parameters for part, parameters in exceptions.items() if part in name)
    assert published.parameters - derived.parameters == missing
    assert missing or derived.shape == published.shape


ATTENTION, MLP, HEAD = (96 + 48 + 48 + 96) * 64, 3 * 96 * 64, 100 * 64
"""Of the tiny Llama: hidden size 64, 4 heads and 2 key-value heads of size 24, MLP of width 96, 100 tokens."""
LAYER = ATTENTION + MLP + 2 * 64
EAGLE3 = (96 + 48 + 48) * 64 + 3 * 64**2 + 2 * 64 + HEAD
DFLASH = 5 * (LAYER + 2 * 24) + 5 * 64**2 + 2 * 64


@pytest.mark.parametrize(
    ("kind", "parameters", "borrowed", "layers"),
    [
        ("eagle1", LAYER - 64 + 2 * 64**2 + 64, HEAD, 1),
        ("eagle3", LAYER + EAGLE3, 0, 1),
        ("p-eagle", 4 * LAYER + EAGLE3, 0, 4),
        ("dflash", DFLASH, HEAD, 5),
        ("dspark", DFLASH, HEAD, 5),
        ("medusa", 5 * (64**2 + 64 + HEAD), 0, 1),
    ],
)
def test_every_kind_has_the_weights_of_its_layout(kind: str, parameters: int, borrowed: int, layers: int) -> None:
    """The weights of the modules, counted here from the modelling code of EAGLE, SpecForge and Medusa."""
    target = ModelConfig.from_hf(LLAMA, name="tiny")
    head = draft_of_kind(target, kind)
    assert (head.parameters, head.shape.borrowed_parameters, head.shape.layers) == (parameters, borrowed, layers)
    assert head.kv_bytes(10) == (0 if kind == "medusa" else 10 * layers * 2 * 48 * 2)
    assert head.drafts_at_once == (kind not in ("eagle1", "eagle3"))
    assert (head.base_model, head.target_hidden) == ("tiny", 64)


QWEN3_8B = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
DFLASH_CONFIG = {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}
DSPARK_CONFIG = {"projector_type": "dspark", "markov_rank": 256, "enable_confidence_head": True}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (
            "p-eagle",
            {"architectures": ["PEagleDraftModel"], "model_type": "llama", "num_hidden_layers": 4}
            | {"draft_vocab_size": 151936},
        ),
        (
            "dflash",
            {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5, "block_size": 16},
        ),
        (
            "dspark",
            {"architectures": ["DSparkDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5}
            | {"dflash_config": DFLASH_CONFIG | DSPARK_CONFIG},
        ),
    ],
)
def test_configs_of_published_heads_are_read_as_heads(kind: str, config: dict[str, Any]) -> None:
    """The configs of SpecForge for Qwen3-8B, configs/qwen3-8b-*.json."""
    published, derived = ModelConfig.from_hf(QWEN3_8B | config), model(f"{kind}-qwen3-8b")
    assert published.shape == derived.shape
    assert published.drafts_at_once
    require_pair(model("qwen3-8b"), published, 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_every_shipped_model_has_a_head_of_every_kind_that_fits_it(kind: str) -> None:
    for target in map(model, WHOLE):
        head = draft_of_kind(target, kind)
        require_pair(target, head, 100)
        assert head.weight_bytes < target.weight_bytes or target.parameters < 2e9


def test_drafts_by_name() -> None:
    target = model("qwen3-8b-fp8")
    assert draft_of(target, "EAGLE3") is model("eagle3-qwen3-8b"), "a shipped head is preferred, and stays in 16 bits"
    assert draft_of(model("vicuna-7b"), "eagle2") == model("eagle1-vicuna-7b") == model("eagle-vicuna-7b")
    assert model("mtp-deepseek-v3").name == model("nextn-deepseek-v3").name == "deepseek-v3-mtp"
    assert model("dflash-qwen3-8b-fp8").linear_bytes == pytest.approx(1, rel=1e-2)
    for word in ("ngram", "suffix", "none", None):
        assert draft_of(target, word) is None
    refuses("unknown model 'x'", model, "x.gguf")
