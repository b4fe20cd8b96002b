"""Tests of the losses that follow the text: exact values, gradients, masks and refused input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import exp, log, log2
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from reference.losses import (
    ALL,
    ChainLoss,
    Eagle,
    Eagle3,
    Hass,
    Kl,
    LkAlpha,
    LkLambda,
    Needs,
    Pass,
    Rows,
    Tv,
    acceptance,
    attended,
    cross_entropy,
    kl,
    loss_of,
    on_draft_vocabulary,
    unroll,
)
from reference.losses.chain import kept_rows
from spectheory.core.errors import InputError
from spectheory.otlp.naive import Naive

CHAIN: list[ChainLoss] = [replace(loss, passes=2) for loss in ALL if isinstance(loss, ChainLoss)]
CHAIN = [replace(loss, top=2) if isinstance(loss, Hass) else loss for loss in CHAIN]
EACH = pytest.mark.parametrize("loss", CHAIN, ids=lambda loss: loss.name)


class Batch(NamedTuple):
    """Input of a chain loss: B = 3 rows of L = 5 positions, V = 6 tokens, width 4."""

    logits: list[Tensor]
    features: list[Tensor]
    target: Tensor
    mask: Tensor
    target_features: Tensor
    coverage: Tensor

    def by(self, loss: ChainLoss) -> Tensor:
        passes = [Pass(*both) for both in zip(self.features, self.logits, strict=True)]
        return loss(passes, self.target, self.mask, target_features=self.target_features, coverage=self.coverage)

    def through(self, change: Callable[[Tensor], Tensor]) -> Batch:
        logits, features = ([change(one) for one in many] for many in (self.logits, self.features))
        return Batch(logits, features, *(change(one) for one in self[2:]))


def batch(passes: int = 2, seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(3, 5, *shape, dtype=torch.float64, generator=rng)

    mask = torch.tensor(
        [[True, True, True, True, True], [True, True, False, True, True], [True, True, True, True, True]]
    )
    return Batch(
        [drawn(6) for _ in range(passes)],
        [drawn(4) for _ in range(passes)],
        drawn(6).softmax(-1),
        mask,
        drawn(4),
        drawn().sigmoid(),
    )


def dyadic(*parts: int) -> list[Fraction]:
    total = sum(parts)
    assert log2(total).is_integer()
    return [Fraction(part, total) for part in parts]


def tensor(values: list[Fraction]) -> Tensor:
    return torch.tensor([float(one) for one in values], dtype=torch.float64)


def one_row(logits: Tensor, target: Tensor) -> dict[str, Any]:
    return {
        "passes": [Pass(torch.zeros(1, 1, 1, dtype=torch.float64), logits[None, None])],
        "target": target[None, None],
        "mask": torch.ones(1, 1, dtype=torch.bool),
    }


@EACH
def test_gradients_agree_with_finite_differences(loss: ChainLoss) -> None:
    given = batch().through(lambda one: one[:2, 1:5])
    inputs = [one.requires_grad_() for one in (*given.logits, *given.features)]

    def value(*tensors: Tensor) -> Tensor:
        return given._replace(logits=list(tensors[:2]), features=list(tensors[2:])).by(loss)

    if isinstance(loss, LkLambda):  # its weight carries no gradient, so differences must hold the weight fixed
        value = fixed_weights(loss, given)
    assert torch.autograd.gradcheck(value, inputs)


def fixed_weights(loss: LkLambda, given: Batch) -> Callable[..., Tensor]:
    """LK^lambda written as KL and TV with weights that are computed once, whose value and gradient must be its own."""
    rows = [kept_rows(given.mask, index) for index in range(2)]

    def parts(logits: Tensor, index: int) -> tuple[Tensor, Tensor]:
        kept, width = rows[index], rows[index].shape[1]
        p, q = given.target[:, -width:][kept], logits[:, :width][kept]
        covered = p * given.coverage[:, -width:][kept][:, None]
        return kl(q, p), acceptance(covered, q.softmax(-1))

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
def test_a_mask_that_keeps_all_rows_gives_what_a_mask_over_padding_gives(loss: ChainLoss) -> None:
    """Rows are read in place if all are kept, and copied otherwise."""
    given = batch()
    given = given._replace(mask=given.mask | True)
    wide = given.through(lambda one: torch.cat([one, one.new_zeros(3, 1, *one.shape[2:])], 1))
    ours, theirs = given.by(loss), wide.by(loss)
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=0)


@EACH
def test_the_order_of_the_batch_changes_nothing(loss: ChainLoss) -> None:
    given = batch()
    turned = given.through(lambda one: one[[2, 0, 1]])
    torch.testing.assert_close(given.by(loss), turned.by(loss), rtol=1e-14, atol=0)


@EACH
def test_every_chain_loss_is_a_plain_sum_over_passes_and_rows(loss: ChainLoss) -> None:
    """Row by row with loops; LK^lambda is left to the gradient test, because its weight joins the rows of a pass."""
    if isinstance(loss, LkLambda):
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
                    given.coverage[b, there][None],
                )
                total += loss.decay**index * float(loss.of_rows(row))
    assert float(given.by(loss)) == pytest.approx(total / int(given.mask.sum()), rel=1e-13)


def test_rows_are_kept_up_to_the_predicted_position() -> None:
    mask = torch.tensor([[True, True, False, True, True, True]])
    assert kept_rows(mask, 0).tolist() == mask.tolist()
    assert kept_rows(mask, 1).tolist() == [[True, False, False, True, True]]
    assert kept_rows(mask, 2).tolist() == [[False, False, False, True]]
    assert kept_rows(mask, 6).shape == kept_rows(mask, 9).shape == (1, 0)


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_eagle3_has_the_weights_0_8_to_the_power_of_the_pass(steps: int) -> None:
    """Only pass j is wrong: uniform on 4 tokens, so each of its 8 - j rows has the loss log 4."""
    sure = torch.tensor([1000.0, 0, 0, 0], dtype=torch.float64).expand(1, 8, 4)
    target = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).expand(1, 8, 4)
    features, mask = torch.zeros(1, 8, 1, dtype=torch.float64), torch.ones(1, 8, dtype=torch.bool)
    for wrong in range(steps):
        passes = [Pass(features, sure * (index != wrong)) for index in range(steps)]
        weight = Eagle3(passes=steps)(passes, target, mask) / (log(4) * (8 - wrong) / 8)
        assert float(weight) == pytest.approx(0.8**wrong, rel=1e-15)


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
    assert Fraction(Tv()(**row).item()) == 1 - exact
    assert LkAlpha()(**row).item() == pytest.approx(-log(exact), abs=1e-15)
    bits = 2 + sum(float(one) * log2(one) for one in p if one)
    assert Kl()(**row).item() == pytest.approx(bits * log(2), abs=1e-15)
    weight = exp(-3 * exact)
    both = weight * bits * log(2) + (1 - weight) * float(1 - exact)
    assert LkLambda()(**row).item() == pytest.approx(both, abs=1e-15)


def test_kl_of_powers_of_two_is_a_whole_number_of_bits() -> None:
    p, q = dyadic(4, 2, 1, 1), dyadic(1, 1, 2, 4)
    exact = sum(a * int(log2(a / b)) for a, b in zip(p, q, strict=True))
    assert float(kl(tensor(q).log(), tensor(p))) == pytest.approx(float(exact) * log(2), rel=1e-14)


def test_kl_and_cross_entropy_have_the_same_gradient() -> None:
    given = batch(1)
    logits = given.logits[0].requires_grad_()
    grads = [torch.autograd.grad(loss(logits, given.target).sum(), logits)[0] for loss in (kl, cross_entropy)]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-15)


def test_lk_alpha_has_the_gradient_of_tv_divided_by_the_acceptance() -> None:
    given = batch(1)
    logits, target = given.logits[0][0, :1].requires_grad_(), given.target[0, :1]
    row = one_row(logits[0], target[0])
    far, near = (torch.autograd.grad(loss(**row), logits, retain_graph=True)[0] for loss in (LkAlpha(), Tv()))
    torch.testing.assert_close(far, near / acceptance(target, logits.softmax(-1)), rtol=1e-12, atol=1e-15)


def test_lk_alpha_of_a_sure_target_is_the_cross_entropy_even_where_the_draft_rounds_to_0() -> None:
    logits = torch.tensor([0.0, 2000.0], dtype=torch.float64, requires_grad=True)
    value = LkAlpha()(**one_row(logits, torch.tensor([1.0, 0.0], dtype=torch.float64)))
    assert value.item() == 2000
    assert torch.autograd.grad(value, logits)[0].tolist() == [-1, 1]


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
    p, inside = tensor(dyadic(3, 1, 2, 2)), torch.tensor([True, False, True, False])
    part = on_draft_vocabulary(p[None, None], inside)
    assert part.coverage.item() == 5 / 8
    assert part.target.flatten().tolist() == [3 / 5, 2 / 5]
    assert part.likeliest_inside.item()
    q = torch.tensor([0.5, 0.5], dtype=torch.float64)
    whole = torch.zeros(4, dtype=torch.float64)
    whole[inside] = q
    row = one_row(torch.zeros(2, dtype=torch.float64), part.target[0, 0])
    assert 1 - Tv()(**row, coverage=part.coverage).item() == acceptance(p, whole).item() == 5 / 8
    assert LkAlpha()(**row, coverage=part.coverage).item() == pytest.approx(-log(5 / 8), rel=1e-15)


def test_a_position_without_draft_tokens_is_refused_until_it_is_masked() -> None:
    p, inside = tensor(dyadic(0, 1, 0, 3)), torch.tensor([True, False, True, False])
    part = on_draft_vocabulary(p[None, None], inside)
    assert part.target.flatten().tolist() == [0.5, 0.5]
    assert not part.likeliest_inside.item()
    with pytest.raises(InputError, match="coverage must be above 0 and at most 1, got 0: leave out of the mask"):
        LkAlpha()(**one_row(torch.zeros(2, dtype=torch.float64), part.target[0, 0]), coverage=part.coverage)


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


class Attention:
    """A draft with one layer of attention over the rows that `attended` names, for one `unroll`."""

    def __init__(self) -> None:
        rng = torch.Generator().manual_seed(4)
        self.token, self.keys, self.values, self.out = (
            torch.randn(*shape, dtype=torch.float64, generator=rng) for shape in ((7, 3), (3, 3), (3, 3), (3, 7))
        )
        self.cache: list[Tensor] = []

    def attend(self, queries: Tensor, rows: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        scores = (queries @ (rows @ self.keys).transpose(-1, -2)).masked_fill(~allowed, -torch.inf)
        features = torch.tanh(queries + scores.softmax(-1) @ rows @ self.values)
        return features, features @ self.out

    def step(self, features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self.cache.append(features + self.token[tokens])
        return self.attend(self.cache[-1], torch.cat(self.cache, 1), attended(tokens.shape[1], len(self.cache) - 1))


def test_unrolled_passes_are_what_decoding_computes_without_a_cache() -> None:
    """From each root by itself: the text up to the root, then drafted rows one by one, all computed anew each time."""
    draft, tokens = Attention(), torch.tensor([[3, 1, 6, 2, 5]])
    features = batch().features[0][:1, :, :3]
    passes = unroll(draft.step, features, tokens, 3)
    for root in range(5):
        fed = features[:, : root + 1]
        for index in range(min(3, 5 - root)):
            rows = fed + draft.token[tokens[:, : root + 1 + index]]
            found, logits = draft.attend(rows, rows, attended(rows.shape[1], 0))
            torch.testing.assert_close(passes[index].logits[:, root], logits[:, -1], rtol=1e-12, atol=1e-14)
            fed = torch.cat([fed, found[:, -1:]], 1)


@pytest.mark.parametrize("detached", [False, True])
def test_unroll_cuts_the_gradient_between_passes_if_asked(detached: bool) -> None:
    weight = torch.tensor(3.0, requires_grad=True)

    def step(features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return features * weight, (features * weight).expand(1, 1, 2)

    last = unroll(step, torch.ones(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64), 3, detached=detached)[-1]
    assert last.features.item() == 27
    assert torch.autograd.grad(last.features.sum(), weight)[0].item() == (9 if detached else 27)


def test_every_loss_has_a_name_and_says_what_it_needs() -> None:
    assert [loss.name for loss in ALL] == [
        "eagle", "hass", "eagle3", "kl", "tv", "lk_alpha", "lk_lambda", "marginal", "talf", "gto"
    ]  # fmt: skip
    assert all(loss_of(loss.name) is loss for loss in ALL)
    assert loss_of("hass").needs == Needs(passes=3, detached=True, target_features=True)
    assert loss_of("eagle3").needs == Needs(passes=7)
    assert loss_of("talf").needs == Needs(passes=3, beam_width=4)
    assert loss_of("gto").needs == Needs(passes=7, group=8)


@dataclass(frozen=True)
class Ones(ChainLoss):
    """A loss of 1 for each row."""

    name: ClassVar[str] = "ones"

    @property
    def needs(self) -> Needs:
        return Needs(passes=self.passes)

    def of_rows(self, rows: Rows) -> Tensor:
        return torch.ones(len(rows.logits), dtype=torch.float64)


def test_a_loss_from_outside_gets_passes_masks_and_weights_from_the_frame() -> None:
    given = batch()
    assert given.by(Ones(passes=2, decay=0.5)).item() == (14 + 0.5 * 10) / 14


WRONG: list[tuple[str, ChainLoss, Callable[[Batch], Batch]]] = [
    ("passes must be 3, as the loss hass is set, got 2", Hass(), lambda one: one),
    ("target must have shape \\(3, 5, 6\\), the shape of the logits, got \\(3, 5, 5\\)", Kl(2),
     lambda one: one._replace(target=one.target[..., :5])),
    ("target must have the precision of the logits, torch.float64, got torch.float32", Kl(2),
     lambda one: one._replace(target=one.target.float())),
    ("logits must be in float32 or float64, got torch.bfloat16: convert with .float()", Kl(2),
     lambda one: one._replace(logits=[part.bfloat16() for part in one.logits])),
    ("target must be distributions.* has the sum 2", Tv(2), lambda one: one._replace(target=one.target * 2)),
    ("target must be distributions.* the lowest entry -", Tv(2),
     lambda one: one._replace(target=one.target + torch.tensor([-1.0, 1, 0, 0, 0, 0]))),
    ("target must be distributions.* has the sum nan", Tv(2), lambda one: one._replace(target=one.target * torch.nan)),
    ("mask must be boolean, got torch.int64", Kl(2), lambda one: one._replace(mask=one.mask.long())),
    ("mask must have shape \\(3, 5\\)", Kl(2), lambda one: one._replace(mask=one.mask[:, :4])),
    ("mask must keep at least one position", Kl(2), lambda one: one._replace(mask=one.mask & False)),
    ("target_features must have shape \\(3, 5, 4\\), the shape of the draft's features, got \\(3, 5, 3\\)", Eagle(2),
     lambda one: one._replace(target_features=one.target_features[..., :3])),
    ("target_features must have the precision of the draft's features, torch.float64, got torch.float16", Eagle(2),
     lambda one: one._replace(target_features=one.target_features.half())),
    ("the logits of each pass must have shape", Kl(2),
     lambda one: one._replace(logits=[one.logits[0], one.logits[1][:, :4]])),
    ("the features of each pass must have shape", Kl(2),
     lambda one: one._replace(features=[one.features[0], one.features[1][..., :3]])),
    ("coverage must have shape \\(3, 5\\)", Tv(2), lambda one: one._replace(coverage=one.coverage[:1])),
    ("top must be at most the vocabulary of 6 tokens, got 10", Hass(2), lambda one: one),
]  # fmt: skip


@pytest.mark.parametrize(("message", "loss", "change"), WRONG, ids=[one[0][:40] for one in WRONG])
def test_unusable_tensors_are_refused_by_name(message: str, loss: ChainLoss, change: Callable[[Batch], Batch]) -> None:
    with pytest.raises(InputError, match=message):
        change(batch()).by(loss)


def test_missing_target_features_are_refused() -> None:
    row = one_row(torch.zeros(4, dtype=torch.float64), tensor(dyadic(1, 1, 1, 1)))
    with pytest.raises(InputError, match="target_features must be given: the loss eagle compares features"):
        Eagle()(**row)


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("passes must be at least 1, got 0", lambda: Eagle3(passes=0)),
        ("decay must be a finite number of at least 0, got -1", lambda: Kl(decay=-1)),
        ("eta must be a finite number of at least 0, got nan", lambda: LkLambda(eta=float("nan"))),
        ("top must be at least 1, got 0", lambda: Hass(top=0)),
        ("distribution_weight must be a finite number", lambda: Eagle(distribution_weight=float("inf"))),
        ("passes must be at least 1", lambda: Needs(passes=0)),
        ("probabilities must be True where beam trees are needed", lambda: Needs(beam_width=2, probabilities=False)),
        ("unknown loss 'tafl': did you mean talf", lambda: loss_of("tafl")),
    ],
)
def test_unusable_settings_are_refused(message: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("message", "returned"),
    [
        ("the features that step returns must have shape", (torch.zeros(1, 3, 3), torch.zeros(1, 3, 5))),
        ("the features that step returns must have the precision", (torch.zeros(1, 3, 2).half(), torch.zeros(1, 3, 5))),
        ("the logits that step returns must have shape", (torch.zeros(1, 3, 2), torch.zeros(1, 2, 5))),
    ],
)
def test_a_step_that_returns_something_else_is_refused(message: str, returned: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match=message):
        unroll(lambda features, tokens: returned, torch.zeros(1, 3, 2), torch.zeros(1, 3, dtype=torch.int64), 1)


def test_unroll_refuses_tokens_of_another_shape() -> None:
    with pytest.raises(InputError, match="tokens must have shape \\(1, 3\\), the rows and positions of the features"):
        unroll(lambda features, tokens: (features, features), torch.zeros(1, 3, 2), torch.zeros(1, 2), 1)
