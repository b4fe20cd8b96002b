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
        return torch.cat([head, _one_more(q.scatter(1, head.clamp(min=0), 0), generator)], 1)
    if k > 2:
        raise ValueError(f"k must be at most 2 for HUB, got {k}")
    first, hub = _independent(q, 1, generator), q.argmax(-1, keepdim=True)
    return torch.cat([first, torch.where(first == hub, _one_more(q.scatter(1, hub, 0), generator), hub)], 1)


def _most_probable(q: Tensor, k: int) -> Tensor:
    """Ties go to the lower token, for which topk does not stand."""
    falling = q.sort(dim=-1, descending=True, stable=True)
    return falling.indices[:, :k].masked_fill(falling.values[:, :k] <= 0, -1)


def _apart(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """Draws without replacement: the k largest of q / e with e independent exponentials, here -e; the first has law q.

    The uniforms are float64: those of float32 have no small e, and of a large vocabulary the tail is drawn too rarely.
    The log of a uniform is four times as fast as torch's own exponentials on a CPU.
    """
    noise = torch.rand(q.shape, generator=generator, device=q.device, dtype=torch.float64).log_()
    first = (q / noise.to(q.dtype)).topk(k, largest=False)
    return first.indices.masked_fill(first.values >= 0, -1)


def _independent(q: Tensor, k: int, generator: Generator | None) -> Tensor:
    """By inversion in float64; V from an empty law. Why no point lies at the last edge: `spectheory.chance.draw`."""
    edges = q.cumsum(-1, dtype=torch.float64)
    points = torch.rand(len(q), k, generator=generator, device=q.device, dtype=torch.float64) * edges[:, -1:]
    return torch.searchsorted(edges, points, right=True)


def _one_more(q: Tensor, generator: Generator | None) -> Tensor:
    drawn = _independent(q, 1, generator)
    return drawn.masked_fill(drawn == q.shape[1], -1)
