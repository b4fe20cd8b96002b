"""Lookahead decoding and the datastore drafter: what they draft, and that it never changes a text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference.decode import Decoder
from reference.drafters import Datastore, Lookahead, SuffixArray
from reference.drafters.datastore import END, SORTED_BY, frequent
from reference.drafters.lookahead import LookaheadDrafting
from reference.models import Pair
from reference.sampling import Sampling
from spectheory import Draft
from tests.reference.sampled_text import generated
from tests.refusals import refuses

RANDOM = np.random.default_rng(0).integers(300, size=(20, 400))
CORPUS = SuffixArray.build(RANDOM)
LOOKAHEADS = [Lookahead(), Lookahead(4, 5, 3), Lookahead(1, 2, 1)]
DATASTORES = [Datastore(CORPUS, shortest=1), Datastore(CORPUS, 12, 3, 4, 1)]

corpora = st.lists(st.lists(st.integers(0, 2), max_size=40), min_size=1, max_size=5)
ngrams = st.lists(st.integers(0, 3), min_size=1, max_size=6)


def occurrences(corpus: SuffixArray, ngram: list[int]) -> list[int]:
    """By a scan of the corpus."""
    text = corpus.tokens.tolist()
    return [at for at in range(len(text)) if text[at : at + len(ngram)] == ngram]


@given(corpora, ngrams)
@example([[1] * 200, [1] * 50], [1, 1, 1])
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_search_finds_what_a_scan_finds(texts: list[list[int]], ngram: list[int]) -> None:
    corpus = SuffixArray.build(texts)
    assert sorted(corpus.order[list(corpus.find(ngram))].tolist()) == occurrences(corpus, ngram)
    for least in (1, 2, 3):
        present = [n for n in range(least, min(4, len(ngram)) + 1) if occurrences(corpus, ngram[-n:])]
        length, found = corpus.longest(ngram, least, 4)
        assert length == max(present, default=0)
        assert sorted(corpus.order[list(found)].tolist()) == (occurrences(corpus, ngram[-length:]) if length else [])


@given(corpora)
@example([[0] * 300])
@settings(max_examples=100, deadline=None, derandomize=True)
def test_suffixes_are_sorted(texts: list[list[int]]) -> None:
    corpus = SuffixArray.build(texts)
    text = corpus.tokens.tolist()
    assert text == [token for row in texts for token in (*row, END)]
    assert corpus.order.tolist() == sorted(range(len(text)), key=lambda at: (text[at : at + SORTED_BY], at))


@given(st.lists(st.lists(st.integers(END, 3), min_size=3, max_size=3), max_size=30), st.integers(1, 40))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_trie_has_the_most_frequent_beginnings(rows: list[list[int]], budget: int) -> None:
    rows = sorted(rows)
    count = Counter(tuple(row[:n]) for row in rows for n in (1, 2, 3) if END not in row[:n])

    wanted = sorted(count, key=lambda path: (-count[path], len(path), path))[:budget]
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(*frequent(np.array(rows, dtype=np.int32).reshape(-1, 3), budget), strict=True):
        paths.append((*paths[parent], token))
    assert paths == [(), *wanted]


def test_continuations_share_nodes_and_are_cut_to_the_room() -> None:
    corpus = SuffixArray.build([[7, 8, token, 9] for token in [1] * 6 + [2] * 3 + [3]])
    drafting = Datastore(corpus, depth=2).start(tokens_only(10), Sampling())
    drafting.read([7], torch.empty(0))
    drafting.commit([], [8])
    draft = drafting.grow(5, None)
    assert draft.tokens.tolist() == [8, 1, 9, 2, 9, 3, 9]
    assert draft.tree.parent.tolist() == [-1, 0, 1, 0, 3, 0, 5]
    assert drafting.grow(1, None).tokens.tolist() == [8, 1, 2, 3]


def tokens_only(tokens: int) -> Pair:
    """As much of a pair as drafters without a model look at."""
    return SimpleNamespace(vocab_size=tokens, device=torch.device("cpu"))  # type: ignore[return-value]


def test_a_text_that_is_in_the_datastore_is_copied_from_there(tiny: Pair) -> None:
    prompt = list(range(20, 50))
    wanted = generated(tiny, prompt, 60)
    text = Decoder(tiny, Datastore(SuffixArray.build([*RANDOM, prompt + wanted]), depth=9)).generate(prompt, 60)
    assert text.tokens == wanted
    assert max(text.accepted) == 9
    assert len(text.accepted) <= 12


def test_a_text_that_runs_in_a_circle_is_looked_ahead() -> None:
    drafting = Lookahead(4, 4, 3).start(tokens_only(20), Sampling())
    drafting.read([1], torch.empty(0))
    drafting.commit([], [2])
    accepted = []
    for _ in range(40):
        path, emitted, logits = followed(drafting.grow(100, None), lambda token: (token + 1) % 11)
        drafting.commit(path, emitted, logits)
        accepted.append(len(path))
    assert min(accepted[15:]) >= 3


def followed(draft: Draft, after: Callable[[int], int]) -> tuple[list[int], list[int], torch.Tensor]:
    """Greedy verification by a target for which `after(token)` follows a token: (path, emitted, logits)."""
    best = [after(token) for token in draft.tokens.tolist()]
    path, node = [], 0
    while child := next((c for c in draft.draws[node] if draft.tokens[c] == best[node]), 0):
        path.append(child)
        node = child
    emitted = [int(draft.tokens[child]) for child in path] + [best[node]]
    return path, emitted, torch.nn.functional.one_hot(torch.tensor(best), 1000).float()


@pytest.mark.parametrize(("window", "n"), [(5, 3), (4, 5), (3, 2)])
def test_the_window_attends_as_in_the_paper(window: int, n: int) -> None:
    """Row 0 is causal; a later token sees row 0 up to its column, then its own column. All tokens here are distinct."""
    fresh = itertools.count(100)
    drafting = Lookahead(window, n, 1).start(tokens_only(1000), Sampling())
    assert isinstance(drafting, LookaheadDrafting)
    drafting.read(list(range(50)), torch.empty(0))
    drafting.commit([], [50])
    for _ in range(n - 2):
        count, filling = drafting.grow(100, None).tree.budget + 1, drafting.rows
        drafting.commit([], [next(fresh)], torch.eye(1000)[[next(fresh) for _ in range(count)]])
        assert drafting.rows[:-1] == [row[1:] for row in filling]  # the root moved on by one, the tokens did not
    draft, before = drafting.grow(100, None), drafting.rows
    drafting.commit([], [next(fresh)], torch.eye(1000)[[next(fresh) for _ in draft.tokens]])
    assert [len(row) for row in before] == [window] * (n - 1)
    node = {token: u for u, token in enumerate(draft.tokens.tolist())}
    sees = draft.tree.ancestor_mask()
    for row, column in itertools.product(range(n - 1), range(window)):
        wanted = [*before[0][: column + 1], *(before[r][column] for r in range(1, row + 1))]
        at = node[before[row][column]]
        assert set(np.flatnonzero(sees[at])) == {node[token] for token in wanted}
        assert draft.tree.depth[at] == column + row
    for i, (first, *rest) in enumerate(zip(*before, strict=True)):
        (gram,) = drafting.pool[first]
        assert gram[:-1] == tuple(rest)
        assert drafting.rows[-1][i] == gram[-1]
    assert [row[1:] for row in drafting.rows[:-1]] == [row[1:] for row in before[1:]]


def test_the_pool_keeps_the_latest_ngrams() -> None:
    drafting = Lookahead(3, 3, 2).start(tokens_only(20), Sampling())
    assert isinstance(drafting, LookaheadDrafting)
    drafting.read([1], torch.empty(0))
    for gram in ((1, 2, 3), (1, 4, 5), (1, 2, 3), (1, 6, 7)):
        drafting._remember(*gram)
    drafting.commit([], [1])
    assert drafting.grow(9, None).tokens.tolist()[:5] == [1, 6, 7, 2, 3]
    assert drafting.grow(1, None).tokens.tolist()[:3] == [1, 6, 2]


def test_settings_that_cannot_be_are_refused(tiny: Pair) -> None:
    refuses("ngram at least 2, got window=5, ngram=1, guesses=5", Lookahead, ngram=1)
    with pytest.raises(
        ValueError, match="longest must be at least shortest, and longest . depth at most 32, got longest = 30"
    ):
        Datastore(CORPUS, longest=30)
    refuses("texts must be at least one row of token ids", SuffixArray.build, [])
    with pytest.raises(
        ValueError, match="corpus has token 300, the models have 300 tokens: build it with their tokenizer"
    ):
        Datastore(SuffixArray.build([[300]])).start(tiny, Sampling())
