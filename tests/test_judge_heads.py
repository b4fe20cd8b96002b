"""Tests of the judge on draft heads: it reads them as decoding does."""

from __future__ import annotations

import pytest
import torch

from reference.judging.drafts import ForcedBatch
from reference.judging.head_drafts import HeadDraft
from spectheory.core.errors import InputError
from tests.slow_heads import SlowHead, headed
from tests.tiny_heads import CONFIGS


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "eagle3.1", "mtp", "parallel"])
def test_the_judge_reads_a_head_as_decoding_does(kind: str) -> None:
    """Entry [d, b, t] has drafted the last d of the tokens up to t; the texts have different lengths."""
    pair, texts = headed(CONFIGS[kind]), [([5, 6, 7], [8, 9, 30, 31]), ([1, 2], [3, 4])]
    with torch.inference_mode():
        found = HeadDraft(pair, 3).logits(ForcedBatch(pair, texts, 0, features=True))
    for place, (prompt, text) in enumerate(texts):
        tokens = [*prompt, *text]
        for end in range(3, len(tokens)):
            for depth in range(3):
                slow = SlowHead(pair, tokens[: end + 1 - depth]).logits(tokens[end + 1 - depth : end + 1])
                torch.testing.assert_close(found[depth, place, end], slow.float(), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="depths must be at least 1, got 0"):
        HeadDraft(pair, 0)
