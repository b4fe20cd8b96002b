"""Tests of what the search imports, which arguments it refuses, and with which messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from spectheory.core import machine
from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import LARGEST_TREE
from spectheory.search import best_tree, best_trees, yield_table
from tests.helpers import refuses


def test_neither_the_import_nor_a_small_search_imports_numba() -> None:
    code = """
import sys
import spectheory.search as search
from spectheory.core.acceptance import Acceptance
search.best_trees(Acceptance.by_rank([0.6, 0.2]), 256)
search.yield_table(Acceptance.by_rank([0.6, 0.2]), 256, max_depth=9)
assert not {"numba", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bad_arguments_are_named_with_their_repair() -> None:
    acceptance = Acceptance.by_rank([0.5, 0.2])
    refuses(r"budget must be between 1 and .*, got 0: for no speculation use Tree.chain\(0\)", best_tree, acceptance, 0)
    refuses(r"budget must be a whole number, got 2\.5", best_trees, acceptance, 2.5)
    refuses("budget must be a whole number, got True", yield_table, acceptance, True, max_depth=2)
    refuses(r"max_depth must be at least 1, got 0: for no speculation use", best_tree, acceptance, 5, max_depth=0)
    refuses("max_depth must be at least 0, got -1", yield_table, acceptance, 5, max_depth=-1)
    refuses("max_depth must be a whole number, got None", yield_table, acceptance, 5, max_depth=None)
    refuses(f"budget must be between 1 and {LARGEST_TREE - 1:,}, got", best_tree, acceptance, LARGEST_TREE)
    refuses("max_fanout must be at least 1, got 0: None sets no limit", best_tree, acceptance, 5, max_fanout=0)
    refuses(r"acceptance must be Acceptance, got \[0\.5\]", best_tree, [0.5], 5)
    assert best_tree(acceptance, np.int64(2)) == best_tree(acceptance, 2)  # pyrefly: ignore[bad-argument-type]


falling, rising, late = Acceptance.by_rank([0.5, 0.2]), Acceptance.by_rank([0.2, 0.5]), Acceptance.by_rank([0.0, 1.0])


@pytest.mark.parametrize(
    ("search", "too_large"),
    [
        (lambda n: best_tree(falling, n), 25_000),
        (lambda n: best_tree(rising, n), 25_000),
        (lambda n: best_trees(falling, n), 25_000),
        (lambda n: best_trees(rising, n), 25_000),
        (lambda n: yield_table(falling, n, max_depth=2), 25_000),
        (lambda n: yield_table(rising, n, max_depth=2), 25_000),
        (lambda n: best_tree(late, n, max_depth=38), 10_000),  # the tree without a limit fits, but is too deep
    ],
)
def test_what_does_not_fit_in_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, search: Callable[[int], object], too_large: int
) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda: 2_000_000)
    with pytest.raises(ValueError, match=r"needs about [\d.]+ GB for this search, [\d.]+ GB are available") as refusal:
        search(too_large)
    fits = int(str(refusal.value).split("up to about ")[1].split(" fits")[0].replace(",", ""))
    search(fits)
    refuses("fits", search, fits + 1)
