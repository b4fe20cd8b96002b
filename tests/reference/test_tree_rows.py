"""Masks and positions against the tree's own; the cache of rows against tensors that are put together anew."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference.row_cache import RowCache
from reference.tree_rows import TreeRows
from spectheory import Tree
from tests.reference.test_decode import trees

CPU = torch.device("cpu")
LAYERS, HEADS = 3, 2


@given(st.lists(trees(40), min_size=1, max_size=3), st.integers(1, 1500))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@example(several=[Tree.chain(3)], committed=257)
@example(several=[Tree.chain(3)], committed=513)
@settings(max_examples=25, derandomize=True)
def test_rows_are_those_of_the_ancestor_mask(dtype: torch.dtype, several: list[Tree], committed: int) -> None:
    """One tree after the other in the same rows, each in two portions, beyond the first room in both directions."""
    rows, lowest = TreeRows(dtype, CPU), torch.finfo(dtype).min
    for tree in several:
        parents, nodes = tree.parent.tolist(), tree.budget + 1
        half = nodes // 2
        rows.add(parents[:half])
        rows.add(parents[half:], half)
        attend = torch.as_tensor(tree.ancestor_mask())
        for first, end in ((0, half), (half, nodes)):
            positions, mask = rows.after(committed, first, end)
            assert positions.tolist() == [[committed + int(depth) for depth in tree.depth[first:end]]]
            assert mask.shape == (1, 1, end - first, committed + end)
            assert mask.dtype == dtype
            assert (mask[..., :committed] == 0).all()
            assert ((mask[0, 0, :, committed:] == 0) == attend[first:end, :end]).all()
            assert ((mask == 0) | (mask == lowest)).all()


@pytest.mark.parametrize("sizes", [(4, 4), (4, 6)], ids=["alike", "apart"])
def test_rows_are_appended_kept_and_dropped(sizes: tuple[int, int]) -> None:
    """Also beyond the first allocation, with keys and values of equal and of different size."""
    generator = torch.Generator().manual_seed(0)
    cache = RowCache(LAYERS)
    expected = [[torch.empty(1, HEADS, 0, size) for size in sizes] for _ in range(LAYERS)]
    for new, kept in [(200, list(range(200))), (5, [0, 3, 4]), (100, [1, 7, 99]), (3, []), (1, [0])]:
        committed = cache.get_seq_length()
        for layer in range(LAYERS):
            keys, values = (torch.randn(1, HEADS, new, size, generator=generator) for size in sizes)
            expected[layer] = [torch.cat(pair, 2) for pair in zip(expected[layer], (keys, values), strict=True)]
            for found, right in zip(cache.update(keys, values, layer), expected[layer], strict=True):
                torch.testing.assert_close(found, right, rtol=0, atol=0)
        cache.keep(committed, kept)
        rows = [*range(committed), *(committed + row for row in kept)]
        expected = [[states[:, :, rows] for states in layer] for layer in expected]
        assert cache.get_seq_length() == len(rows)
