"""Replay against the decoder itself, cycle by cycle."""

from __future__ import annotations

import numpy as np
import pytest

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.forced_logits import forced_texts
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory.otlp import RRS, Naive
from spectheory.replay import Replays
from spectheory.verify import Block, TopDown, Traversal, Verifier
from tests.replay.inputs import RULES, TREE, prompts

VERIFIERS = [(st.Tree.chain(3), Block()), (TREE, TopDown(RRS())), (TREE, TopDown(Naive())), (TREE, Traversal())]
SAMPLINGS = [Sampling(1.0), Sampling(0.6, top_p=0.9), Sampling(1.0, top_k=5)]


@pytest.mark.parametrize(
    ("tree", "verifier", "sampling"),
    [
        pytest.param(*verifying, sampling, marks=[] if i % 3 == j else [pytest.mark.deep])
        for i, verifying in enumerate(VERIFIERS)
        for j, sampling in enumerate(SAMPLINGS)
    ],
    ids=str,
)
def test_the_decoder_starts_as_many_cycles_as_replay_expects_on_its_texts(
    tiny: Pair, tree: st.Tree, verifier: Verifier, sampling: Sampling
) -> None:
    """|z| <= 4.5 over 5 texts: an error level of 7e-6 for each of 12 rows, by the normal approximation; 8 are deep.

    The expected number is the mean of 8 draws of the siblings; its own variance counts too.
    """
    texts, counted = [], []
    for request, prompt in enumerate(prompts(5)):
        text = Decoder(tiny, PlannedTree(tree), sampling, verifier).generate(prompt, 30, *streams(tiny, 1, request))
        starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
        counted.append((starts < 30 - tree.max_depth).sum())
        texts.append(text.tokens)
    forced = list(forced_texts(tiny, prompts(5), texts, sampling))
    drawn = [Replays(forced, seed=seed).replay(tree, verifier, RULES[tree.is_chain]) for seed in range(8)]
    expected = np.array([one.cycles.sum() for one in drawn])
    variance = np.mean([one.variance.sum() for one in drawn]) + expected.var(ddof=1) / len(drawn)
    assert abs(np.sum(counted) - expected.mean()) <= 4.5 * np.sqrt(variance)
