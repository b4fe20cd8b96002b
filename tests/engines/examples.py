"""Plans to export, and what tests read out of exports and statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import BenchmarkRuns, ChainRange, Conditions, Statistics, read_runs

RANGES = [ChainRange(1, 16, 5), ChainRange(17, 64, 3), ChainRange(65, 512, 0)]
TREE = st.Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


@hs.composite
def schedules(draw: hs.DrawFn, *, longest_first: bool = False) -> list[ChainRange]:
    """At least two ranges that cover the batch sizes from 1 on, the lengths at most 32 and not all 0."""
    widths = draw(hs.lists(hs.integers(1, 40), min_size=2, max_size=6))
    lengths = draw(hs.lists(hs.integers(0, 32), min_size=len(widths), max_size=len(widths)).filter(any))
    if longest_first:
        lengths[0] = max(lengths)
    ends = np.cumsum(widths).tolist()
    return [ChainRange(end - width + 1, end, k) for end, width, k in zip(ends, widths, lengths, strict=True)]


def flag(export: Any, name: str) -> str:
    return export.args[export.args.index(name) + 1]


def acceptance(statistics: Statistics) -> st.Acceptance:
    assert statistics.acceptance is not None
    return statistics.acceptance


def read(folder: Path, content: Any, **conditions: Any) -> BenchmarkRuns:
    """What is read from a benchmark's file with this content: text, one JSON object, or JSON Lines for several."""
    lines = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
    file = folder / "bench"
    file.write_text(lines, encoding="utf-8")
    return read_runs(file, Conditions(**conditions))


def require_refused(folder: Path, content: Any, message: str, **conditions: Any) -> None:
    """Check that the file is refused with a message that names it."""
    with pytest.raises(st.InputError, match=message) as caught:
        read(folder, content, **conditions)
    assert str(caught.value).startswith(str(folder / "bench"))
