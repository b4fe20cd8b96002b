"""Steps that get batches of contexts: rows that depend on each other, stop tokens, rows and ids read as documented.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import binom
from typer.testing import CliRunner

from spectheory.certify import Verdict, certify_step, rows_of_indices, spread_ids
from spectheory.certify.betting import Joint, Pairs
from spectheory.certify.rows import padded
from spectheory.cli import app
from tests.certify.samplers import LARGE, MATRIX, WORLD, V, in_batches, plain
from tests.helpers import refuses

N = 16
OWNERS = {
    "all": np.zeros(N, int), "neighbours": np.arange(N) // 2 * 2, "halves": np.arange(N) % 8,
    "mirrored": np.minimum(np.arange(N), np.arange(N)[::-1]), "two far apart": np.minimum(np.arange(N), 14) % 14,
    "random pairs": np.array([0, 0, 2, 3, 4, 2, 6, 3, 4, 9, 6, 11, 12, 9, 11, 12]),
}  # fmt: skip
"""For each row, the one whose random numbers it has."""


def shared(contexts: np.ndarray, rng: np.random.Generator, *, owner: np.ndarray, calls: float = 1) -> np.ndarray:
    """As `plain`, but rows share random numbers, in this share of the calls."""
    edges, own = np.cumsum(MATRIX, axis=1), owner if rng.random() < calls else np.arange(N)
    coins = rng.random((N, 2))[own[: len(contexts)]]
    first = (coins[:, :1] >= edges[contexts[:, -1]]).sum(axis=1)
    return np.stack([first, (coins[:, 1:] >= edges[first]).sum(axis=1)], axis=1)


@pytest.mark.parametrize("rows", OWNERS)
def test_noise_shared_between_any_two_rows_is_found_and_named(rows: str) -> None:
    """LOSSY at level 1e-6, though each row alone is right."""
    found = in_batches(partial(shared, owner=OWNERS[rows]), 8_000, contexts=((), (2,)), batch=N)
    assert found.verdict is Verdict.LOSSY
    assert "rows of a batch depend on each other" in found.dependence


def test_noise_shared_in_one_of_ten_calls_does_not_pass() -> None:
    """Two rows are then off by 0.067 in the squares of `Pairs`, and each alone is right; LOSSY at level 0.01."""
    step = partial(shared, owner=OWNERS["two far apart"], calls=0.1)
    assert in_batches(step, 300_000, batch=N, alpha=0.01).verdict is Verdict.LOSSY


def test_rows_pass_alone_and_in_a_batch_if_every_two_are_compared_often_enough() -> None:
    """Right steps at level 0.01, and biased ones that are not called dependent."""
    biased = in_batches(lambda contexts, rng: plain(0 * contexts, rng), 3_000, contexts=((2,),))
    assert biased.verdict is Verdict.LOSSY
    assert not biased.dependence
    alone = in_batches(lambda one, rng: plain(np.array([one or (-1,)]), rng)[0], 8_000, batch=None, alpha=0.01)
    few, many = (in_batches(plain, most, batch=4, alpha=0.01, tv=0.1) for most in (3_000, 8_000))
    assert [found.verdict for found in (alone, few, many)] == [Verdict.WITHIN, Verdict.UNDECIDED, Verdict.WITHIN]
    assert few.tv_bound < few.tv < few.tv_pairs
    assert 0 == alone.tv_pairs < many.tv_pairs < 0.1


TOKEN = some.integers(0, 2)


@given(some.lists(some.one_of(some.tuples(*[TOKEN] * 4), TOKEN.map(lambda one: (one,) * 4)), min_size=1, max_size=60))
@settings(max_examples=30)
@pytest.mark.parametrize("length", [1, 2])
def test_a_bet_on_pairs_is_fair(length: int, past: list[tuple[int, ...]]) -> None:
    """Over all texts of the next call, of four rows or of two with two tokens, the expected wealth is the wealth."""
    given = [np.full((3**m, 3), 1 / 3) for m in range(length)]
    pairs = Pairs([Joint(given)], 4 // length, np.random.default_rng(0))

    def wealth(*calls: Sequence[int]) -> float:
        one = deepcopy(pairs)
        for call in calls:
            one.add(np.zeros(4 // length, int), np.reshape(call, (-1, length)))
        one.settle()
        return math.exp(one.log_wealth())

    for text in past:
        pairs.add(np.zeros(4 // length, int), np.reshape(text, (-1, length)))
    pairs.settle()
    assert np.mean([wealth(text) for text in product(range(3), repeat=4)]) == pytest.approx(wealth())


@pytest.mark.parametrize("tests", [16, pytest.param(400, marks=pytest.mark.deep)])
def test_batches_keep_the_level(tests: int) -> None:
    """Right steps at alpha = 0.05: more alarms than the bound have probability at most 1e-4 (Binomial)."""
    found = [
        in_batches(plain, 1_000, alpha=0.05, tv=1e-3, batch=16 + seed, seed=seed, contexts=((), (2,)))
        for seed in range(tests)
    ]
    alarms = sum(one.verdict is Verdict.LOSSY for one in found)
    print("alarms", alarms, "of", tests)
    assert alarms <= binom.ppf(1 - 1e-4, tests, 0.05)


def test_a_batch_gives_the_runs_of_single_contexts_to_each_context() -> None:
    seen: list[np.ndarray] = []

    def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(contexts)
        rows = plain(contexts, rng)
        return np.where([[False, True]] * (rng.random((len(rows), 1)) < 0.5), -1, rows)

    found = in_batches(step, 500, cycles=2, length=3, contexts=((), (2,), (1, 3)), batch=50)
    assert set(found.counts.values()) == {found.samples // 3}
    assert max(len(contexts) for contexts in seen) == 50
    (first, *_), widths = seen, {contexts.shape[1] for contexts in seen}
    assert {tuple(row) for row in first.tolist()} == {(-1, -1), (-1, 2), (1, 3)}
    assert widths == {2, 4}
    assert {tuple(row)[:2] for contexts in seen for row in contexts.tolist() if len(row) == 4} >= {(-1, -1), (1, 3)}


def test_rows_are_made_of_indices() -> None:
    flat, own = np.array([5, 6, 7, 8]), np.array([[5, 6], [7, 8]])
    assert rows_of_indices(flat, [[0, 1], [2, -1]]).tolist() == [[5, 6], [7, -1]]
    assert rows_of_indices(own, [[0, 1], [1, -1]]).tolist() == [[5, 6], [8, -1]]
    assert padded([[1, 2], [3]]).tolist() == [[1, 2], [3, -1]]


@pytest.mark.parametrize(
    ("rows", "verdict", "said"),
    [
        ([[1], [0, 4]], Verdict.LOSSY, "token 4, which does not exist"),
        (np.array([[1, -1], [-1, 2]]), Verdict.LOSSY, "row 1 has the placeholder -1 before the token 2"),
        (np.array([[1, -1], [-1, -1]]), Verdict.UNDECIDED, "row 1 emitted no token"),
        ([[1]], Verdict.UNDECIDED, "one row for each of 2 contexts, got 1"),
        (None, Verdict.UNDECIDED, "the step must return rows of tokens"),
    ],
)
def test_rows_that_cannot_be_read_are_named(rows: Any, verdict: Verdict, said: str) -> None:
    found = certify_step(lambda *_: rows, WORLD.p, vocab_size=V, batch=2, max_samples=2)
    assert found.verdict is verdict
    assert said in found.failure


def test_ids_are_translated_both_ways() -> None:
    ids = spread_ids(V, LARGE)
    assert ids == (0, 3_000, 6_000, 9_000)

    def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        tokens = np.where(contexts < 0, -1, contexts // 3_000)
        return plain(tokens, rng) * 3_000

    found = in_batches(step, 20_000, ids=ids, contexts=((), (1, 2)), batch=4, cycles=2, length=3, alpha=0.01, tv=0.08)
    assert found.verdict is Verdict.WITHIN
    wrong = in_batches(lambda *_: np.full((64, 1), 5), 64, ids=ids)
    assert "emitted id 5, to which the target gives probability 0" in wrong.failure
    alone = certify_step(lambda c, rng: [7_000], WORLD.p, vocab_size=V, ids=ids)
    assert "emitted id 7000" in alone.failure


def test_bad_input_is_named() -> None:
    refuses("batch must be between 1 and 1,024, got 0", in_batches, plain, 100, batch=0)
    refuses("ids must be 4 different ids", in_batches, plain, 100, ids=(1, 2, 3, 3))


def test_the_command_takes_batches() -> None:
    """LOSSY at level 0.01."""
    result = CliRunner().invoke(app, ["certify", "tests.certify.samplers:PLAYS", "--tv", "0.2", "--alpha", "0.01"])
    assert result.exit_code == 1, result.output
    assert "LOSSY" in result.output
