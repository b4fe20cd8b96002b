"""The pair that comes with the package: greedy texts are those of transformers' generate, on held-out prompts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from reference.decode import Decoder
from reference.divergence import first_divergence
from reference.drafters import PlannedTree
from reference.models import DRAFT, HEAD, SHIPPED, TARGET, Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from spectheory import Acceptance, Tree, best_tree
from tests.reference.sampled_text import generated

PROMPTS, PROMPT_TOKENS = 50, 64
TIE = 1e-4
"""Logits closer than this tie: in float32 logits of tree and sequential forwards differ by up to about 2e-5."""


BEST = best_tree(Acceptance.by_rank([0.65, 0.12, 0.06, 0.03, 0.02]), 24)
TREES = [
    (HEAD, "chain of 4", Tree.chain(4)),
    (HEAD, "best tree of 24", BEST),
    (HEAD, "full tree of 39", Tree.k_ary(3, 3)),
]


@cache
def loaded(draft: Path) -> Pair:
    return load_pair(draft=draft)


@cache
def expected(count: int, new_tokens: int) -> list[list[int]]:
    """Texts of transformers' generate, computed once for all trees."""
    pair = loaded(HEAD)
    prompts = encode_prompts(pair, load_prompts(count=count), PROMPT_TOKENS)
    return [generated(pair, prompt, new_tokens) for prompt in prompts]


@pytest.mark.parametrize(("count", "new_tokens"), [(2, 64), pytest.param(PROMPTS, 128, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    ("draft", "tree"), [pytest.param(draft, tree, id=f"{draft.name}, {name}") for draft, name, tree in TREES]
)
def test_greedy_text_is_generates(
    draft: Path, tree: Tree, count: int, new_tokens: int, record_property: Callable[[str, object], None]
) -> None:
    pair = loaded(draft)
    decoder, prompts = Decoder(pair, PlannedTree(tree)), encode_prompts(pair, load_prompts(count=count), PROMPT_TOKENS)
    for prompt, wanted in zip(prompts, expected(count, new_tokens), strict=True):
        text = decoder.generate(prompt, new_tokens).tokens
        assert len(text) == new_tokens
        where = first_divergence(pair.target, prompt, wanted, text)
        if where is not None:
            print(where)
            record_property("tie", str(where))
            assert where.margin < TIE, where


def test_the_pair_is_small_and_in_half_precision() -> None:
    assert sum(file.stat().st_size for folder in (TARGET, HEAD) for file in folder.iterdir()) <= 12_000_000
    for folder in (TARGET, HEAD, DRAFT):
        assert {weights.dtype for weights in load_file(folder / "model.safetensors").values()} == {torch.float16}


def test_no_prompt_comes_from_a_training_file() -> None:
    split = json.loads((SHIPPED / "split.json").read_text())
    assert split["train"]
    assert not set(split["train"]) & set(split["held_out"])
    assert len(load_prompts()) >= 100
