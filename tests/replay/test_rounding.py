"""Texts at the edge of rounding are replayed, in float64 and as models in bfloat16 give them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.forced_logits import UNITS, _keep_tokens, forced_texts
from reference.models import Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory.core.world import DrawPolicy, Paths
from spectheory.otlp import RRS
from spectheory.replay import Replays, TargetText
from spectheory.verify import Block, GreedyMultiPathBlock, TopDown, Traversal, Verifier
from tests.helpers import refuses
from tests.replay.enumerated import IID, NO_REPLACEMENT, TREE, prompts

REQUESTS = prompts(12)
RARE = 1e-45
"""About the smallest probability that the softmax of float32 gives."""


def rare_text(n: int = 12) -> TargetText:
    """The target gives its tokens 0 and 1 in turn, at probability `RARE`; the draft never drafts the last four."""
    tokens = np.arange(n) % 2
    p, q = np.full((n, 3), RARE), np.full((n, 3), 0.25)
    p[:, 2], q[:, 2] = 1, 0.5
    q[n - 4 :] = [0, 0, 1]
    return TargetText(tokens, p, q)


@pytest.mark.parametrize(
    ("shape", "verifier", "rule"),
    [
        (st.Tree.chain(10), Block(), IID),
        (st.Tree.k_ary(2, 3), Traversal(), NO_REPLACEMENT),
        (st.Tree.k_ary(2, 3), TopDown(RRS()), NO_REPLACEMENT),
        (Paths(2, 10), GreedyMultiPathBlock(), None),
    ],
    ids=lambda value: str(value),
)
def test_ratios_to_tiny_probabilities_stay_numbers(
    shape: st.Tree | DrawPolicy, verifier: Verifier, rule: st.DrawRule | None
) -> None:
    """Products of them are above the largest float64, and a q of 0 after them must give 0, not NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (kept,) = Replays([rare_text()]).kept(shape, verifier, rule)
    assert np.isfinite(kept).all()
    assert (kept >= 0).all()
    assert (kept[8:, 1:] == 0).all(), "the draft drafts none of the last tokens"


CASES = [
    (Sampling(1.0, top_p=0.8), (8, 9)),
    (Sampling(1.0, top_k=3), (3, 7)),
    (Sampling(0.7, 40, 0.9), (0, 1)),
    (Sampling(0.005), (0, 1)),
]
"""With requests whose texts, of the first three, hold tokens that rounding excludes; other processors may round
otherwise."""


@pytest.fixture(scope="module")
def rounded(tiny_folders: Path) -> Pair:
    return load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=torch.bfloat16)


@pytest.mark.parametrize(("sampling", "requests"), CASES, ids=str)
def test_texts_that_were_sampled_in_bfloat16_are_replayed(
    rounded: Pair, sampling: Sampling, requests: Sequence[int]
) -> None:
    """The decoder's cached forwards round differently from one forward of the whole text. Only the rows that exclude
    their token are changed; a token far from the boundary is refused: the least probable of the vocabulary.
    """
    decoder, before = Decoder(rounded, PlannedTree(TREE), sampling, TopDown(RRS())), [REQUESTS[i] for i in requests]
    texts = [
        decoder.generate(prompt, 60, *streams(rounded, 1, i)).tokens for i, prompt in zip(requests, before, strict=True)
    ]
    for prompt, tokens, text in zip(before, texts, forced_texts(rounded, before, texts, sampling), strict=True):
        assert isinstance(text, TargetText)
        assert (text.at_tokens(text.p) > 0).all()
        assert np.allclose(text.p.sum(1), 1)
        with torch.inference_mode():
            logits = rounded.target(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].float()
        plain = sampling.distribution(logits).double().numpy()
        kept = plain[np.arange(len(tokens)), tokens] > 0
        assert np.allclose(text.p[kept], plain[kept], atol=1e-3)
        wrong = [*tokens[:20], int(logits[20].argmin()), *tokens[21:]]
        read = forced_texts(rounded, [prompt], [wrong], sampling)
        refuses(r"tokens\[20\] is .* probability 0: the target cannot have generated", next, read)


def test_a_token_at_the_boundary_enters_and_one_beyond_it_does_not() -> None:
    """By hand: with units of 1/32 relative to a largest logit of 4, logits move by at most 1/8."""
    move = UNITS * torch.finfo(torch.bfloat16).eps * 4
    for gap, enters in ((1.9 * move, True), (2.1 * move, False)):
        logits = torch.tensor([[4.0, 2.0, 2.0 - gap, -3.0]])
        sampling = Sampling(1.0, top_k=2)
        p = sampling.distribution(logits)
        _keep_tokens(p, logits, [2], sampling, torch.bfloat16)
        assert bool(p[0, 2] > 0) is enters
        assert float(p.sum()) == pytest.approx(1)
