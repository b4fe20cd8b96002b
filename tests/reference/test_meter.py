"""The watch on both models' forwards."""

from __future__ import annotations

import time
from dataclasses import replace
from inspect import signature

import pytest
import torch

from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.meter import Meter
from reference.models import Pair
from spectheory import Tree
from tests.helpers import refuses


def test_forwards_are_seen_and_timed_apart(tiny: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a clock that each reading moves on by 1, a forward takes 1, as does what lies between two of them."""
    ticks = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    with Meter(tiny) as meter:
        text = Decoder(tiny, PlannedTree(Tree.chain(3))).generate([5, 6, 7], 30)
        tiny.target(torch.tensor([[1, 2]]))
    cycles = len(text.accepted)
    assert meter.since(text.started) == (cycles + 1, 3 * cycles)
    assert meter.since(0) == (cycles + 2, 3 * cycles + 1)
    assert text.seconds == 2 * 4 * cycles + 1
    assert meter.since(1e9) == (0, 0)


def test_models_are_as_before_whatever_happened(tiny: Pair) -> None:
    """A forward of one's own is put back, too."""
    with pytest.raises(ValueError, match="need a prompt"), Meter(tiny):
        Decoder(tiny, PlannedTree(Tree.chain(3))).generate([], 30)
    for model in (tiny.target, tiny.draft):
        assert "forward" not in vars(model)
    own = tiny.target.forward
    tiny.target.forward = own  # type: ignore[method-assign]
    try:
        with Meter(tiny) as meter:
            assert signature(tiny.target.forward) == signature(own)
            tiny.target(torch.tensor([[1, 2]]))
        assert vars(tiny.target)["forward"] is own
    finally:
        del tiny.target.forward
    assert len(meter.calls["target"]) == 1


def test_one_object_in_both_roles_is_refused(tiny: Pair) -> None:
    refuses("target and draft are one object", Meter, replace(tiny, draft=tiny.target))
