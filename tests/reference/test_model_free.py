"""Drafts without a draft model: lookup in the text, tables of successors, Goose, and whole texts of all of them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from reference.decode import Decoder
from reference.drafters import ALL, Drafter, Goose, PlannedTree, PromptLookup, Searched, TokenRecycling
from reference.drafters.lookup import TextIndex
from reference.drafters.recycling import PUBLISHED_TREE, TwoTierTable, harvest_order
from reference.models import Pair
from reference.sampling import Sampling
from spectheory import Tree
from tests.helpers import refuses
from tests.reference.sampled_text import generated, logits_for

DRAFTERS = [
    *(drafter for kind in ALL for drafter in kind.greedy() if not isinstance(drafter, PlannedTree | Searched)),
    Goose(bypass_length=None),
    Goose(budget=1),
]


IN_TURN = [
    pytest.param(prompt, drafter, marks=[pytest.mark.deep] if (i + j) % 3 else [], id=f"{len(prompt)}-{drafter}")
    for i, drafter in enumerate(DRAFTERS)
    for j, prompt in enumerate(([7], list(range(20, 50)), [3, 3, 200, 41, 3, 3, 200]))
]


@pytest.mark.parametrize(("prompt", "drafter"), IN_TURN)
def test_greedy_text_is_generates(tiny: Pair, prompt: list[int], drafter: Drafter) -> None:
    """Each drafter after one of the prompts, in turn; deep, after all. The target is alone."""
    assert Decoder(replace(tiny, draft=None), drafter).generate(prompt, 30).tokens == generated(tiny, prompt, 30)


def test_a_corpus_is_searched_where_the_text_has_no_match(tiny: Pair) -> None:
    drafting = PromptLookup((2, 1), 3, corpus=((5, 6, 7, 8, 9, 10), (6, 20))).start(tiny, Sampling())
    drafting.read([1, 2, 3], torch.empty(0))
    for emitted, wanted in (([5, 6], [7, 8, 9]), ([40, 6], [40, 6, 40]), ([10], []), ([8], [9, 10])):
        drafting.commit([], emitted)
        assert list(drafting.grow(10, None).tokens) == [emitted[-1], *wanted]


texts = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(texts, st.sets(st.integers(1, 5), min_size=1), st.integers(0, 12), st.integers(1, 7))
def test_the_index_finds_what_a_scan_finds(text: list[int], lengths: set[int], most: int, piece: int) -> None:
    index = TextIndex(lengths)
    for start in range(0, len(text), piece):
        index.extend(text[start : start + piece])
    found = index.match(most)
    places = [place for n in sorted(lengths, reverse=True) if (place := scanned(text, n)) is not None] if most else []
    if not places:
        assert (found.tokens, found.length, found.consensus) == ([], 0, False)
        return
    going_on = list(text)
    while len(going_on) < len(text) + most:
        going_on.append(going_on[places[0] + len(going_on) - len(text)])
    wanted = going_on[places[0] : places[0] + most]
    assert found.tokens == wanted
    assert found.length == len(text[places[0] : places[0] + most])
    assert found.consensus == any(text[place] == text[places[0]] for place in places[1:])


def scanned(text: list[int], n: int) -> int | None:
    """Place after the last occurrence of the last n tokens that is not the end itself."""
    places = [i + n for i in range(len(text) - n) if text[i : i + n] == text[len(text) - n :]]
    return places[-1] if places else None


def test_a_longer_ngram_decides_and_a_shorter_one_may_disagree() -> None:
    index = TextIndex((2, 1))
    index.extend([1, 2, 8, 5, 2, 9, 1, 2])
    found = index.match(2)
    assert (found.tokens, found.consensus) == ([8, 5], False)


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), min_size=1, max_size=12)


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from([0.0, 0.1, 0.3]))
def test_the_two_tiers_are_two_dictionaries(harvests: list[list[tuple[int, int]]], min_score: float) -> None:
    table, pairs, singles = TwoTierTable(3, min_score), {}, {}
    for harvest in harvests:
        tokens = [token for token, _ in harvest]
        contexts = [(tokens[0],), *itertools.pairwise(tokens)]
        logits = torch.stack([row_of(seed, 5) for _, seed in harvest])
        table.harvest(contexts, logits)
        for context, law in zip(contexts, logits.softmax(-1).tolist(), strict=True):
            best = sorted(range(5), key=law.__getitem__, reverse=True)[:3]
            pairs[context] = singles[context[-1]] = [(token, law[token]) for token in best if law[token] >= min_score]
    for before, token in itertools.product(range(5), repeat=2):
        wanted = pairs.get((before, token), singles.get(token, []))
        found = table.successors(before, token)
        assert [successor for successor, _ in found] == [successor for successor, _ in wanted]
        assert [chance for _, chance in found] == pytest.approx([chance for _, chance in wanted])


def row_of(seed: int, vocab_size: int) -> torch.Tensor:
    """Logits without ties."""
    return 2 * torch.randn(vocab_size, generator=Generator().manual_seed(seed))


def test_accepted_nodes_are_harvested_last() -> None:
    assert harvest_order(5, [2, 4]) == [1, 3, 0, 2, 4]


def test_the_published_tree_favours_high_ranks() -> None:
    levels = [int((PUBLISHED_TREE.depth == depth).sum()) for depth in range(7)]
    assert levels == [1, 8, 21, 25, 15, 8, 3]
    children = np.bincount(PUBLISHED_TREE.parent[1:], minlength=81)
    for node in range(81):
        assert np.all(np.diff(children[PUBLISHED_TREE.children(node)]) <= 0)


def test_recycling_drafts_what_it_harvested(tiny: Pair) -> None:
    """After 1 came 2 or 3, after 2 came 4 or 5; nothing is known of 3, whose row still is 0, 1."""
    drafting = TokenRecycling(Tree.k_ary(2, 2)).start(tiny, Sampling())
    drafting.read([1, 2], logits_for({1: [2, 3], 2: [4, 5]}, [1, 2]))
    drafting.commit([], [1])
    assert list(drafting.grow(9, None).tokens) == [1, 2, 3, 4, 5, 0, 1]
    assert list(drafting.grow(1, None).tokens) == [1, 2, 3]
    drafting.commit([1], [2, 7], logits_for({1: [6, 2], 2: [8, 9], 3: [7, 6]}, [1, 2, 3]))
    drafting.commit([], [1])
    assert list(drafting.grow(9, None).tokens) == [1, 6, 2, 0, 1, 8, 9]


def test_settings_that_cannot_be_are_refused(tiny: Pair) -> None:
    refuses("lengths must name at least one n-gram length, each at least 1, got", PromptLookup, ())
    refuses("max_tokens must be at least 1, got 0", PromptLookup, max_tokens=0)
    refuses("lengths must name", Goose, lengths=(3, 0))
    refuses("budget and top_k must be at least 1", Goose, budget=0)
    with pytest.raises(ValueError, match="301 children at a node, the vocabulary has 300 tokens"):
        Decoder(tiny, TokenRecycling(Tree.k_ary(301, 1))).generate([1], 3)
