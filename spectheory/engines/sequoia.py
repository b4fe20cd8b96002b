"""Sequoia: its acceptance vectors, which are the rates by rank that its tests/test_accept.py measures.

Commit a236936, read 2026-11-21. Its vector for w children has w + 2 entries that sum to 1: a 0, so that entry r is the
r-th child counted from 1; the rates of the children in the order in which they are tried; and the share of nodes at
which no child was accepted. Its tree_search.py reads the last entry as one more child, which overrates wide trees; here
it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.engines.engine import Engine, Reader
from spectheory.engines.statistics import Statistics

SUM_IS_ONE = 1e-4
"""Tolerance for the sum of a float32 vector that should sum to 1."""


def from_vector(vector: Sequence[float] | np.ndarray) -> Statistics:
    """Statistics of a Sequoia vector: the acceptance rate of each child, given that its parent is accepted.

    Two entries are not rates. A first entry of 0 is a placeholder and is dropped. If several entries sum to 1, the last
    entry is the share of nodes without an accepted child and is dropped.
    """
    rates = np.asarray(vector, dtype=np.float64)
    assumed = [
        "the rates are the same at every depth, as Sequoia assumes",
        "the vector has no counts, so the rates have no intervals",
    ]
    whole = abs(float(rates.sum()) - 1) <= SUM_IS_ONE
    if rates.size > 1 and rates[0] == 0:
        rates = rates[1:]
        assumed.append("the leading 0 is Sequoia's placeholder: rank 0 is the entry after it")
    if rates.size > 1 and whole:
        assumed.append(f"the last entry, {rates[-1]:.4g}, is how often no child was accepted: the entries sum to 1")
        rates = rates[:-1]
    return Statistics(Acceptance.by_rank(rates), None, assumed=tuple(assumed))


def from_text(text: str, min_trials: int = 100) -> Statistics:
    """`from_vector` for a text of numbers, separated by commas or blanks."""
    del min_trials
    try:
        return from_vector([float(word) for word in text.replace(",", " ").split()])
    except ValueError as error:
        raise InputError(f"the vector must hold only numbers, which are rates: {error}") from None


def text_of(path: Path) -> str:
    """The numbers in a .npy, .csv or .txt file as text. A .pt file of PyTorch cannot be read without torch."""
    if path.suffix in (".csv", ".txt"):
        return read_text(path)
    if path.suffix != ".npy":
        raise InputError(
            f"path must end in .npy, .csv or .txt, got {path}: a .pt file is converted by import numpy, torch; "
            "numpy.save('vector.npy', torch.load('vector.pt').numpy())"
        )
    try:
        (vector,) = np.atleast_2d(np.load(path, allow_pickle=False))
    except ValueError as error:
        raise InputError(f"{path} must hold a row of rates as numpy.save writes it: {error}") from None
    return " ".join(map(str, vector.tolist()))


ENGINE = Engine(name="sequoia", title="Sequoia", readers={"sequoia-vector": Reader(from_text)}, text_of=text_of)
