"""Drafts that a decoder would stumble over are refused by `Checked`, others pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from reference.decode import Decoder
from reference.drafters import Checked, PlannedTree
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.otlp import RRS
from spectheory.verify import TopDown
from tests.reference.faulty import Meddling
from tests.refusals import refuses


@dataclass(frozen=True)
class Broken(Meddling):
    """Drafts with something changed, for another room than there is."""

    change: dict[str, Any] = field(default_factory=dict)
    further: int = 0

    def grown(self, grow: Callable[[int, Any], Draft], room: int, rng: Any) -> Draft:
        draft = grow(room + self.further, rng)
        given = {name: getattr(draft, name) for name in ("tree", "tokens", "q", "draws", "rule")}
        return Draft._unchecked(**given | self.change)


CHAIN = PlannedTree(Tree.chain(2))


@pytest.mark.parametrize(
    ("drafter", "message"),
    [
        (Broken(CHAIN, {"tokens": [8, 5]}), "must have one entry for each of the 3 nodes, got 2, 3 and 3"),
        (Broken(CHAIN, {"tokens": [7, 5, 4]}), r"tokens\[0\] is 7, the root must be the last emitted token, 8"),
        (Broken(CHAIN, {"tokens": [8, 5, -1]}), r"tokens\[2\] is -1, tokens are whole numbers from 0 to 299: leave"),
        (Broken(CHAIN, {"tokens": [8, 300, 1]}), r"tokens\[1\] is 300"),
        (Broken(CHAIN, {"tokens": [8, 4.5, 1]}), r"tokens\[1\] is 4\.5"),
        (Broken(CHAIN, {"draws": ((1,), (), ())}), r"draws\[1\] must name the children \[2\]"),
        (Broken(CHAIN, further=1), "tree is 2 deep, there is room for 1: cut it to that depth"),
    ],
)
def test_a_wrong_draft_is_refused_with_what_is_wrong(tiny: Pair, drafter: Broken, message: str) -> None:
    with torch.inference_mode():
        drafting = Checked(drafter).start(tiny, Sampling())
        drafting.read([9, 9], torch.empty(0))
        drafting.commit([], [8])
        refuses(message, drafting.grow, 1 if drafter.further else 5, None)


def test_right_drafts_pass_as_they_are(tiny: Pair) -> None:
    for tree, sampling in ((Tree.k_ary(2, 3), Sampling()), (Tree.k_ary(3, 2), Sampling(1.0, 2))):
        plain, checked = (
            Decoder(tiny, drafter, sampling, TopDown(RRS())).generate([5, 6, 7], 40, *streams(tiny, 0))
            for drafter in (PlannedTree(tree), Checked(PlannedTree(tree)))
        )
        assert (checked.tokens, checked.accepted) == (plain.tokens, plain.accepted)
    for sampling in (Sampling(), Sampling(1.0)):
        assert Checked(CHAIN).rule(sampling) is CHAIN.rule(sampling)
    assert Checked(CHAIN).chains
    assert Checked(CHAIN).paths
