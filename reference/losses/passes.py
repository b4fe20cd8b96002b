"""Unrolling: passes in which a draft reads the features that it computed itself (training-time test)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

from spectheory.core.checks import check_whole


class Pass(NamedTuple):
    """The features and the logits that a draft computed in one pass."""

    features: Float[Tensor, "B L D"]
    logits: Float[Tensor, "B L V"]


Step = Callable[[Float[Tensor, "B L D"], Int[Tensor, "B L"]], tuple[Float[Tensor, "B L D"], Float[Tensor, "B L V"]]]
"""A forward of a draft: `step(features, tokens)` returns features and logits.

Row r of the first call has the feature of position r and the token of position r + 1, and predicts the token of
position r + 2. In pass i, row r has the draft's own feature and the token of position r + 1 + i: it goes on with the
draft that starts at r. So the step keeps the keys and values of all passes for the duration of one `unroll`, and lets a
row attend to those that `attended` names."""


def attended(length: int, index: int) -> Bool[Tensor, "length rows"]:
    """The rows of passes 0..index, pass after pass, to which each row of pass `index` attends.

    Row r attends to rows 0..r of the first pass, which read the text, and to row r of each later pass, which reads what
    was drafted after r; so it sees what it would see in decoding. Its position is r + index.

    >>> attended(2, 1).int().tolist()
    [[1, 0, 1, 0], [1, 1, 0, 1]]
    """
    own = torch.eye(length, dtype=torch.bool)
    return torch.cat([own.new_ones(length, length).tril(), *[own] * index], 1)


def shifted(rows: Shaped[Tensor, "B L"], by: int) -> Shaped[Tensor, "B L"]:
    """The rows moved to the left by `by` positions and filled with 0, which no loss reads, at the end."""
    return pad(rows[:, by:], (0, min(by, rows.shape[1])))


def unroll(
    step: Step, features: Float[Tensor, "B L D"], tokens: Int[Tensor, "B L"], passes: int, *, detached: bool = False
) -> list[Pass]:
    """Call `step` `passes` times, from the second call on with the features that it returned before.

    Args:
        step: a forward of any draft; a new one for each batch, because it keeps keys and values.
        features: the target's features, or what the draft makes of them.
        tokens: the token after the position of each feature.
        passes: number of calls, at least 1.
        detached: cut the gradient between passes. The sources differ: code derived from that of HASS cuts it, the
            published code of EAGLE-3 does not.
    """
    check_whole("passes", passes, 1)
    found: list[Pass] = []
    for index in range(passes):
        fed = features.detach() if detached and index else features
        features, logits = step(fed, shifted(tokens, index))
        found.append(Pass(features, logits))
    return found
