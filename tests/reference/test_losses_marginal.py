"""Tests of the loss of a parallel head: its mean over all texts of a small target, and its lowest value."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from reference.heads import HeadStep
from reference.losses import Marginal, Pass, unroll
from spectheory.core.errors import InputError
from tests.reference.tiny_heads import PARALLEL, random_head, random_target

V, DEPTHS, DECAY = 3, 3, 0.8
START = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
TABLE = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1]], dtype=torch.float64)
"""A target whose next token depends on the last one only: row x has the distribution of the token after x."""
LOSS = Marginal(passes=DEPTHS, decay=DECAY)


def entropy(rows: Tensor) -> Tensor:
    return torch.special.entr(rows).sum(-1)


def marginals() -> list[Tensor]:
    """(V, V) for each depth: the distribution of the token i + 1 after a root, by the token of the root."""
    return [torch.linalg.matrix_power(TABLE, depth + 1) for depth in range(DEPTHS)]


def mean_loss(logits: list[Tensor]) -> Tensor:
    """The mean of the loss over all texts of the target, for a draft with logits (V, V) at each depth by root token."""
    total = torch.zeros((), dtype=torch.float64)
    for text in product(range(V), repeat=DEPTHS):
        tokens = torch.tensor([text])
        probability = START[text[0]] * TABLE[tokens[0, :-1], tokens[0, 1:]].prod()
        passes = [Pass(torch.zeros(1, DEPTHS, 1), one[tokens]) for one in logits]
        total = total + probability * LOSS(passes, TABLE[tokens], torch.ones(1, DEPTHS, dtype=torch.bool))
    return total


def roots(values: list[Tensor]) -> float:
    """The mean over roots of values (V,) at each depth by root token, weighted as the loss is."""
    at = [START @ torch.linalg.matrix_power(TABLE, row) for row in range(DEPTHS)]
    summed = [
        DECAY**depth * sum(float(at[row] @ values[depth]) for row in range(DEPTHS - depth)) for depth in range(DEPTHS)
    ]
    return sum(summed) / DEPTHS


def test_the_lowest_value_is_the_entropy_of_the_marginals() -> None:
    """There the gradient is 0; the entropy is the mean entropy of p plus what the tokens before say about the next."""
    logits = [one.log().requires_grad_() for one in marginals()]
    lowest = mean_loss(logits)
    assert lowest.item() == pytest.approx(roots([entropy(one) for one in marginals()]), rel=1e-13)
    for grad in torch.autograd.grad(lowest, logits):
        torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-15)
    before = [torch.eye(V, dtype=torch.float64), *marginals()[:-1]]
    known = [weights @ entropy(TABLE) for weights in before]
    told = [
        (weights[:, :, None] * TABLE * (TABLE[None] / m[:, None]).log()).sum((1, 2))
        for weights, m in zip(before, marginals(), strict=True)
    ]
    assert lowest.item() == pytest.approx(roots(known) + roots(told), rel=1e-13)
    assert float(told[0].abs().max()) < 1e-15, "at depth 1 nothing lies between the root and the token"
    assert min(float(one.min()) for one in told[1:]) > 0.01, "below it no head reaches the mean entropy of p"


def test_a_parallel_head_learns_from_one_forward() -> None:
    """Every block has a gradient, and the forward runs once."""
    head = random_head(PARALLEL, dtype=torch.float64).attach(random_target()).requires_grad_()
    tokens = torch.randint(0, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    features = torch.randn(2, 6, 32, dtype=torch.float64)
    step = HeadStep(head)
    passes = unroll(step, features, tokens, 4)
    assert step.cache.get_seq_length() == 6
    target = torch.randn(2, 6, 40, dtype=torch.float64).softmax(-1)
    Marginal()(passes, target, torch.ones(2, 6, dtype=torch.bool)).backward()
    for name, parameter in head.named_parameters():
        if not name.startswith("embed"):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name
    with pytest.raises(InputError, match="passes must be at most 4, the depths of this parallel head, got 5"):
        unroll(HeadStep(head), features, tokens, 5)
