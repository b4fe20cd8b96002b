"""Replay against the decoder itself, cycle by cycle; the cycles of dynamic trees are made by the draft alone."""

from __future__ import annotations

import numpy as np
import pytest

import spectheory as st
from reference.decode import Decoder
from reference.drafters import Drafter, Goose, PlannedTree, TokenRecycling, drafters
from reference.forced_logits import forced_texts
from reference.models import Pair
from reference.random_streams import streams
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from spectheory.core.errors import InputError
from spectheory.otlp import RRS, Naive
from spectheory.replay import Replays
from spectheory.verify import Block, TopDown, Traversal, Verifier
from tests.helpers import refuses
from tests.replay.enumerated import RULES, TREE, prompts

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


PLAN = st.evaluate(TREE, st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant())
DYNAMIC = [
    drafter
    for kind in drafters()
    for drafter in kind.compared(Sampling(), PLAN).values()
    if drafter.rule(Sampling()) is st.DrawRule.TOP_K
]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("drafter", DYNAMIC, ids=lambda drafter: type(drafter).__name__)
def test_a_drafter_that_draws_nothing_makes_the_cycles_of_the_decoder(
    tiny: Pair, drafter: Drafter, sampling: Sampling
) -> None:
    """Equal, whatever the temperature: sample and match keeps the longest match of the tree with the text."""
    if drafter.rule(sampling) is not st.DrawRule.TOP_K:
        return
    prompt = prompts(1, 12)[0]
    text = Decoder(tiny, drafter, sampling).generate(prompt, 24, *streams(tiny, 1))
    starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
    if isinstance(drafter, TokenRecycling | Goose):
        refuses("reads the target's logits", replay_drafter, tiny, drafter, [prompt], [text.tokens], sampling)
        return
    replayed = replay_drafter(tiny, drafter, [prompt], [text.tokens], sampling)
    whole = starts + len(replayed.accepted) - 1 < len(text.tokens)
    assert (
        replayed.accepted.tolist()
        == np.bincount(np.array(text.accepted)[whole], minlength=len(replayed.accepted)).tolist()
    )


def test_a_drafter_that_draws_is_replayed_by_its_shape(tiny: Pair) -> None:
    with pytest.raises(InputError, match="draws by NO_REPLACEMENT, .* replay its tree or draw policy with Replays"):
        replay_drafter(tiny, PlannedTree(TREE), prompts(1), [[1, 2]], Sampling(1.0))
    with pytest.raises(InputError, match="must be longer than a cycle of depth 2, the longest has 2 tokens"):
        replay_drafter(tiny, PlannedTree(TREE), prompts(1), [[1, 2]], Sampling())
