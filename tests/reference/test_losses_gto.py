"""Tests of GTO: groups, rewards, advantages, the clipped surrogate and where its gradient is 0."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from proofs_check.gto import surrogate as exact
from reference.losses import BeamTrees, Gto
from reference.losses.gto import accepted_tokens, advantages, likelihood_ratio, surrogate
from tests.helpers import refuses

LOSS = Gto(group=3)
PLACES = 4


def log_probabilities(groups: int = 2, seed: int = 0) -> Tensor:
    drawn = torch.randn(groups, 3, PLACES, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return -drawn.abs()


LENGTHS = torch.tensor([[0, 1, 4], [2, 3, 1]])
ACCEPTED = torch.arange(PLACES) < LENGTHS[..., None]
MOVED = torch.tensor([[1.0, 2.0, 4.0], [0.5, 0.5, 0.25]], dtype=torch.float64)
STILL = torch.tensor([[3.0, 1.25, 2.0], [0.5, 1.75, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("same_probabilities", [True, False])
def test_the_gradient_is_exactly_0_while_every_tree_is_that_of_the_start(same_probabilities: bool) -> None:
    """Claim T-START: whatever the probabilities are, because the same trees have the same rewards."""
    now = log_probabilities().requires_grad_()
    base = now.detach().clone() if same_probabilities else log_probabilities(seed=1)
    loss = LOSS(now, base, ACCEPTED, STILL, STILL)
    assert loss.item() == 0
    assert torch.autograd.grad(loss, now)[0].count_nonzero() == 0


def test_once_trees_move_apart_the_gradient_is_0_exactly_where_no_token_was_accepted() -> None:
    """Claim T-START as corrected, at ratio 1: the gradient of a token is A / (length times the number of positions)."""
    now = log_probabilities().requires_grad_()
    loss = LOSS(now, now.detach(), ACCEPTED, STILL + MOVED, STILL)
    gradient = torch.autograd.grad(loss, now)[0]
    weights = advantages(STILL + MOVED, STILL, LOSS.epsilon)
    expected = torch.where(ACCEPTED, -weights[..., None] / LENGTHS.clamp(min=1)[..., None] / 6, 0)
    torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=0)
    assert torch.equal(gradient != 0, ACCEPTED)


def test_the_surrogate_and_the_advantages_are_those_of_the_claims_in_fractions() -> None:
    """Groups of two contexts, every policy and every base of a grid, both signs of the advantage."""
    grid = [Fraction(one, 8) for one in (1, 4, 5, 7)]
    for new, old, rewards in product(product(grid, repeat=2), product(grid, repeat=2), [(1, 0), (0, 1), (2, 2)]):
        weights = exact.advantages([Fraction(one) for one in rewards], Fraction(1, 2**20))
        want = exact.surrogate(new, old, weights)
        own = advantages(torch.tensor([rewards], dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64), 2.0**-20)
        assert own[0].tolist() == pytest.approx([float(one) for one in weights], rel=1e-15)
        now, base = (torch.tensor([[[float(one)] for one in many]], dtype=torch.float64).log() for many in (new, old))
        ratio = likelihood_ratio(now, base, torch.ones(1, 2, 1, dtype=torch.bool))
        assert surrogate(ratio, own, 0.2).item() == pytest.approx(float(want), rel=1e-14, abs=1e-15)


def test_the_ratio_is_the_geometric_mean_over_the_accepted_tokens() -> None:
    now = torch.tensor([[[0.5, 0.25, 1.0]]], dtype=torch.float64).log()
    base = torch.tensor([[[0.125, 0.25, 0.5]]], dtype=torch.float64).log()
    for length, value in ((0, 1), (1, 4), (2, 2), (3, 2)):
        assert likelihood_ratio(now, base, torch.arange(3) < length).item() == pytest.approx(value, rel=1e-15)


def test_the_gradient_agrees_with_finite_differences_inside_and_outside_the_clip() -> None:
    ratio = torch.tensor([[1.0, 0.5, 1.5], [1.1, 0.9, 1.5]], dtype=torch.float64)
    base = log_probabilities() - 1
    now = base + ratio.log()[..., None]
    weights = advantages(STILL + MOVED, STILL, LOSS.epsilon)
    assert {(float(s), float(a) > 0) for s, a in zip(ratio.flatten(), weights.flatten(), strict=True)} == {
        (1.0, False), (0.5, False), (1.5, True), (1.1, True), (0.9, True), (1.5, False)
    }  # fmt: skip

    def value(now: Tensor) -> Tensor:
        return LOSS(now, base, ACCEPTED, STILL + MOVED, STILL)

    assert torch.autograd.gradcheck(value, now.requires_grad_())


def test_places_without_a_token_and_the_order_of_groups_change_nothing() -> None:
    now, base = log_probabilities(), log_probabilities(seed=1)
    value = LOSS(now, base, ACCEPTED, STILL + MOVED, STILL).item()
    spoiled = [torch.where(ACCEPTED, one, torch.nan) for one in (now, base)]
    wide = [torch.cat([one, torch.full((2, 3, 2), torch.nan, dtype=torch.float64)], 2) for one in spoiled]
    wide[0].requires_grad_()
    kept = torch.cat([ACCEPTED, torch.zeros(2, 3, 2, dtype=torch.bool)], 2)
    loss = LOSS(wide[0], wide[1], kept, STILL + MOVED, STILL)
    assert loss.item() == value
    assert torch.autograd.grad(loss, wide[0])[0].isfinite().all()
    turned = LOSS(now.flip(0), base.flip(0), ACCEPTED.flip(0), (STILL + MOVED).flip(0), STILL.flip(0))
    assert turned.item() == pytest.approx(value, rel=1e-14)


def test_tokens_are_accepted_while_the_text_is_a_path_of_the_tree() -> None:
    """The tree of tokens 1 and 2 below the root, 3 and 4 below 2, and 5 below 4."""
    parent, token = torch.tensor([-1, 0, 0, 2, 2, 3, 4]), torch.tensor([0, 1, 2, 3, 4, 4, 5])
    texts = torch.tensor([[2, 4, 5], [2, 3, 4], [2, 3, 5], [1, 3, 4], [3, 4, 5]])
    many = [one.expand(len(texts), -1) for one in (parent, token)]
    trees = BeamTrees(*many, target=torch.empty(0), present=torch.empty(0), widths=(1, 2, 2, 2))
    assert accepted_tokens(trees, texts).sum(1).tolist() == [3, 3, 2, 1, 0]


def test_unusable_arguments_are_refused() -> None:
    given = {"base": log_probabilities(seed=1), "accepted": ACCEPTED, "rewards": MOVED, "reference_rewards": STILL}
    now = log_probabilities()
    refuses("now must have shape \\(2, 3, 4\\), groups of the size that is set", LOSS, now[:, :2], **given)
    refuses("group must be at least 2, got 1: a group of one has no advantage", Gto, group=1)
    refuses("clip must be a number from 0 to 1, got 2", Gto, clip=2)
    refuses("depth must be between 1 and 2, got 3", Gto, passes=2, depth=3)
    refuses("eta must be a number of at least 1e-12", Gto, eta=0)
    refuses("weight must be a number of at least 0, got -1", Gto, weight=-1)
