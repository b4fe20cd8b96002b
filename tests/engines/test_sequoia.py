"""Sequoia."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from spectheory.engines import sequoia
from tests.engines.examples import acceptance
from tests.refusals import refuses


def test_sequoia_vectors(tmp_path: Path) -> None:
    measured = [0.0, 0.6, 0.2, 0.05, 0.15]
    for vector in (measured, measured[:-1], measured[1:], measured[1:-1], np.array(measured, np.float32)):
        assert acceptance(sequoia.from_vector(vector)).table[0].tolist() == pytest.approx([0.6, 0.2, 0.05], abs=1e-6)
    assert "the last entry, 0.15, is how often no child was accepted" in sequoia.from_vector(measured).assumed[-1]
    assert sequoia.from_vector([1.0]).acceptance is not None
    np.save(tmp_path / "v.npy", np.array(measured))
    (tmp_path / "v.csv").write_text("0,0.6, 0.2\n0.05,0.15\n")
    for name in ("v.npy", "v.csv"):
        assert acceptance(sequoia.from_file(tmp_path / name)).ranks == 3
    assert acceptance(sequoia.from_text("0 0.6, 0.2")).table.tolist() == [[0.6, 0.2]]
    (tmp_path / "bad.txt").write_text("0.6 half")
    refuses(r"table\[0\] must sum to at most 1 .*, got 1.2", sequoia.from_vector, [0.6, 0.6])
    refuses("vector must be a row of rates, got shape", sequoia.from_vector, np.array([[0.6]]))
    refuses(
        "end in .npy, .csv or .txt, got .*.pt, which only torch reads: .*numpy.save",
        sequoia.from_file,
        "a/acceptance-rate-vector.pt",
    )
    refuses("bad.txt must hold only numbers, which are rates: .*half", sequoia.from_file, tmp_path / "bad.txt")
    refuses("text must hold only numbers, which are rates: .* sum to at most 1", sequoia.from_text, "1.5")
    refuses("path must end in .npy, .csv or .txt, got v.json", sequoia.from_file, "v.json")


@given(hs.lists(hs.floats(0.01, 1), min_size=2, max_size=8))
def test_a_vector_as_sequoia_saves_it_gives_back_its_rates(weights: list[float]) -> None:
    shares = np.array(weights) / sum(weights)
    found = acceptance(sequoia.from_vector(np.concatenate([[0], shares]).astype(np.float32)))
    assert found.table[0] == pytest.approx(shares[:-1], abs=1e-6)
