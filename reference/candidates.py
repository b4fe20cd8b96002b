"""Tokens of children, from the draft's distributions at all nodes of a level: drawn, or the most probable ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reference import host_draws
from reference.host_arrays import Array, concatenated
from reference.uniforms import Uniforms
from spectheory import DrawRule
from spectheory.core.errors import InputError


def child_tokens(q: Array, k: int, rule: DrawRule, rng: Uniforms | None) -> Array:
    """(P, k) tokens of the children of P nodes with distributions q (P, V), in draw order, by `DrawRule.children`.

    Where a distribution has fewer than k tokens, its row ends with -1. Tokens are on the device of the distributions.

    Raises:
        InputError: k is above 2 for HUB.
    """
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        return _drawn(q, k, rng)
    if rule is DrawRule.HUB and k > 2:
        raise InputError(f"k must be at most 2 for HUB, got {k}")
    if (size := q.shape[1]) < k:
        found = child_tokens(q, size, rule, rng)
        return concatenated([found, *[found[:, :1] * 0 - 1] * (k - size)], 1)
    if rule is DrawRule.TOP_K:
        return _most_probable(q, k)
    if k == 1:
        return _drawn(q, 1, rng)
    if rule is DrawRule.NO_REPLACEMENT:
        return _drawn(q, k, rng, apart=True)
    if rule is DrawRule.TOP_K_THEN_ONE:
        head = _most_probable(q, k - 1)
        return concatenated([head, _drawn(_without(q, head), 1, rng)], 1)
    first, hub = _drawn(q, 1, rng), largest(q, 1)[0]
    other = _drawn(_without(q, hub), 1, rng)
    return concatenated([first, hub + (other - hub) * (first == hub)], 1)


def largest(values: Array, k: int) -> tuple[Array, Array]:
    """Tokens (P, k) and values of the k <= V largest of each row of (P, V), falling; ties go to the lower token."""
    if isinstance(values, np.ndarray):
        return host_draws.largest(values, k)
    found, tokens = values.sort(dim=-1, descending=True, stable=True)  # topk leaves the order of equal ones open
    return tokens[:, :k], found[:, :k]


def _most_probable(q: Array, k: int) -> Array:
    tokens, found = largest(q, k)
    return (tokens + 1) * (found > 0) - 1


def _without(q: Array, tokens: Array) -> Array:
    """The distributions with 0 at `tokens` (P, k). -1 hits the last token, where nothing is left of a distribution."""
    rest = q * 1
    rest[np.arange(len(q))[:, None], tokens] = 0
    return rest


def draw_into(tokens: Array, q: Array, rng: Uniforms | None, *, apart: bool) -> None:
    """Fill `tokens` (P, k <= V) with draws from distributions q (P, V), on the same device; -1 as in `child_tokens`.

    Draws are independent or, where `apart`, without replacement.
    """
    assert rng is not None, "drawn drafts need random numbers"
    if isinstance(q, np.ndarray):
        host_draws.drawn(q, rng.take(tokens.size), apart, tokens)
    else:
        tokens[:] = (_apart if apart else _independent)(q, tokens.shape[1], rng)


def _drawn(q: Array, k: int, rng: Uniforms | None, *, apart: bool = False) -> Array:
    tokens = np.empty((len(q), k), np.int64) if isinstance(q, np.ndarray) else q.new_empty(len(q), k, dtype=torch.int64)
    draw_into(tokens, q, rng, apart=apart)
    return tokens


def _independent(q: Tensor, k: int, rng: Uniforms) -> Tensor:
    """By inversion in float64. `spectheory.core.chance.draw` says why no point is at the last edge."""
    edges = q.cumsum(-1, dtype=torch.float64)
    points = torch.rand(len(q), k, generator=rng.generator, device=q.device, dtype=torch.float64) * edges[:, -1:]
    drawn = torch.searchsorted(edges, points, right=True)
    return drawn.masked_fill(drawn == q.shape[1], -1)


def _apart(q: Tensor, k: int, rng: Uniforms) -> Tensor:
    """The k largest of q / e for independent exponentials e, written with -e.

    The uniform numbers are float64: float32 has no small e, and would draw the tail of a large vocabulary too rarely.
    """
    noise = torch.rand(q.shape, generator=rng.generator, device=q.device, dtype=torch.float64).log_()
    first = (q / noise.to(q.dtype)).topk(k, largest=False)
    return first.indices.masked_fill(first.values >= 0, -1)
