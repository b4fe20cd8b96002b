"""Tests of the unrolling of draft heads: at every root and depth it computes what decoding computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from reference.drafters.model import cached_draft
from reference.heads import HeadStep
from reference.losses.passes import unroll
from reference.models import Pair
from tests.reference.tiny_heads import CONFIGS, random_head, random_target

LENGTH, DEPTHS = 9, 4


@pytest.mark.parametrize("kind", CONFIGS)
@torch.inference_mode()
def test_every_root_and_depth_is_what_the_cached_head_computes_along_the_text(kind: str) -> None:
    """One cache for the whole text: at each root the next tokens of the text are drafted, then dropped again."""
    target = random_target(layers=8)
    head = random_head(CONFIGS[kind], dtype=torch.float64).attach(target)
    tokens = torch.randint(0, 40, (1, LENGTH), generator=torch.Generator().manual_seed(6))
    hidden = target(tokens, output_hidden_states=True).hidden_states
    states = torch.cat([hidden[tap][0] for tap in head.taps], -1)
    passes = unroll(HeadStep(head), head.fuse(states)[None, :-1], tokens[:, 1:], DEPTHS)
    unrolled = torch.stack([head.on_vocabulary(one.logits[0]) for one in passes])
    tokenizer: Any = None
    cached: Any = cached_draft(Pair(target, head, tokenizer, ("the target", "the head")))
    cached.observe(states[:1])
    cached.read(tokens[:, :1])
    compared = 0
    for root in range(1, LENGTH):
        logits, committed = [cached.forward(tokens[:, root : root + 1])], cached.length
        assert committed == root, "row i of the cache belongs to token i + 1"
        for place in range(root + 1, min(root + DEPTHS, LENGTH)):
            logits.append(cached.forward(tokens[:, place : place + 1]))
        found = torch.cat(logits)
        torch.testing.assert_close(unrolled[: len(found), root - 1], found, rtol=1e-6, atol=1e-6)
        compared += len(found)
        cached.keep(committed, [])
        cached.observe(states[root : root + 1])
    assert compared == 5 * DEPTHS + 3 + 2 + 1
