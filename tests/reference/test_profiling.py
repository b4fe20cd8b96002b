"""Profiles: the sizes and forwards that are timed, for draft models and draft heads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from reference.heads import Head
from reference.meter import Meter
from reference.models import Pair
from reference.profiling import LEVELS, _filled, _forwards, forward_sizes, profile
from spectheory import Tree
from tests.helpers import refuses
from tests.reference.test_tracing import small


def test_forwards_are_timed_at_the_sizes_that_trees_are_verified_in() -> None:
    assert forward_sizes(32) == [*range(1, 10), 13, 17, 25, 32]
    assert {n - 1 for n in forward_sizes()} > {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}
    for largest in range(1, 70):
        assert forward_sizes(largest)[0] == 1
        assert forward_sizes(largest)[-1] == largest


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_timed_cycle_has_one_forward_of_the_target_then_those_of_a_chain(
    tiny: Pair, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that is one second later at each look; the meter looks before and after each forward of a turn.

    Before a forward of one token the target runs once more, untimed.
    """
    rng, looks = np.random.default_rng(0), itertools.count(0.0)
    models = _filled(tiny, 8, rng)
    monkeypatch.setattr("reference.meter.time.perf_counter", looks.__next__)
    assert _forwards(tiny, models, tokens, rng) == (1, 1)
    assert next(looks) == 2 * (1 + LEVELS)
    assert [model.length for model in models] == [8, 8]


def test_a_profile_covers_what_was_asked(tiny: Pair) -> None:
    seen = []
    latency = profile(tiny, tokens=(1, 2, 8), contexts=(16, 64), rounds=3, done=lambda *step: seen.append(step))
    assert latency.target_seconds.shape == (2, 3)
    assert latency.target_spread_seconds is not None
    assert latency.overhead(Tree.chain(2)) > 0
    assert latency.plain_overhead_seconds > 0
    assert seen[-1] == (6, 6)
    assert latency.provenance.dtype == "torch.float64"
    with pytest.raises(
        ValueError,
        match="contexts up to 1020 with 8 new tokens need 1028, these models have 1024.* or a smaller --largest",
    ):
        profile(tiny, tokens=(1, 8), contexts=(1020,))
    refuses("top_k=2 and top_p=1 have no effect at temperature 0", profile, tiny, top_k=2)
    sampled = profile(tiny, tokens=(1, 2), contexts=(16,), rounds=1, temperature=0.7, top_k=2)
    assert sampled.provenance.sampling == "temperature 0.7 and top-k 2"
    for contexts in ((0, 64), (64, 16), (16, 16), ()):
        refuses("contexts must be increasing whole numbers from 1 on", profile, tiny, contexts=contexts)


def test_a_head_is_profiled() -> None:
    pair = small("eagle1")
    latency = profile(pair, tokens=(1, 2, 5), contexts=(1, 64), rounds=1)
    assert (latency.draft_seconds > 0).all()
    assert not {"forward", "logits"} & set(vars(pair.draft)), "the meter puts back what it found"


def test_the_meter_times_the_output_layer_of_a_head() -> None:
    pair = small("eagle1")
    assert isinstance(pair.draft, Head)
    with Meter(pair) as meter:
        pair.draft.logits(torch.zeros(1, 32, dtype=torch.float64))
    assert [len(meter.calls[role]) for role in ("target", "draft")] == [0, 1]
