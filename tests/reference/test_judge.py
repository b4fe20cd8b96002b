"""The judge: equal to replay, exactly 0 for equal drafts; its intervals; what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from reference.forced_logits import forced_texts
from reference.judge import HeldOutTexts, compare_drafts, usual_cycle
from reference.models import Pair
from reference.tracing import TraceSettings, ranks, record_trace
from spectheory.core.errors import InputError
from spectheory.otlp import RRS
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier
from tests.helpers import refuses
from tests.reference.sampled_text import restless
from tests.replay.enumerated import prompts

CHAIN, TREE = st.Tree.chain(3), st.Tree([-1, 0, 0, 1, 1, 2])
CASES: list[tuple[float, st.Tree, Verifier]] = [
    (0.0, CHAIN, Greedy()), (0.0, TREE, Greedy()), (1.0, CHAIN, Block()), (1.0, TREE, Traversal()),
    (1.0, TREE, TopDown(RRS())),
]  # fmt: skip
ERROR = 1e-6
"""Error level of the statistical tests; their seeds are fixed."""


@pytest.fixture(scope="module")
def traces(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    folders: dict[float, Path] = {}

    def recorded(temperature: float) -> Path:
        if temperature not in folders:
            folders[temperature] = tmp_path_factory.mktemp("trace")
            settings = TraceSettings("random", temperature, new_tokens=18)
            record_trace(tiny, prompts(6), settings, folders[temperature])
        return folders[temperature]

    return recorded


@pytest.fixture(scope="module")
def worse(tiny: Pair) -> Pair:
    """The pair with a draft that is further from the target."""
    draft: Any = deepcopy(tiny.draft)
    restless(draft, seed=5, scale=0.05)
    return replace(tiny, draft=draft.eval(), names=(tiny.names[0], "worse"))


@pytest.mark.parametrize(("temperature", "tree", "verifier"), CASES, ids=str)
def test_tau_equals_that_of_replay_and_a_draft_equals_itself(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], temperature: float, tree: st.Tree, verifier: Verifier
) -> None:
    texts = HeldOutTexts.of_trace(traces(temperature), tiny)
    found = compare_drafts(texts, {"own": [tiny], "again": [tiny], "worse": [worse]}, tree, verifier)
    (own,), (again,), (other,) = found.runs.values()
    if temperature:
        given = st.Replays(forced_texts(tiny, texts.prompts, texts.texts, texts.sampling))
        rule = usual_cycle(tree, texts.sampling, verifier).rule
        expected = given.replay(tree, verifier, rule)
    else:
        expected = st.Replays(st.GreedyText(one) for one in ranks(traces(0.0))).replay(tree, verifier)
    order = np.unique(texts.hashes, return_inverse=True)[1]
    np.testing.assert_allclose(own.ratio.numerators[order], expected.emitted, rtol=1e-9)
    np.testing.assert_allclose(own.ratio.denominators[order], expected.cycles, rtol=1e-9)
    np.testing.assert_allclose(own.accepted, expected.accepted, rtol=1e-9)
    same = found.difference("again", "own")
    assert (same.percent, same.error) == (0.0, 0.0)
    assert (own.accepted == again.accepted).all()
    gap = 100 * (other.ratio.value / own.ratio.value - 1)
    assert found.difference("worse", "own").percent == pytest.approx(gap, rel=1e-9)
    assert [row[0] for row in found.table().rows] == ["own", "again", "worse"]
    assert found.title.startswith(f"{texts.roots(tree.max_depth):,} roots in texts of 6 prompts")


def test_a_draft_that_is_the_target_keeps_every_token(tiny: Pair, traces: Callable[[float], Path]) -> None:
    texts = HeldOutTexts.of_trace(traces(1.0), tiny)
    perfect = replace(tiny, draft=tiny.target, names=("target", "target"))
    found = compare_drafts(texts, {"q": [tiny], "p": [perfect]}, CHAIN)
    assert found.tau("p")[0] == pytest.approx(4, rel=1e-6)
    assert np.allclose(found.runs["p"][0].acceptance, 1, rtol=1e-6)


def test_texts_of_one_source_are_one_cluster_and_runs_one_row(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path]
) -> None:
    texts = HeldOutTexts.of_trace(traces(1.0), tiny)
    by_file = replace(texts, sources=tuple("aabbab"))
    each, both = (compare_drafts(one, {"own": [tiny], "two": [worse, tiny]}, CHAIN) for one in (texts, by_file))
    assert len(both.runs["own"][0].ratio.denominators) == 2
    assert both.tau("own")[0] == pytest.approx(each.tau("own")[0], rel=1e-12)
    taus = [run.ratio.value for run in each.runs["two"]]
    assert each.tau("two")[0] == pytest.approx(np.mean(taus), rel=1e-12)


def test_what_cannot_be_compared_is_refused(tiny: Pair, worse: Pair, traces: Callable[[float], Path]) -> None:
    texts = HeldOutTexts.of_trace(traces(0.0), tiny)
    refuses("sources must name one for each of 6", replace, texts, sources=("a", "b"))
    refuses("token ids are whole numbers from 0 to 299", replace, texts, texts=[[300]] * 6)
    refuses("tree must have at least one drafted node", compare_drafts, texts, {"a": [tiny]}, st.Tree.chain(0))
    refuses("verifier must be Greedy for texts of temperature 0", compare_drafts, texts, {"a": [tiny]}, CHAIN, Block())
    refuses("texts must be longer than a cycle", compare_drafts, texts, {"a": [tiny]}, st.Tree.chain(18))
    other = replace(tiny, target=worse.draft)  # pyrefly: ignore[bad-argument-type]
    refuses("a has another target than the texts", compare_drafts, texts, {"a": [other]}, CHAIN)
    with pytest.raises(InputError, match=r"pair has weights .*, the trace in .* was recorded with"):
        HeldOutTexts.of_trace(traces(0.0), replace(tiny, target=tiny.draft))  # pyrefly: ignore[bad-argument-type]
