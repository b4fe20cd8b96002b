"""Children taken from the draft's laws, all nodes of a level at once: drawn, or the most probable."""

from __future__ import annotations

import torch
from torch import Tensor

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
        return _drawn(q, k, rng, apart=False)
    if rule is DrawRule.TOP_K:
        return _most_probable(q, k)
    if rule is DrawRule.NO_REPLACEMENT or k == 1:
        return _drawn(q, k, rng, apart=True)
    if rule is DrawRule.TOP_K_THEN_ONE:
        head = _most_probable(q, k - 1)
        return torch.cat([head, _drawn(q.scatter(1, head.clamp(min=0), 0), 1, rng, apart=True)], 1)
    if k > 2:
        raise ValueError(f"k must be at most 2 for HUB, got {k}")
    first, hub = _drawn(q, 1, rng, apart=True), largest(q, 1)[0]
    other = _drawn(q.scatter(1, hub, 0), 1, rng, apart=True)
    return torch.cat([first, torch.where(first == hub, other, hub)], 1)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of (P, V), falling, equal ones by token: tokens (P, k), and values."""
    if on_host(values):
        tokens, found = host.largest(values.numpy(), k)
        return torch.from_numpy(tokens), torch.from_numpy(found)
    found, tokens = values.sort(dim=-1, descending=True, stable=True)  # topk leaves the order of equal ones open
    return tokens[:, :k], found[:, :k]


def on_host(values: Tensor) -> bool:
    """Whether a tensor shares its memory with NumPy arrays."""
    return values.is_cpu


def _most_probable(q: Tensor, k: int) -> Tensor:
    tokens, found = largest(q, k)
    return tokens.masked_fill(found <= 0, -1)


def _drawn(q: Tensor, k: int, rng: Uniforms | None, apart: bool) -> Tensor:
    """Independent draws, or such without replacement where `apart`.

    On a device independent draws are made by inversion (why no point lies at the last edge: `spectheory.chance.draw`),
    and the others are the k largest of q / e with e independent exponentials, here -e, of which the first has law q.
    All uniforms are float64: those of float32 have no small e, and draw the tail of a large vocabulary too rarely.
    """
    assert rng is not None, "drawn drafts need random numbers"
    if on_host(q):
        return torch.from_numpy(host.drawn(q.numpy(), rng.take(q.shape[0] * k), k, apart))
    if apart and k > 1:
        noise = torch.rand(q.shape, generator=rng.generator, device=q.device, dtype=torch.float64).log_()
        first = (q / noise.to(q.dtype)).topk(k, largest=False)
        return first.indices.masked_fill(first.values >= 0, -1)
    edges = q.cumsum(-1, dtype=torch.float64)
    points = torch.rand(len(q), k, generator=rng.generator, device=q.device, dtype=torch.float64) * edges[:, -1:]
    drawn = torch.searchsorted(edges, points, right=True)
    return drawn.masked_fill(drawn == q.shape[1], -1)
