"""Texts, records and arguments that cannot be replayed are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spectheory as st
from reference.drafters import PromptLookup
from reference.forced_logits import forced_texts
from reference.models import Pair
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from spectheory.core.world import Levels, Paths
from spectheory.otlp import NSS, SpecInfer
from spectheory.replay import GreedyText, Replays, TargetText, where_cycles_end
from spectheory.verify import Block, BottomUp, Greedy, TopDown, Verifier
from tests.helpers import refuses
from tests.replay.enumerated import IID, NO_REPLACEMENT, TREE, prompts, random_text

WIDE, ONE = np.full((3, 4), 0.25), np.ones((1, 1))
target: Any = TargetText
greedy: Any = GreedyText


def replay(text: Any, shape: Any, verifier: Verifier, rule: st.DrawRule | None = None, **better: Any) -> object:
    return Replays([text]).replay(shape, verifier, rule, **better)


TEXT, RANKED = random_text(1, depths=1), GreedyText(np.array([0, -1] * 8))
REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("tokens must be an array", lambda: target([[0], [1, 2]], WIDE, WIDE)),
    ("tokens must be a row of whole numbers, got bool", lambda: target([True, False, True], WIDE, WIDE)),
    ("tokens.*got 2", lambda: target([2], [[0.0, 1.0]], [[0.5, 0.5]])),
    ("p must be an array of float64 or of Fractions, got object", lambda: target([0], [[None, 1]], [[0, 1]])),
    (r"p.*\(1, V\).*q", lambda: target([0], ONE, np.ones((2, 1)))),
    (r"p\[0\].*0.9", lambda: target([0], [[0.5, 0.4]], [[0.5, 0.5]])),
    (r"q\[0\].*nan", lambda: target([0], [[0.5, 0.5]], [[np.nan, 0.5]])),
    (r"tokens\[0\] is 1, which p gives .* 4.94e-324", lambda: target([1], [[1.0, 5e-324]], [[0.5, 0.5]])),
    ("ranks.*-2", lambda: greedy([-2])),
    ("ranks must be below candidates=3", lambda: greedy([0, 3], candidates=3)),
    ("texts must hold at least one text, got none", lambda: Replays([])),
    ("texts.*several", lambda: Replays([TEXT, RANKED])),
    ("first must be at least 0, got -1", lambda: Replays([TEXT], first=-1)),
    ("4 children.*only 3", lambda: replay(greedy(np.arange(40) % 3, 3), st.Tree.k_ary(4, 1), Greedy())),
    ("Greedy.*TargetText", lambda: replay(TEXT, st.Tree.chain(2), Greedy())),
    (r"Block\(\).*GreedyText", lambda: replay(RANKED, st.Tree.chain(2), Block(), IID)),
    ("Levels.*Tree", lambda: replay(RANKED, Levels((2,)), Greedy())),
    ("rule.*DrawRule.NO_REPLACEMENT", lambda: replay(TEXT, st.Tree.chain(2), Block())),
    ("TOP_K.*lossless only for IID", lambda: replay(TEXT, st.Tree.chain(2), Block(), st.DrawRule.TOP_K)),
    ("chains.*Traversal", lambda: replay(TEXT, TREE, Block(), IID)),
    ("rule.*IID", lambda: replay(TEXT, Paths(2, 2), TopDown(SpecInfer()), NO_REPLACEMENT)),
    ("BottomUp.*cannot be replayed", lambda: replay(TEXT, TREE, BottomUp(NSS()), NO_REPLACEMENT)),
    ("perfect must be a depth", lambda: replay(RANKED, TREE, Greedy(), perfect=2)),
    ("closer must be between 0", lambda: replay(RANKED, TREE, Greedy(), closer=1.5)),
    ("at least one drafted node", lambda: where_cycles_end(Replays([RANKED]), st.Tree.chain(0), Greedy())),
]


@pytest.mark.parametrize(("named", "call"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_replayed_is_refused(named: str, call: Callable[[], object]) -> None:
    refuses(named, call)


FIRST = prompts(12)[:1]
BAD_TEXTS: list[tuple[Any, Any, str]] = [
    (FIRST * 2, [[1, 2]], "got 2 prompts and 1 texts"),
    (FIRST, [[]], r"texts\[0\] must hold at least one token"),
    (FIRST, [[1, 300]], r"texts\[0\]\[1\] is 300: token ids are whole numbers from 0 to 299"),
    (FIRST, [np.array([1, 2])], r"texts\[0\] must be a list of token ids"),
    ("ab", [[1], [2]], "prompts must be a list of lists of token ids, got a str"),
    (FIRST, [[1] * 1019], r"prompts\[0\] of 6 tokens and its text of 1019 need a context of 1025"),
]


@pytest.mark.parametrize(("before", "texts", "named"), BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_prompts_and_texts_of_other_models_are_refused(tiny: Pair, before: Any, texts: Any, named: str) -> None:
    refuses(named, forced_texts, tiny, before, texts, Sampling(1.0))
    refuses(named, replay_drafter, tiny, PromptLookup(), before, texts, Sampling(1.0))
