"""The EAGLE repository."""

from __future__ import annotations

from typing import Any

import pytest

import spectheory as st
from spectheory.engines import Envelope, eagle
from tests.engines.examples import TREE
from tests.refusals import refuses


def test_golden_eagle() -> None:
    assert eagle.export(TREE, version="1").files["choices.py"] == (
        "spectheory_6 = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]\n"
    )


@pytest.mark.parametrize(
    ("plan", "version", "message"),
    [
        (TREE, "3", "plan must be an Envelope for EAGLE-3, got Tree"),
        (Envelope(3, 4, 8), "1", "plan must be a Tree for EAGLE-1, got Envelope"),
        (TREE, "4", r"of EAGLE .* \(1, 2, 3\), got '4'"),
        (st.Tree.k_ary(2, 1), "1", "at least 2 deep for EAGLE-1, got depth 1"),
        (st.Tree([-1, *[0] * 11, 1]), "1", "at most TOPK=10 children at a node for EAGLE-1, got 11"),
    ],
)
def test_eagle_refuses_what_it_cannot_run(plan: Any, version: str, message: str) -> None:
    refuses(message, eagle.export, plan, version=version)
