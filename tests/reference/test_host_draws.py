"""The compiled loops over a vocabulary, against sums and sorts, and the random numbers that they are given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from reference.host_arrays import LANES, draw_on_host, largest_on_host
from reference.random_streams import BLOCK, Uniforms

GRID = 20_000
WEIGHTS = st.sampled_from([0.0, 0.0, 1.0, 2.0, 7.0, 1e-3])


def drawn(laws: np.ndarray, uniforms: np.ndarray, k: int, apart: bool) -> np.ndarray:
    tokens = np.empty((len(laws), k), np.int64)
    draw_on_host(laws, uniforms, apart, tokens)
    return tokens


def laws(size: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(WEIGHTS, min_size=size, max_size=size).filter(any).map(lambda law: np.array(law, np.float32))


@given(st.integers(1, 3 * LANES + 1).flatmap(laws))
@settings(max_examples=60, derandomize=True)
def test_each_token_is_drawn_by_an_interval_as_long_as_it_is_probable(law: np.ndarray) -> None:
    """Of evenly spaced uniform numbers each token gets its share, up to two at the ends of its interval."""
    uniforms = (np.arange(GRID) + 0.5) / GRID
    rows = np.broadcast_to(law, (GRID, len(law)))
    found = drawn(rows, uniforms, 1, False)
    shares = np.bincount(found[:, 0], minlength=len(law)) - GRID * law / law.sum(dtype=np.float64)
    assert np.abs(shares).max() <= 1.001


@given(st.integers(2, 3 * LANES + 1).flatmap(laws), st.integers(0, 99))
@settings(max_examples=60, derandomize=True)
def test_a_drawn_token_is_gone_and_the_others_keep_their_shares(law: np.ndarray, first: int) -> None:
    uniforms = np.column_stack([np.full(GRID, (first + 0.5) / 100), (np.arange(GRID) + 0.5) / GRID])
    found = drawn(np.broadcast_to(law, (GRID, len(law))), uniforms.ravel(), 2, True)
    assert len(set(found[:, 0].tolist())) == 1
    left = law.copy()
    left[found[0, 0]] = 0
    if not left.any():
        assert (found[:, 1] == -1).all()
        return
    shares = np.bincount(found[:, 1], minlength=len(law)) - GRID * left / left.sum(dtype=np.float64)
    assert np.abs(shares).max() <= 1.001


@pytest.mark.parametrize("apart", [True, False])
def test_no_uniform_draws_what_cannot_be_drawn(apart: bool) -> None:
    """The least and the largest, on distributions whose sums round; rows without a token give -1."""
    rng = np.random.default_rng(0)
    for size in (1, 31, 32, 33, 300):
        rows = (rng.random((50, size)) ** 20 * (rng.random((50, size)) < 0.3)).astype(np.float32)
        for uniform in (0.0, 1 - 2.0**-53):
            found = drawn(rows, np.full(100, uniform), 2, apart)
            for law, tokens in zip(rows, found.tolist(), strict=True):
                possible = int((law > 0).sum())
                wanted = min(2, possible) if apart else 2 * (possible > 0)
                assert sum(token >= 0 for token in tokens) == wanted
                assert all(law[token] > 0 for token in tokens if token >= 0)
                assert tokens == sorted(tokens, key=lambda token: token < 0)
                assert not apart or tokens[0] != tokens[1] or tokens[0] < 0


@given(
    st.integers(1, 80).flatmap(lambda size: st.lists(st.integers(-3, 3), min_size=size, max_size=size)),
    st.integers(1, 80),
)
@settings(max_examples=200, derandomize=True)
def test_the_largest_are_those_of_a_stable_sort(values: list[int], k: int) -> None:
    row, k = np.array([values, values[::-1]], np.float32), min(k, len(values))
    tokens, found = largest_on_host(row, k)
    right = np.argsort(-row, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(tokens, right)
    np.testing.assert_array_equal(found, np.take_along_axis(row, right, 1))


def test_uniform_numbers_are_those_of_the_generator_whatever_the_portions() -> None:
    """Where a block is at its end, the next begins with numbers that no one has had."""
    taken = Uniforms(Generator().manual_seed(5))
    portions = [taken.take(count) for count in (1, 7, 300, 500, 216)]
    whole = torch.rand(BLOCK, generator=Generator().manual_seed(5), dtype=torch.float64).numpy()
    np.testing.assert_array_equal(np.concatenate(portions), whole)
    later = [taken.take(BLOCK - 1), taken.take(2), taken.take(3 * BLOCK)]
    assert [len(portion) for portion in later] == [BLOCK - 1, 2, 3 * BLOCK]
    together = np.concatenate([whole, *later])
    assert len(set(together.tolist())) == len(together)
