"""Lookahead decoding: what it drafts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reference.drafters import Lookahead
from reference.drafters.lookahead import LookaheadDrafting
from reference.models import Pair
from reference.sampling import Sampling
from spectheory import Draft
from tests.refusals import refuses


def tokens_only(tokens: int) -> Pair:
    """As much of a pair as drafters without a model look at."""
    return SimpleNamespace(vocab_size=tokens, device=torch.device("cpu"))  # type: ignore[return-value]


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


def test_settings_that_cannot_be_are_refused() -> None:
    refuses("ngram at least 2, got window=5, ngram=1, guesses=5", Lookahead, ngram=1)
