"""Children drawn from the draft's laws, all nodes of a level at once."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from spectheory import DrawRule


def candidates(q: Tensor, k: int, rule: DrawRule, generator: Generator | None) -> Tensor:
    """(P, k) tokens below P nodes with laws q (P, V), in draw order, as `DrawRule.children` has them.

    A law may have fewer tokens than draws: -1 stands at the end of its row then.

    Raises:
        ValueError: k is above 2 for HUB.
    """
    if rule in (DrawRule.IID, DrawRule.IID_APART) or (k == 1 and rule is not DrawRule.TOP_K):
        return _independent(q, k, generator)
    if rule is DrawRule.TOP_K:
        return _most_probable(q, k)
    if rule is DrawRule.NO_REPLACEMENT:
        return _apart(q, k, generator)
    if rule is DrawRule.TOP_K_THEN_ONE:
        head = _most_probable(q, k - 1)
        return torch.cat([head, _independent(q.scatter(1, head.clamp(min=0), 0), 1, generator)], 1)
    if k > 2:
        raise ValueError(f"k must be at most 2 for HUB, got {k}")
    first, hub = _independent(q, 1, generator), q.argmax(-1, keepdim=True)
    return torch.cat([first, torch.where(first == hub, _independent(q.scatter(1, hub, 0), 1, generator), hub)], 1)


def _most_probable(q: Tensor, k: int) -> Tensor:
    """Ties go to the lower token, for which topk does not stand."""
    falling = q.sort(dim=-1, descending=True, stable=True)
    return falling.indices[:, :k].masked_fill(falling.values[:, :k] <= 0, -1)


def _apart(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """Draws without replacement: the k largest of q / e with e independent exponentials; the first has law q.

    The uniforms are float64: those of float32 have no small e, and of a large vocabulary the tail is drawn too rarely.
    -log of a uniform is four times as fast as torch's own exponentials on a CPU.
    """
    noise = torch.rand(q.shape, generator=generator, device=q.device, dtype=torch.float64).log_().neg_()
    first = (q / noise.to(q.dtype)).topk(k)
    return first.indices.masked_fill(first.values <= 0, -1)


def _independent(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """By inversion in float64; -1 from an empty law."""
    edges = q.double().cumsum(-1)
    whole = edges[:, -1:].contiguous()
    points = whole * torch.rand(len(q), k, generator=generator, device=q.device, dtype=torch.float64)
    last = torch.searchsorted(edges, whole)  # a product may round up to the whole
    return torch.minimum(torch.searchsorted(edges, points, right=True), last).masked_fill(whole <= 0, -1)
