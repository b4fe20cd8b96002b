"""Tests of draft heads as drafters: equal to a slow rendering without a cache, and lossless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reference.decode import Cycle, Decoder
from reference.drafters import Drafter, Drawn, PlannedTree, Searched
from reference.heads import HeadConfig
from reference.host_arrays import to_host
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.core.errors import InputError
from spectheory.core.world import Levels, Paths
from spectheory.otlp import RRS
from spectheory.search import Eagle2, OptTree, Salf, SpecExec
from spectheory.verify import TopDown
from tests.helpers import refuses
from tests.reference.checked import Checked
from tests.reference.sampled_text import generated
from tests.reference.slow_heads import PROMPTS, SlowHead, accepting, headed, paths_of
from tests.reference.tiny_heads import CONFIGS, EAGLE1, EAGLE3, random_head, random_target

BRANCHING = Tree([-1, 0, 0, 1, 1, 2, 5, 5, 3])
"""Levels of which some inner nodes attend to everything before them, and some do not."""
SEARCHES = (Eagle2(3, 4, 12), OptTree(8, 0.1), SpecExec(8, 3), Salf(8, 0.2, batch=3))
DRAFTERS: tuple[Drafter, ...] = (PlannedTree(Tree.chain(4)), PlannedTree(BRANCHING), *map(Searched, SEARCHES))
SAMPLED: tuple[Drafter, ...] = (
    PlannedTree(Tree.chain(3)),
    PlannedTree(BRANCHING),
    Drawn(Paths(3, 2, trunk=1)),
    Drawn(Levels((2, 1, 2))),
)


def cycles(pair: Pair, drafter: Drafter, prompt: list[int], count: int) -> list[tuple[Any, Cycle]]:
    """The cycles of a sampled text, each with the text before it, its root included."""
    seen: list[Cycle] = []
    decoder = Decoder(pair, Checked(drafter), Sampling(1.0), TopDown(RRS()))
    text = [*prompt, *decoder.generate(prompt, count, *streams(pair, 3), seen.append).tokens]
    first = len(prompt) + 1
    found = []
    for cycle in seen:
        if first < len(text):
            found.append((text[:first], cycle))
        first += len(cycle.emitted)
    return found


def assert_searched(search: Any, slow: SlowHead, draft: Draft) -> None:
    """The draft is what the search finds with the slow rendering."""
    wanted = search.grow(slow)
    assert wanted.tree.parent.tolist() == draft.tree.parent.tolist()
    assert wanted.tokens[1:].tolist() == [int(token) for token in draft.tokens][1:]


@pytest.mark.parametrize("kind", CONFIGS)
def test_greedy_drafts_are_those_of_the_slow_rendering(kind: str) -> None:
    pair = headed(CONFIGS[kind])
    for drafter in (PlannedTree(Tree.chain(4)), PlannedTree(BRANCHING)):
        for text, draft in accepting(pair, drafter, PROMPTS[1], 3):
            slow, drafted = SlowHead(pair, text), paths_of(draft)
            for node, children in enumerate(draft.draws):
                best = slow.logits(drafted[node]).topk(max(1, len(children))).indices.tolist()
                assert [drafted[child][-1] for child in children] == best[: len(children)]
    for text, draft in accepting(pair, Searched(SEARCHES[0]), PROMPTS[0], 3):
        assert_searched(SEARCHES[0], SlowHead(pair, text), draft)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_every_search_drafts_as_with_the_slow_rendering(search: Any) -> None:
    pair = headed(EAGLE3)
    for text, draft in accepting(pair, Searched(search), PROMPTS[2], 4):
        assert_searched(search, SlowHead(pair, text), draft)


@pytest.mark.parametrize("kind", ["eagle1", "chosen layers"])
def test_drawn_drafts_have_the_distributions_of_the_slow_rendering(kind: str) -> None:
    pair, compared, kept = headed(CONFIGS[kind]), 0, 0
    for drafter in SAMPLED:
        for text, cycle in cycles(pair, drafter, PROMPTS[2], 8):
            kept += len(cycle.path)
            slow, drafted = SlowHead(pair, text), paths_of(cycle.draft)
            for node, q in enumerate(cycle.draft.q):
                if q is not None:
                    wanted = slow.logits(drafted[node]).float().softmax(-1)
                    np.testing.assert_allclose(to_host(q), wanted.numpy(), atol=1e-6)
                    compared += 1
    assert compared > 40
    assert kept, "no drafted token was accepted, so nothing was tested of the next cycle"


def test_the_greedy_text_is_that_of_plain_decoding() -> None:
    pair = headed(EAGLE3)
    for prompt in PROMPTS[:2]:
        wanted = generated(pair, prompt, 8)
        for drafter in DRAFTERS:
            assert Decoder(pair, drafter).generate(prompt, 8).tokens == wanted


def test_a_head_that_is_the_target_is_always_accepted() -> None:
    """An EAGLE-1 head on a target of one layer that ignores its input: the head's logits are then the target's."""
    one = random_target(layers=1, vocab_size=40)
    head = random_head(EAGLE1, dtype=torch.float64)
    for name in ("o_proj", "down_proj"):
        for module in (one.model.layers[0], head.layer):
            part = module.self_attn if name == "o_proj" else module.mlp
            getattr(part, name).weight.zero_()
    head.fc.weight.zero_()
    head.fc.weight[:, :32] = torch.eye(32)
    head.fc.bias.zero_()
    assert head.embed_tokens is not None
    head.embed_tokens.weight.copy_(one.model.norm(one.model.embed_tokens.weight))
    tokenizer: Any = None
    pair = Pair(one, head.attach(one), tokenizer, ("the target", "the head"))
    found = Decoder(pair, PlannedTree(Tree.chain(3))).generate([5, 6], 20)
    assert found.accepted == [3] * len(found.accepted)
    assert found.tokens == generated(pair, [5, 6], 20)


def test_a_tree_wider_than_the_draft_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="tree has 25 children at a node, the vocabulary has 24 tokens"):
        Decoder(headed(EAGLE3), PlannedTree(Tree.k_ary(25, 1))).generate([1], 4)
    assert Decoder(headed(EAGLE3), PlannedTree(Tree.k_ary(24, 1))).generate([1], 4).tokens == generated(
        headed(EAGLE3), [1], 4
    )


@pytest.mark.parametrize(
    ("config", "sizes", "message"),
    [
        (EAGLE3, {"hidden_size": 48}, r"the head is for another target: its hidden_size is 32, .* 48"),
        (EAGLE3, {"vocab_size": 50}, r"the head is for another target: its vocab_size is 40, .* 50"),
        (EAGLE3, {"layers": 6}, r"inputs of layers 2, 3, 3 \(2, n // 2, n - 3\), which must be different .* 6 layers"),
        (replace(EAGLE3, layers=(1, 9)), {}, "inputs of layers 1, 9, which must be different .* the target has 4"),
        (EAGLE1, {"dtype": torch.bfloat16}, "the head has weights in float64, the target's hidden states are in bfl"),
        (replace(EAGLE1, target="x/y"), {"hidden_size": 48}, r"for another target \(x/y\)"),
    ],
)
def test_a_head_for_another_target_is_refused_by_name(config: HeadConfig, sizes: Any, message: str) -> None:
    refuses(message, random_head(config, dtype=torch.float64).attach, random_target(**sizes))
