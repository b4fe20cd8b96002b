"""Samplers in the layouts of engines: planted faults found, right samplers passed, and what the samplers get.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.certify import Verdict, eagle_play, sglang_play, vllm_play
from tests.certify.samplers import (
    BLOCK,
    LARGE,
    SMALL_LEVEL,
    TREE,
    WORLD,
    Rejection,
    V,
    certified,
    evaluate,
    tree_sampler,
)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("one_hot", [False, True])
def test_a_right_sampler_is_passed(one_hot: bool, batch: int) -> None:
    """WITHIN 0.15 at level 0.01 in two cycles: rows of different lengths, some without a draft."""
    options = {"depth": 2, "length": 3, "contexts": ((), (1, 2))[:batch], "batch": batch}
    found = certified(
        vllm_play(Rejection(), WORLD, vocab_size=V, one_hot=one_hot, **options), 4_000, tv=0.15, alpha=0.01
    )
    assert (found.verdict, found.batch) == (Verdict.WITHIN, batch)


FAULTS = {
    "placeholder read as token": 2_000,
    "ragged rows mixed up": 2_000,
    "noise shared between rows": 12_000,
    "wrong offset": 2_000,
}
"""Each with the runs that it may take at level 1e-6."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    """LOSSY at level 1e-6."""
    play = vllm_play(Rejection(fault), WORLD, vocab_size=V, size=V, contexts=((), (1, 2)), batch=64, name="markov")
    found = certified(play, FAULTS[fault])
    print(fault, found.samples)
    assert found.verdict is Verdict.LOSSY
    assert found.worst is not None
    assert found.worst.world == "markov"
    json.dumps(found.to_json(), allow_nan=False)


def test_a_fault_in_the_second_block_of_ids_needs_spread_ids() -> None:
    """LOSSY at level 1e-6 with ids up to 9,000; with 4 ids the second block of 4,096 is never reached."""
    sample = Rejection("second block of ids")
    spread = vllm_play(sample, WORLD, vocab_size=V, depth=2, batch=64)
    assert max(spread[0].ids or ()) == LARGE - 1 > BLOCK
    assert certified(spread, 5_000).verdict is Verdict.LOSSY
    dense = vllm_play(sample, WORLD, vocab_size=V, size=V, depth=2, length=3, batch=8)
    assert certified(dense, 20_000, **SMALL_LEVEL).verdict is Verdict.WITHIN


RAW = st.World.markov(np.array([[0.5, 0.3, 0.15, 0.05]] * V), np.array([[0.3, 0.4, 0.1, 0.2]] * V))


def top_2(p: Any) -> np.ndarray:
    kept = np.where(p >= np.sort(p)[-2], p, 0.0)
    return kept / kept.sum()


DRAFT_TOO = st.World(lambda context: top_2(RAW.p(context)), lambda context: top_2(RAW.q(context)))


def test_truncation_of_the_draft_only_is_found() -> None:
    """The sampler gets the target's unprocessed distributions. LOSSY at level 1e-6 if it leaves them as they are."""
    play = partial(vllm_play, world=DRAFT_TOO, given=RAW.p, vocab_size=V, size=V, depth=2, length=3, batch=8)
    assert certified(play(Rejection()), 1_000).verdict is Verdict.LOSSY
    assert certified(play(Rejection(processing=top_2)), 20_000, **SMALL_LEVEL).verdict is Verdict.WITHIN


def test_trees_in_the_layout_of_sglang() -> None:
    """The right sampler is WITHIN 0.1 at level 0.01; the wrong ones are LOSSY at level 1e-6."""
    play = partial(sglang_play, world=WORLD, vocab_size=V, size=50, tree=TREE, length=3, batch=2)
    right = certified(play(tree_sampler), 4_000, alpha=0.01, tv=0.1)
    assert right.verdict is Verdict.WITHIN, right.lines()
    for fault in ("coin reused", "correction from p"):
        found = certified(play(partial(tree_sampler, fault=fault)), 12_000)
        print(fault, found.samples)
        assert found.verdict is Verdict.LOSSY


def test_trees_in_the_layout_of_eagle() -> None:
    """The right function is WITHIN 0.12 at level 0.01; the wrong one is LOSSY at level 1e-6."""
    play = partial(eagle_play, world=WORLD, vocab_size=V, size=40, tree=TREE, length=3)
    right = certified(play(evaluate), 3_000, alpha=0.01, tv=0.12)
    assert right.verdict is Verdict.WITHIN, right.lines()
    wrong = certified(play(partial(evaluate, fault="rejected token kept")), 2_000)
    assert wrong.verdict is Verdict.LOSSY


def test_the_links_and_paths_of_a_tree() -> None:
    """Row 0 has the whole tree: the links of SGLang and the paths of EAGLE name its nodes."""
    seen: list[Any] = []

    def keep(x: Any, rng: np.random.Generator) -> Any:
        seen.append(x)
        raise ValueError("seen")

    certified(sglang_play(keep, WORLD, vocab_size=V, size=V, tree=TREE, batch=2), 64)
    certified(eagle_play(keep, WORLD, vocab_size=V, size=V, tree=TREE, contexts=((3,),)), 64)
    trees, paths = seen
    assert trees.retrieve_index.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert trees.retrieve_next_token[0].tolist() == [1, 3, 5, -1, -1, -1]
    assert trees.retrieve_next_sibling[0].tolist() == [-1, 2, -1, 4, -1, -1]
    assert paths.retrieve_indices.tolist() == [[0, 1, 3], [0, 1, 4], [0, 2, 5]]
    assert paths.candidates[:, 0].tolist() == [3, 3, 3]
    np.testing.assert_allclose(np.exp(paths.logits[0, 0]), WORLD.p((3,)), rtol=1e-6)
