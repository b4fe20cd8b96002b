"""Tests of the losses that follow the text on exact values."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import exp, log, log2

import numpy as np
import pytest
import torch

from reference.losses import Eagle, Eagle3, Hass, Lk, Pass
from reference.losses.chain import acceptance
from spectheory.otlp.naive import Naive
from tests.helpers import refuses
from tests.reference.loss_batches import batch, dyadic, one_row, tensor

PAIRS = [
    (dyadic(1, 1, 1, 1), dyadic(1, 1, 1, 1)),
    (dyadic(5, 2, 1, 0), dyadic(1, 3, 3, 1)),
    (dyadic(16, 0, 0, 0), dyadic(1, 5, 9, 1)),
    (dyadic(9, 4, 2, 1), dyadic(0, 7, 1, 8)),
]


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_acceptance_is_that_of_one_draft_by_the_naive_solver(p: list[Fraction], q: list[Fraction]) -> None:
    exact = Naive().acceptance(np.array(p, dtype=object), np.array(q, dtype=object), 1)
    assert Fraction(acceptance(tensor(p), tensor(q)).item()) == exact
    assert exact == 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


@pytest.mark.parametrize("p", [one for pair in PAIRS for one in pair])
def test_losses_on_dyadic_values_against_fractions(p: list[Fraction]) -> None:
    """The draft is uniform on 4 tokens: its softmax is exact, and KL is a multiple of log 2 plus the entropy."""
    uniform = [Fraction(1, 4)] * 4
    row = one_row(torch.zeros(4, dtype=torch.float64), tensor(p))
    exact = Naive().acceptance(np.array(p, dtype=object), np.array(uniform, dtype=object), 1)
    assert Fraction(Lk(eta=1e6)(**row).item()) == 1 - exact
    bits = 2 + sum(float(one) * log2(one) for one in p if one)
    assert Lk(eta=0)(**row).item() == pytest.approx(bits * log(2), abs=1e-15)
    weight = exp(-3 * exact)
    both = weight * bits * log(2) + (1 - weight) * float(1 - exact)
    assert Lk()(**row).item() == pytest.approx(both, abs=1e-15)


def test_hass_adds_a_top_k_cross_entropy_to_eagle() -> None:
    given = batch()
    eagle = given.by(Eagle(passes=2, decay=1))
    assert given.by(Hass(passes=2, top=2, top_weight=0)).item() == eagle.item()
    crossed = given.by(Eagle3(passes=2, decay=1))
    torch.testing.assert_close(given.by(Hass(passes=2, top=6)), eagle + crossed, rtol=1e-14, atol=0)


def test_the_top_k_cross_entropy_is_the_smallest_over_subsets_weighted_by_the_target() -> None:
    """With a uniform draft it is log V times the mass of the top K tokens, the largest over all subsets."""
    p = dyadic(1, 5, 2, 8)
    for top in (1, 2, 3, 4):
        mass = max(sum(some) for some in combinations(p, top))
        row = one_row(torch.zeros(4, dtype=torch.float64), tensor(p))
        loss = Hass(passes=1, top=top, feature_weight=0, distribution_weight=0)
        value = loss(**row, target_features=torch.zeros(1, 1, 1, dtype=torch.float64))
        assert value.item() == pytest.approx(float(mass) * log(4), rel=1e-15)


def test_eagle_weighs_smooth_l1_and_cross_entropy_1_and_0_1() -> None:
    """Differences of 1/2 and 3 have the SmoothL1 1/8 and 5/2, whose mean is 21/16."""
    features = torch.tensor([[[0.5, 3.0]]], dtype=torch.float64)
    row = one_row(torch.zeros(4, dtype=torch.float64), tensor(dyadic(1, 1, 1, 1)))
    row["passes"] = [Pass(features, row["passes"][0].logits)]
    value = Eagle()(**row, target_features=torch.zeros_like(features))
    assert value.item() == pytest.approx(21 / 16 + 0.1 * log(4), rel=1e-15)


def test_a_draft_vocabulary_keeps_the_acceptance_of_the_whole_vocabulary() -> None:
    """KL is of the distribution given the vocabulary."""
    p, inside = tensor(dyadic(3, 1, 2, 2)), torch.tensor([True, False, True, False])
    q, whole = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    whole[inside] = q
    row = one_row(torch.zeros(2, dtype=torch.float64), p[inside])
    assert 1 - Lk(eta=1e6)(**row).item() == acceptance(p, whole).item() == 5 / 8
    given = 3 / 5 * log(3 / 5) + 2 / 5 * log(2 / 5) + log(2)
    assert Lk(eta=0)(**row).item() == pytest.approx(given, rel=1e-14)


def test_a_position_without_draft_tokens_is_refused() -> None:
    row = one_row(torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    refuses("row of sum 0: .* leave out of the mask where the target emits no token of the", Lk(), **row)
