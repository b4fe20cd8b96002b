"""The cache of rows against tensors that are put together anew each time."""

from __future__ import annotations

import pytest
import torch

from reference.row_cache import RowCache

LAYERS, HEADS = 3, 2


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
