"""The EAGLE repository."""

from __future__ import annotations

import spectheory as st
from spectheory.engines import Envelope, eagle
from tests.engines.examples import TREE
from tests.refusals import refuses


def test_golden_eagle() -> None:
    assert eagle.export(TREE, version="1").files["choices.py"] == (
        "spectheory_6 = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]\n"
    )


def test_eagle_refuses_what_it_cannot_run() -> None:
    refuses("plan must be an Envelope for EAGLE-3, got Tree", eagle.export, TREE, version="3")
    refuses("plan must be a Tree for EAGLE-1, got Envelope", eagle.export, Envelope(3, 4, 8), version="1")
    refuses(r"of EAGLE .* \(1, 2, 3\), got '4'", eagle.export, TREE, version="4")
    refuses("at least 2 deep for EAGLE-1, got depth 1", eagle.export, st.Tree.k_ary(2, 1), version="1")
    refuses(
        "at most TOPK=10 children at a node for EAGLE-1, got 11", eagle.export, st.Tree([-1, *[0] * 11, 1]), version="1"
    )
