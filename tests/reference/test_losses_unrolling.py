"""Tests of the unrolling of a draft, pass after pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reference.losses import (
    attended,
    unroll,
)
from spectheory.core.errors import InputError
from tests.reference.loss_batches import batch


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
