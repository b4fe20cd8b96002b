"""Children taken from the draft's laws, all nodes of a level at once: drawn, or the most probable."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from reference import host
from reference.uniforms import Uniforms
from spectheory import DrawRule


def candidates(q: Tensor, k: int, rule: DrawRule, rng: Uniforms | None) -> Tensor:
    """(P, k) tokens below P nodes with laws q (P, V), in draw order, as `DrawRule.children` has them.

    A law may have fewer tokens than draws: -1 stands at the end of its row then.

    Raises:
        ValueError: k is above 2 for HUB.
    """
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        return _independent(q, k, rng)
    if rule is DrawRule.HUB and k > 2:
        raise ValueError(f"k must be at most 2 for HUB, got {k}")
    if (size := q.shape[1]) < k:
        return pad(candidates(q, size, rule, rng), (0, k - size), value=-1)
    if rule is DrawRule.TOP_K:
        return _most_probable(q, k)
    if k == 1:
        return _independent(q, 1, rng)
    if rule is DrawRule.NO_REPLACEMENT:
        return _apart(q, k, rng)
    if rule is DrawRule.TOP_K_THEN_ONE:
        head = _most_probable(q, k - 1)
        return torch.cat([head, _independent(q.scatter(1, head.clamp(min=0), 0), 1, rng)], 1)
    first, hub = _independent(q, 1, rng), largest(q, 1)[0]
    other = _independent(q.scatter(1, hub, 0), 1, rng)
    return torch.cat([first, torch.where(first == hub, other, hub)], 1)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k <= V largest of each row of (P, V), falling, equal ones by token: tokens (P, k), and values."""
    if host.holds(values):
        tokens, found = host.largest(values.numpy(), k)
        return torch.from_numpy(tokens), torch.from_numpy(found)
    found, tokens = values.sort(dim=-1, descending=True, stable=True)  # topk leaves the order of equal ones open
    return tokens[:, :k], found[:, :k]


def _most_probable(q: Tensor, k: int) -> Tensor:
    tokens, found = largest(q, k)
    return tokens.masked_fill(found <= 0, -1)


def _independent(q: Tensor, k: int, rng: Uniforms | None) -> Tensor:
    """By inversion in float64. Why no point lies at the last edge: `spectheory.chance.draw`."""
    assert rng is not None, "drawn drafts need random numbers"
    if host.holds(q):
        return torch.from_numpy(host.drawn(q.numpy(), rng.take(q.shape[0] * k), k, False))
    edges = q.cumsum(-1, dtype=torch.float64)
    points = torch.rand(len(q), k, generator=rng.generator, device=q.device, dtype=torch.float64) * edges[:, -1:]
    drawn = torch.searchsorted(edges, points, right=True)
    return drawn.masked_fill(drawn == q.shape[1], -1)


def _apart(q: Tensor, k: int, rng: Uniforms | None) -> Tensor:
    """Without replacement. On a device the k largest of q / e with e independent exponentials, here -e.

    The uniforms are float64: those of float32 have no small e, and draw the tail of a large vocabulary too rarely.
    """
    assert rng is not None, "drawn drafts need random numbers"
    if host.holds(q):
        return torch.from_numpy(host.drawn(q.numpy(), rng.take(q.shape[0] * k), k, True))
    noise = torch.rand(q.shape, generator=rng.generator, device=q.device, dtype=torch.float64).log_()
    first = (q / noise.to(q.dtype)).topk(k, largest=False)
    return first.indices.masked_fill(first.values >= 0, -1)
