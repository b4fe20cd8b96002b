"""Children drawn from the draft's laws, all nodes of a level at once."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from spectheory import DrawRule


def candidates(q: Tensor, k: int, rule: DrawRule, generator: Generator | None) -> Tensor:
    """(P, k) tokens below P nodes with laws q (P, V), in draw order, as `DrawRule.children` has them.

    Where a law has fewer tokens than draws, tokens of probability 0 stand at the end of its row: drop them.
    """
    if rule in (DrawRule.IID, DrawRule.IID_APART) or (k == 1 and rule is not DrawRule.TOP_K):
        return _independent(q, k, generator)
    if rule is DrawRule.TOP_K:
        return q.topk(k).indices
    if rule is DrawRule.NO_REPLACEMENT:
        return _apart(q, k, generator)
    head = q.topk(k - 1).indices
    rest = _independent(q.scatter(1, head, 0), 1, generator)
    if rule is DrawRule.TOP_K_THEN_ONE:
        return torch.cat([head, rest], 1)
    first = _independent(q, 1, generator)
    return torch.cat([first, torch.where(first == head, rest, head)], 1)


def _apart(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """Draws without replacement: the k largest of q / e with e independent exponentials; the first has law q.

    -log of a uniform is four times as fast as torch's own exponentials on a CPU.
    """
    noise = -torch.rand(q.shape, generator=generator, device=q.device).log_()
    return (q / noise).topk(k).indices


def _independent(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """By inversion in float64; a token of probability 0 is drawn from an empty law only."""
    edges = q.double().cumsum(-1)
    points = edges[:, -1:] * torch.rand(len(q), k, generator=generator, device=q.device, dtype=torch.float64)
    return torch.searchsorted(edges, points, right=True).clamp(max=q.shape[1] - 1)
