"""Architectures without SDPA, and those that cannot read a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    MistralConfig,
    MptConfig,
    PreTrainedConfig,
)

from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.models import PairError, load_pair
from spectheory import Tree
from tests.conftest import generated, restless
from tests.reference.test_model_shapes import CONTEXT, NEW_TOKENS, PROMPTS, VOCABULARY
from tests.refusals import refuses


def test_models_without_sdpa_are_loaded_eager(tiny_folders: Path, tmp_path: Path) -> None:
    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=CONTEXT,
        layer_types=["full_attention"] * 2,
    )
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(config)
    restless(model, seed=1, scale=0.15)
    model.save_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(PairError, match="has no SDPA: use load_pair.*attention='eager'"):
        load_pair(tmp_path, tmp_path)
    refuses("attention must be one of sdpa, eager, got 'flash'", load_pair, tmp_path, tmp_path, attention="flash")
    pair = load_pair(tmp_path, tmp_path, dtype=torch.float64, attention="eager")
    text = Decoder(pair, PlannedTree(Tree.k_ary(3, 3))).generate(PROMPTS[1], NEW_TOKENS)
    assert text.tokens == generated(pair, PROMPTS[1], NEW_TOKENS)
    assert sum(text.accepted) > 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MptConfig(d_model=32, n_heads=4, n_layers=1, vocab_size=VOCABULARY), "takes no position_ids"),
        (BloomConfig(hidden_size=32, n_head=4, n_layer=1, vocab_size=VOCABULARY), "takes no position_ids"),
        (
            FalconConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1, alibi=True),
            "counts distances in rows",
        ),
        (MistralConfig(hidden_size=32, num_hidden_layers=1, sliding_window=8), "has layers without full attention"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PreTrainedConfig) else "",
)
def test_models_that_cannot_read_a_tree_are_refused(
    tiny_folders: Path, tmp_path: Path, config: PreTrainedConfig, message: str
) -> None:
    """Positions counted by rows would place siblings after each other; a sliding window would cut paths off."""
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(PairError, match=message):
        load_pair(tmp_path, tmp_path, attention="eager")
