"""What tests of many rooms share: refused input, values that must be there, a toy package, a walk through a text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from jaxtyping import Int

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree

T = TypeVar("T")
METADATA = "Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n"


def known(value: T | None) -> T:
    """The value, after a check that it is not None."""
    assert value is not None
    return value


def refuses(words: str, call: Callable[..., object], /, *args: Any, **keywords: Any) -> None:
    """Check that a call with these arguments raises InputError, with words that match this regular expression."""
    with pytest.raises(InputError, match=words):
        call(*args, **keywords)


def install_toy(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, **registered: str) -> None:
    """Put a distribution with a module `toy_package` on the path of imports, as an installer would.

    `registered` maps a group to the name of an object of the module: `solvers="ToySolver"` registers it in the group
    `spectheory.solvers` under the name toy.
    """
    (folder / "toy_package.py").write_text(source, encoding="utf-8")
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA, encoding="utf-8")
    groups = [f"[spectheory.{group}]\ntoy = toy_package:{path}\n" for group, path in registered.items()]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "toy_package", raising=False)


def cycle_starts(ranks: Int[np.ndarray, "*depths n"], tree: Tree) -> Int[np.ndarray, " cycles"]:
    """The positions of a text at which draft-and-verify cycles with `tree` start, from position 1.

    No cycle emits the token at position 0: the target emits it when it reads the prompt.

    Args:
        ranks: rank of each token among the draft's candidates, -1 if it is not among them; see `Acceptance.from_ranks`.
        tree: the tree that every cycle drafts.
    """
    rows, starts, position = np.atleast_2d(ranks), [], 1
    while position < rows.shape[1]:
        starts.append(position)
        node, depth = 0, 0
        while position < rows.shape[1]:
            rank, children = rows[min(depth, len(rows) - 1), position], tree.child_lists[node]
            if not 0 <= rank < len(children):
                break
            node, depth, position = children[rank], depth + 1, position + 1
        position += 1
    return np.array(starts, np.int64)
