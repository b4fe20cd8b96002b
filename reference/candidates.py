"""Tokens of the children of all nodes of a level, drawn from the draft's distributions or the most probable ones."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from reference.host_arrays import Array, concatenated, draw_on_host, largest_on_host
from reference.random_streams import Uniforms
from spectheory import DrawRule
from spectheory.core.errors import InputError


def child_tokens(q: Float[Array, "P V"], k: int, rule: DrawRule, rng: Uniforms | None) -> Int[Array, "P k"]:
    """Choose or draw k children by `rule` for each of P nodes with distributions q: their tokens in draw order.

    Independent draws (IID, IID_APART) may repeat a token. By the other rules, the row ends with -1 where fewer than k
    tokens have a probability above 0. Tokens are on the device of q.

    Raises:
        InputError: k is above 2 for HUB.
    """
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        return drawn(q, k, rng)
    if rule is DrawRule.HUB and k > 2:
        raise InputError(f"k must be at most 2 for HUB, got {k}")
    if (size := q.shape[1]) < k:
        found = child_tokens(q, size, rule, rng)
        return concatenated([found, *[found[:, :1] * 0 - 1] * (k - size)], 1)
    if rule is DrawRule.TOP_K:
        return _most_probable(q, k)
    if k == 1:
        return drawn(q, 1, rng)
    if rule is DrawRule.NO_REPLACEMENT:
        return drawn(q, k, rng, apart=True)
    if rule is DrawRule.TOP_K_THEN_ONE:
        head = _most_probable(q, k - 1)
        return concatenated([head, drawn(_without(q, head), 1, rng)], 1)
    first, hub = drawn(q, 1, rng), largest(q, 1)[0]
    other = drawn(_without(q, hub), 1, rng)
    return concatenated([first, hub + (other - hub) * (first == hub)], 1)


def largest(values: Float[Array, "P V"], k: int) -> tuple[Int[Array, "P k"], Float[Array, "P k"]]:
    """Tokens and values of the k <= V largest in each row, largest first; ties: lower token first."""
    if isinstance(values, np.ndarray):
        return largest_on_host(values, k)
    size = values.shape[1]
    bits = values.float().contiguous().view(torch.int32)
    rising = (bits ^ (bits >> 31 & 0x7FFFFFFF)).long()
    falling = torch.arange(size - 1, -1, -1, device=values.device)
    tokens = (rising * size + falling).topk(k).indices  # topk leaves the order of equal ones open
    return tokens, values.gather(1, tokens)


def _most_probable(q: Array, k: int) -> Array:
    tokens, found = largest(q, k)
    return (tokens + 1) * (found > 0) - 1


def _without(q: Float[Array, "P V"], tokens: Int[Array, "P k"]) -> Float[Array, "P V"]:
    """A copy of q with 0 at `tokens`. A token of -1 sets the last entry of a row that is 0 by then."""
    rest = q * 1
    rest[np.arange(len(q))[:, None], tokens] = 0
    return rest


def drawn(q: Float[Array, "P V"], k: int, rng: Uniforms | None, *, apart: bool = False) -> Int[Array, "P k"]:
    """K <= V draws from each of P distributions, on their device: independent, or without replacement if `apart`.

    Where no token is left to draw, a row ends with -1.
    """
    assert rng is not None, "drawn drafts need random numbers"
    if not isinstance(q, np.ndarray):
        return (_apart if apart else _independent)(q, k, rng)
    tokens = np.empty((len(q), k), np.int64)
    draw_on_host(q, rng.take(tokens.size), apart, tokens)
    return tokens


def _independent(q: Tensor, k: int, rng: Uniforms) -> Tensor:
    """Draw by inversion in float64. `spectheory.core.chance.draw` explains why no point is at the last edge."""
    edges = q.cumsum(-1, dtype=torch.float64)
    points = torch.rand(len(q), k, generator=rng.generator, device=q.device, dtype=torch.float64) * edges[:, -1:]
    drawn = torch.searchsorted(edges, points, right=True)
    return drawn.masked_fill(drawn == q.shape[1], -1)


def _apart(q: Tensor, k: int, rng: Uniforms) -> Tensor:
    """Draw without replacement: the k tokens with the largest q / e, for independent exponential numbers e.

    The uniform numbers are float64, because float32 has no small e: it would draw rare tokens too rarely.
    """
    noise = torch.rand(q.shape, generator=rng.generator, device=q.device, dtype=torch.float64).log_()
    first = (q / noise.to(q.dtype)).topk(k, largest=False)
    return first.indices.masked_fill(first.values >= 0, -1)
