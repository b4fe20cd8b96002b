"""Tests of the modules of draft heads against the equations of the papers, written out in plain tensor operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reference.decode import Decoder
from reference.drafters import PlannedTree, Searched
from reference.drafters.model import cached_draft
from reference.heads import Eagle3Head, Head, HeadConfig, HeadStep, holds_head, write_head
from reference.losses.passes import unroll
from reference.models import Pair, load_pair
from spectheory import Tree
from spectheory.search import SpecExec
from tests.helpers import refuses
from tests.reference.sampled_text import generated
from tests.reference.tiny_heads import CONFIGS, EAGLE3, random_head, random_target

LENGTH, TEXT, DEPTHS = 7, 9, 4


def normed(states: Tensor, weight: Tensor) -> Tensor:
    return weight * states / (states.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


def turned(states: Tensor) -> Tensor:
    """Rotary embedding of states (heads, n, d) at positions 0..n - 1: entry i of the first half turns with i + d/2."""
    half = states.shape[-1] // 2
    angles = torch.arange(states.shape[1])[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    first, second = states[..., :half], states[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attended(inputs: Tensor, part: dict[str, Tensor], config: HeadConfig) -> Tensor:
    """Causal attention over inputs (n, width)."""
    heads, width = config.num_attention_heads, config.head_dim
    query, key, value = (
        (inputs @ part[f"{name}_proj.weight"].T).unflatten(-1, (-1, width)).transpose(0, 1) for name in "qkv"
    )
    key, value = (states.repeat_interleave(heads // config.num_key_value_heads, 0) for states in (key, value))
    scores = turned(query) @ turned(key).transpose(1, 2) / width**0.5
    later = torch.ones(len(inputs), len(inputs), dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(later, -torch.inf).softmax(-1) @ value
    return mixed.transpose(0, 1).flatten(1) @ part["o_proj.weight"].T


def mlp(inputs: Tensor, part: dict[str, Tensor]) -> Tensor:
    gate, up = (inputs @ part[f"{name}_proj.weight"].T for name in ("gate", "up"))
    return (gate * gate.sigmoid() * up) @ part["down_proj.weight"].T


def written_out(head: Head, target: Any, tokens: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features, outputs and logits of a head at `tokens` (n,), for hidden states (n, states x hidden) before them."""
    config, weights, borrowed = head.config, head.state_dict(), target.lm_head.weight.T

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}

    embeddings = weights.get("embed_tokens.weight", target.model.embed_tokens.weight)
    embedded, bias = embeddings[tokens], weights.get("fc.bias", 0)
    if config.kind == "eagle1":
        features = states
        inputs = torch.cat([embedded, features], -1) @ weights["fc.weight"].T + bias
        residual = inputs
    else:
        features = states @ weights["fc.weight"].T
        inner = normed(features, weights["layer.hidden_norm.weight"])
        inputs = torch.cat([normed(embedded, weights["layer.input_layernorm.weight"]), inner], -1)
        residual = inner if config.norm_before_residual else features
    middle = residual + attended(inputs, part("layer.self_attn."), config)
    outputs = middle + mlp(normed(middle, weights["layer.post_attention_layernorm.weight"]), part("layer.mlp."))
    if config.kind == "eagle1":
        return features, outputs, outputs @ borrowed
    return features, outputs, normed(outputs, weights["norm.weight"]) @ weights["lm_head.weight"].T


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_head_computes_the_equations_of_its_paper(kind: str) -> None:
    head = random_head(CONFIGS[kind], dtype=torch.float64)
    target = random_target(layers=8)
    head.attach(target)
    torch.manual_seed(2)
    tokens = torch.randint(0, 40, (LENGTH,))
    states = torch.randn(LENGTH, head.config.states * head.config.hidden_size, dtype=torch.float64)
    features, outputs, logits = written_out(head, target, tokens, states)
    torch.testing.assert_close(head.fuse(states), features, rtol=1e-5, atol=1e-5)
    found = head(tokens[None], head.fuse(states)[None])[0]
    torch.testing.assert_close(found, outputs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(head.logits(found), logits, rtol=1e-5, atol=1e-5)


def test_the_draft_vocabulary_is_a_set_of_tokens_of_the_target() -> None:
    head = random_head(EAGLE3)
    assert isinstance(head, Eagle3Head)
    tokens = torch.arange(24) + 7
    tokens[-1] = 39
    head.set_vocabulary(tokens).check_vocabulary()
    assert head.token_ids is not None
    assert head.token_ids.tolist() == tokens.tolist() == head.t2d.nonzero().flatten().tolist()
    refuses("24 numbers i \\+ d2t\\[i\\] must increase with i", head.set_vocabulary, tokens.flip(0))


@pytest.fixture(scope="module")
def with_head(tiny_folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The tiny target of the other tests with a head, loaded from folders."""
    folder = tmp_path_factory.mktemp("head")
    config = HeadConfig("eagle3", 64, 48, 300, 4, 2, 8, draft_vocab_size=100, layers=(0, 1))
    write_head(random_head(config), folder, "speculators")
    return load_pair(tiny_folders / "target", folder, dtype=torch.float64)


def test_a_pair_with_a_head_is_loaded_and_decodes(with_head: Pair) -> None:
    assert (with_head.vocab_size, with_head.drafted_tokens) == (300, 100)
    assert with_head.context == with_head.target.config.max_position_embeddings
    for drafter in (PlannedTree(Tree.chain(3)), Searched(SpecExec(8, 2))):
        assert Decoder(with_head, drafter).generate([5, 250, 17], 12).tokens == generated(with_head, [5, 250, 17], 12)


def test_a_head_of_the_eagle_repository_is_told_from_a_model_of_one_layer(tiny_folders: Path, tmp_path: Path) -> None:
    """Both have the architecture LlamaForCausalLM and one layer."""
    random_target(layers=1).save_pretrained(tmp_path / "model")
    assert not holds_head(tmp_path / "model")
    assert not holds_head(tiny_folders / "draft")
    write_head(random_head(HeadConfig("eagle1", 64, 48, 300, 4, 2, 8)), tmp_path / "head", "eagle")
    pair = load_pair(tiny_folders / "target", tmp_path / "head", dtype=torch.float64)
    found = Decoder(pair, PlannedTree(Tree.chain(3))).generate([5, 250, 17], 12)
    assert found.tokens == generated(pair, [5, 250, 17], 12)


@pytest.mark.parametrize("kind", CONFIGS)
@torch.inference_mode()
def test_every_root_and_depth_is_what_the_cached_head_computes_along_the_text(kind: str) -> None:
    """One cache for the whole text: at each root the next tokens of the text are drafted, then dropped again."""
    target = random_target(layers=8)
    head = random_head(CONFIGS[kind], dtype=torch.float64).attach(target)
    tokens = torch.randint(0, 40, (1, TEXT), generator=torch.Generator().manual_seed(6))
    hidden = target(tokens, output_hidden_states=True).hidden_states
    states = torch.cat([hidden[tap][0] for tap in head.taps], -1)
    passes = unroll(HeadStep(head), head.fuse(states)[None, :-1], tokens[:, 1:], DEPTHS)
    unrolled = torch.stack([head.on_vocabulary(one.logits[0]) for one in passes])
    tokenizer: Any = None
    cached: Any = cached_draft(Pair(target, head, tokenizer, ("the target", "the head")))
    cached.observe(states[:1])
    cached.read(tokens[:, :1])
    compared = 0
    for root in range(1, TEXT):
        logits, committed = [cached.forward(tokens[:, root : root + 1])], cached.length
        assert committed == root, "row i of the cache belongs to token i + 1"
        for place in range(root + 1, min(root + DEPTHS, TEXT)):
            logits.append(cached.forward(tokens[:, place : place + 1]))
        found = torch.cat(logits)
        torch.testing.assert_close(unrolled[: len(found), root - 1], found, rtol=1e-6, atol=1e-6)
        compared += len(found)
        cached.keep(committed, [])
        cached.observe(states[root : root + 1])
    assert compared == 5 * DEPTHS + 3 + 2 + 1
