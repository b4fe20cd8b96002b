"""Tests of the drafts of Goose for any text and any table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.drafters import Goose
from reference.drafters.goose import GooseDrafting
from spectheory import Draft, Tree
from spectheory.verify import walk
from tests.reference.sampled_text import logits_for


class Scripted:
    """Goose drafting without a model, from a text and the likely successors of each token."""

    def __init__(self, settings: Goose, text: list[int], likely: dict[int, list[int]]) -> None:
        self.drafting = GooseDrafting(settings)
        self.drafting.read(text[:-1], logits_for(likely, text[:-1]))
        self.drafting.commit([], text[-1:])

    def grow(self, room: int = 100) -> Draft:
        draft = self.drafting.grow(room, None)
        return Draft(draft.tree, draft.tokens, draft.q, draft.draws, draft.rule)


EXAMPLE = "self . calc . eval ( data , flag , 1 ) x f ( 2 ) x self . calc ."
"""The text so far; the target continues with `eval ( data , flag , 2 )`."""


def test_the_papers_example_goes_on_after_the_spine() -> None:
    """The copied spine breaks at its seventh token, and a branch beside it goes on: 8 tokens accepted, not 6.

    The match has more than 8 tokens, so with the bypass there is no branch that could go on.

    Source: Goose, Section 4, Figure 2.
    """
    words = EXAMPLE.split()
    number = {word: place for place, word in enumerate(dict.fromkeys(words))}
    text, spine = [number[word] for word in words], [number[word] for word in words[4:12]]
    truth = [*spine[:6], number["2"], number[")"], number["x"]]
    likely = {number["("]: [number["data"], number["2"]], number["2"]: [number[")"]]}
    logits = logits_for(likely, text)
    logits[9] = logits_for({0: [number["1"], number["2"]]}, [0])[0]  # after `flag ,`
    kept = {}
    for bypass in (8, None):
        drafting = GooseDrafting(Goose(bypass_length=bypass))
        drafting.read(text[:-1], logits[:-1])
        drafting.commit([], text[-1:])
        draft = drafting.grow(100, None)
        assert draft.tokens[1:9] == spine
        path, following = walk(draft.draws, draft.tokens, lambda node, draft=draft: truth[draft.tree.depth[node]])
        kept[bypass] = len(path), following
    assert kept == {8: (6, number["2"]), None: (8, number["x"])}


tables = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), unique=True, max_size=6))
stories = st.lists(st.integers(0, 9), min_size=2, max_size=40)
options = st.fixed_dictionaries(
    {
        "budget": st.integers(1, 30),
        "lengths": st.sampled_from([(3, 2, 1), (1,), (2, 1)]),
        "max_spine": st.integers(0, 12),
        "top_k": st.integers(1, 5),
        "branch_depth": st.integers(0, 4),
        "min_score": st.sampled_from([0.0, 0.01, 0.3]),
        "bypass_length": st.sampled_from([8, None]),
    }
)


@given(stories, tables, options, st.integers(0, 15))
@settings(max_examples=300)
def test_the_shape_of_gooses_drafts(text: list[int], likely: dict[int, list[int]], chosen: dict, room: int) -> None:
    goose = Goose(**chosen)
    scripted = Scripted(goose, text, likely)
    draft, drafting = scripted.grow(room), scripted.drafting
    tree, spine = draft.tree, drafting.spine
    match = drafting.index.match(min(room, goose.max_spine, goose.budget))
    trusted = match.consensus or match.length >= 8
    bypassed = goose.bypass_length is not None and trusted and bool(match.tokens)
    assert tree.budget <= goose.budget
    assert tree.max_depth <= room
    assert tree.parent[: spine + 1].tolist() == list(range(-1, spine))
    assert draft.tokens[1 : spine + 1] == match.tokens[:spine]
    assert spine == (len(match.tokens) if bypassed else min(len(match.tokens), goose.budget // 2))
    if bypassed:
        assert tree.is_chain
        assert tree.budget == spine
        return
    fork = np.zeros(tree.budget + 1, int)
    for node in range(spine + 1, tree.budget + 1):
        parent = tree.parent[node]
        fork[node] = fork[parent] + 1
        assert fork[node] <= goose.branch_depth
        assert draft.tokens[node] in likely_row(drafting, draft, parent)
    for drawn in draft.draws:
        assert len([child for child in drawn if child > spine]) <= goose.top_k
        assert all(child > spine for child in drawn[1:])


def likely_row(drafting: GooseDrafting, draft: Draft, node: int) -> list[int]:
    before = draft.tokens[draft.tree.parent[node]] if node else drafting.index.text[-2]
    return [token for token, _ in drafting.table.successors(before, draft.tokens[node])]


def test_branches_divide_their_width_among_their_children() -> None:
    """Probabilities 0.67, 0.24, 0.09 share a width of 3 as 2, 1, 1, since each has at least 1."""
    everywhere = {token: [5, 6, 7] for token in range(10)}
    text = [5, 6, 7, 9]
    draft = Scripted(Goose(top_k=3, branch_depth=2), text, everywhere).grow()
    assert draft.tree.parent.tolist() == [-1]
    draft = Scripted(Goose(top_k=3, branch_depth=2), [*text, 5], everywhere).grow()
    assert draft.tree.parent.tolist() == [-1, 0, 0, 0, 1, 1, 2, 3]
    assert draft.tokens == [5, 5, 6, 7, 5, 6, 5, 5]


def test_widths_fall_down_the_spine() -> None:
    """Budget 9: a spine of 3 leaves 6, half of them for the root, and 3 beside the spine's nodes as 2, 1, 0."""
    everywhere = {token: [5, 6, 7, 8] for token in range(10)}
    text = [5, 6, 7, 8, 1, 2, 3, 1]
    drafted = Scripted(Goose(budget=9, lengths=(1,), max_spine=3, top_k=3), text, everywhere).grow()
    assert drafted.tree == Tree([-1, 0, 1, 2, 0, 0, 0, 1, 1, 2])


def test_without_match_and_successors_nothing_is_drafted() -> None:
    assert Scripted(Goose(), [1, 2, 3], {}).grow().tokens == [3]
    assert Scripted(Goose(), [3, 2, 3], {3: [4]}).grow().tokens == [3, 4]


def test_the_spine_shrinks_where_matches_fail() -> None:
    """Rates begin at 0.5: the spine may have half the budget, and after misses 0.3 and 0.15 of it."""
    text = [1, 2, *range(20, 40), 1, 2, *range(50, 60), 1, 2]
    scripted = Scripted(Goose(budget=40, lengths=(2,), bypass_length=None, max_spine=99), text, {})
    lengths = []
    for _ in range(5):
        draft = scripted.grow()
        lengths.append(scripted.drafting.spine)
        scripted.drafting.commit([], [90], torch.zeros(len(draft.tokens), 300))
        scripted.drafting.commit([], [1])
        scripted.drafting.commit([], [2])
    assert lengths == [20, 12, 12, 6, 6]
    assert scripted.drafting.kept == pytest.approx(0.5 * 0.7**5)
