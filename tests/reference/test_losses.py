"""Tests of the losses that follow the text: gradients, masks, padding and refused input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp

import pytest
import torch
from torch import Tensor

from reference.losses import ALL, ChainLoss, Eagle, Eagle3, Gto, Hass, Lk, Talf, loss_of, unroll
from reference.losses.chain import Rows, acceptance, kept_rows, kl
from tests.helpers import refuses
from tests.reference.loss_batches import Batch, batch, dyadic, one_row, tensor

CHAIN: list[ChainLoss] = [replace(loss, passes=2) for loss in ALL if isinstance(loss, ChainLoss)]
CHAIN = [replace(loss, top=2) if isinstance(loss, Hass) else loss for loss in CHAIN]
EACH = pytest.mark.parametrize("loss", CHAIN, ids=lambda loss: loss.name)


@EACH
def test_gradients_agree_with_finite_differences(loss: ChainLoss) -> None:
    given = batch().through(lambda one: one[:2, 1:5])
    inputs = [one.requires_grad_() for one in (*given.logits, *given.features)]

    def value(*tensors: Tensor) -> Tensor:
        return given._replace(logits=list(tensors[:2]), features=list(tensors[2:])).by(loss)

    if isinstance(loss, Lk):  # its weight carries no gradient, so differences must hold the weight fixed
        value = fixed_weights(loss, given)
    assert torch.autograd.gradcheck(value, inputs)


def fixed_weights(loss: Lk, given: Batch) -> Callable[..., Tensor]:
    """LK^lambda written as KL and TV with weights that are computed once, whose value and gradient must be its own."""
    rows = [kept_rows(given.mask, index) for index in range(2)]

    def parts(logits: Tensor, index: int) -> tuple[Tensor, Tensor]:
        kept, width = rows[index], rows[index].shape[1]
        p, q = given.target[:, -width:][kept], logits[:, :width][kept]
        return kl(q, p), acceptance(p, q.softmax(-1))

    weights = [exp(-3 * float(parts(given.logits[index].detach(), index)[1].mean())) for index in range(2)]

    def value(*tensors: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for index in range(2):
            far, near = parts(tensors[index], index)
            total = total + 0.8**index * (weights[index] * far + (1 - weights[index]) * (1 - near)).sum()
        return total / given.mask.sum() + 0 * sum(one.sum() for one in tensors[2:])

    own = given.by(loss)
    torch.testing.assert_close(own, value(*given.logits, *given.features), rtol=1e-13, atol=0)
    ours = torch.autograd.grad(own, given.logits)
    theirs = torch.autograd.grad(value(*given.logits, *given.features), given.logits)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)
    return value


@EACH
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_changes_neither_the_loss_nor_its_gradient(loss: ChainLoss, left: bool) -> None:
    given = batch()

    def padded(one: Tensor) -> Tensor:
        filler = one.new_zeros(3, 2, *one.shape[2:])
        if one.is_floating_point():
            filler = filler + torch.nan
        return torch.cat([filler, one] if left else [one, filler], 1)

    wide = given.through(padded)
    for one in (given, wide):
        for tensors in (one.logits, one.features):
            for part in tensors:
                part.requires_grad_()
    ours, theirs = given.by(loss), wide.by(loss)
    assert ours.item() == theirs.item()
    ours.backward()
    theirs.backward()
    inside = slice(2, None) if left else slice(None, 5)
    for one, other in zip(given.logits, wide.logits, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad[:, inside])
        assert float(other.grad.abs().sum()) == pytest.approx(float(one.grad.abs().sum()))


@EACH
def test_every_chain_loss_is_a_plain_sum_over_passes_and_rows(loss: ChainLoss) -> None:
    """Row by row with loops; LK^lambda is left to the gradient test, because its weight joins the rows of a pass."""
    if isinstance(loss, Lk):
        return
    given = batch()
    total = 0.0
    for index, (logits, features) in enumerate(zip(given.logits, given.features, strict=True)):
        for b in range(3):
            for r in range(5 - index):
                if not all(given.mask[b, r : r + index + 1]):
                    continue
                there = r + index
                row = Rows(
                    logits[b, r][None],
                    given.target[b, there][None],
                    features[b, r][None],
                    given.target_features[b, there][None],
                )
                total += loss.decay**index * float(loss.of_rows(row))
    assert float(given.by(loss)) == pytest.approx(total / int(given.mask.sum()), rel=1e-13)


def test_every_loss_is_found_by_name_with_the_settings_of_its_source() -> None:
    assert [loss.name for loss in ALL] == ["eagle", "hass", "eagle3", "lk", "talf", "gto"]
    assert all(loss_of(loss.name) == loss for loss in ALL)
    assert loss_of("eagle3") == Eagle3(passes=7, decay=0.8)
    assert loss_of("hass", ["passes=2", "decay=0.5"]) == Hass(passes=2, decay=0.5)
    assert loss_of("talf", ["k=2"]) == Talf(k=2)
    assert loss_of("gto", ["passes=5"]) == Gto(passes=5)
    refuses("unknown loss 'tafl': did you mean talf", loss_of, "tafl")
    refuses("unknown setting of the loss talf 'j'", loss_of, "talf", ["j=2"])
    refuses("k must be a number, got 'two'", loss_of, "talf", ["k=two"])


WRONG: list[tuple[str, ChainLoss, Callable[[Batch], Batch]]] = [
    ("passes must be 3, as the loss hass is set, got 2", Hass(), lambda one: one),
    ("target must have shape \\(3, 5, 6\\), the shape of the logits, got \\(3, 5, 5\\)", Lk(2, eta=0),
     lambda one: one._replace(target=one.target[..., :5])),
    ("target must be distributions, got a row of sum 5", Lk(2),
     lambda one: one._replace(target=5 * one.target / one.target.sum(-1, keepdim=True))),
    ("target must be distributions, got a row of sum nan", Lk(2),
     lambda one: one._replace(target=one.target * torch.nan)),
    ("mask must be boolean and keep at least one position", Lk(2),
     lambda one: one._replace(mask=one.mask & False)),
    ("target_features must have shape \\(3, 5, 4\\), the shape of the features, got \\(3, 5, 3\\)", Eagle(2),
     lambda one: one._replace(target_features=one.target_features[..., :3])),
    ("top must be between 1 and 6, got 10", Hass(2), lambda one: one),
]  # fmt: skip


@pytest.mark.parametrize(("message", "loss", "change"), WRONG, ids=[one[0][:40] for one in WRONG])
def test_unusable_tensors_are_refused_by_name(message: str, loss: ChainLoss, change: Callable[[Batch], Batch]) -> None:
    refuses(message, change(batch()).by, loss)


def test_unusable_settings_and_missing_features_are_refused() -> None:
    row = one_row(torch.zeros(4, dtype=torch.float64), tensor(dyadic(1, 1, 1, 1)))
    refuses("target_features must be given: the loss eagle compares features", Eagle(), **row)
    refuses("passes must be at least 1, got 0", Eagle3, passes=0)
    refuses("decay must be a number of at least 0, got -1", Eagle3, decay=-1)
    refuses("eta must be a number of at least 0, got nan", Lk, eta=float("nan"))


def test_unroll_feeds_the_drafts_features_and_later_tokens() -> None:
    fed: list[tuple[Tensor, Tensor]] = []

    def step(features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        fed.append((features, tokens))
        return features + 1, torch.zeros(*tokens.shape, 7)

    tokens = torch.tensor([[3, 4, 5], [6, 7, 8]])
    passes = unroll(step, torch.zeros(2, 3, 1), tokens, 5)
    assert [one[0][0, 0, 0].item() for one in fed] == [0, 1, 2, 3, 4]
    assert [one[1][0].tolist() for one in fed] == [[3, 4, 5], [4, 5, 0], [5, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert [one.features[0, 0, 0].item() for one in passes] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("detached", [False, True])
def test_unroll_cuts_the_gradient_between_passes_if_asked(detached: bool) -> None:
    weight = torch.tensor(3.0, requires_grad=True)

    def step(features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return features * weight, (features * weight).expand(1, 1, 2)

    last = unroll(step, torch.ones(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64), 3, detached=detached)[-1]
    assert last.features.item() == 27
    assert torch.autograd.grad(last.features.sum(), weight)[0].item() == (9 if detached else 27)
