"""The pair that comes with the package: greedy identity with generate on 50 held-out prompts of 128 new tokens."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch

from reference.decode import Decoder
from reference.divergence import first_divergence
from reference.drafters import PlannedTree
from reference.models import SHIPPED, Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from spectheory import Acceptance, Tree, best_tree
from tests.conftest import generated

PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 50, 64, 128
TIE = 1e-4
"""Logits closer than this tie: those of tree and sequential forwards in float32 each differ by up to about 2e-5."""


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair()


@pytest.fixture(scope="module")
def prompts(pair: Pair) -> list[list[int]]:
    return encode_prompts(pair, load_prompts(count=PROMPTS), PROMPT_TOKENS)


@pytest.fixture(scope="module")
def expected(pair: Pair, prompts: list[list[int]]) -> list[list[int]]:
    return [generated(pair, prompt, NEW_TOKENS) for prompt in prompts]


@pytest.mark.parametrize(
    "tree",
    [Tree.chain(4), best_tree(Acceptance.by_rank([0.65, 0.12, 0.06, 0.03, 0.02]), 24), Tree.k_ary(3, 3)],
    ids=["chain of 4", "best tree of 24", "full tree of 39"],
)
def test_greedy_text_is_generates(
    pair: Pair,
    prompts: list[list[int]],
    expected: list[list[int]],
    tree: Tree,
    record_property: Callable[[str, object], None],
) -> None:
    assert len(prompts) == PROMPTS
    decoder = Decoder(pair, PlannedTree(tree))
    for prompt, wanted in zip(prompts, expected, strict=True):
        text = decoder.generate(prompt, NEW_TOKENS).tokens
        assert len(text) == NEW_TOKENS
        where = first_divergence(pair, prompt, wanted, text)
        if where is not None:
            print(where)
            record_property("tie", str(where))
            assert where.margin < TIE, where


def test_the_pair_is_small_and_in_half_precision() -> None:
    folders = [SHIPPED / "target", SHIPPED / "draft"]
    assert sum(file.stat().st_size for folder in folders for file in folder.iterdir()) <= 12_000_000
    for folder in folders:
        assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
        assert (folder / "tokenizer.json").exists()


def test_no_prompt_comes_from_a_training_file() -> None:
    split = json.loads((SHIPPED / "split.json").read_text())
    assert split["train"]
    assert not set(split["train"]) & set(split["held_out"])
    assert len(load_prompts()) >= 100


def test_the_draft_is_as_good_as_the_card_says(pair: Pair, prompts: list[list[int]]) -> None:
    """Mean of sum min(p, q) over the text of 50 prompts; the card says 0.668 on all held-out text."""
    tokens = torch.tensor(prompts)
    with torch.inference_mode():
        p, q = (torch.softmax(model(tokens).logits.float(), -1) for model in (pair.target, pair.draft))
    assert torch.minimum(p, q).sum(-1).mean() > 0.63
