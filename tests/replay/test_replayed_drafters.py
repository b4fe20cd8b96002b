"""Dynamic trees: the draft alone makes the cycles of the decoder."""

from __future__ import annotations

import numpy as np
import pytest

import spectheory as st
from reference.decode import Decoder
from reference.drafters import Drafter, Goose, Lookahead, PlannedTree, SuffixArray, TokenRecycling, drafters
from reference.models import Pair
from reference.random_streams import streams
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from spectheory.core.errors import InputError
from tests.refusals import refuses
from tests.replay.inputs import TREE, prompts

PLAN = st.evaluate(TREE, st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant())
DYNAMIC = [
    drafter
    for kind in drafters()
    for drafter in kind.compared(Sampling(), PLAN, SuffixArray.build([[*range(60), *range(30)]])).values()
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
    if isinstance(drafter, Lookahead | TokenRecycling | Goose):
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
