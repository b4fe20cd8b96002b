"""Medusa."""

from __future__ import annotations

import pytest

from spectheory.engines import Envelope, medusa
from tests.engines.examples import TREE
from tests.refusals import refuses


def test_golden_medusa() -> None:
    assert medusa.choices(TREE) == [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]
    made = medusa.export(TREE, version="1.0", heads=3)
    assert "[0, 0, 0]]" in made.files["choices.py"]
    assert medusa.export(TREE, version="1.0") == made
    assert made.notes == ("for models with medusa_num_heads of at least 3",)


def test_medusa_refuses_what_it_cannot_run() -> None:
    refuses("tree must be at most heads=2 deep for Medusa, got depth 3", medusa.export, TREE, version="1.0", heads=2)
    with pytest.raises(ValueError, match="tree must be a Tree, got Envelope: Medusa runs static trees only"):
        medusa.export(Envelope(3, 2, 4), version="1.0")  # pyrefly: ignore[bad-argument-type]
