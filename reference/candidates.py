"""What a draft model proposes below a node."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

LEAST_TEMPERATURE = 1e-3
"""Below it logits over temperature leave float32, and the law is greedy in all but name."""


def check_temperature(temperature: float) -> None:
    """Raise ValueError for a temperature that is neither 0 (greedy) nor one to sample at."""
    if temperature != 0 and not LEAST_TEMPERATURE <= temperature < float("inf"):
        raise ValueError(f"temperature must be 0 (greedy) or at least {LEAST_TEMPERATURE}, got {temperature}")


def propose(logits: Tensor, k: int, temperature: float, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """The k children of each node in order of rank (n, k), and the law they were drawn from (n, V).

    At temperature 0 they are the k most probable tokens (DrawRule.TOP_K). Above it they are drawn without
    replacement, in draw order (DrawRule.NO_REPLACEMENT), as the k largest of q / e with e independent exponentials:
    the first of them has law q. (-log of a uniform is four times as fast as torch's own exponentials on a CPU.)
    """
    if temperature == 0:
        return logits.topk(k).indices, logits
    q = torch.softmax(logits / temperature, dim=-1)
    noise = -torch.rand(q.shape, generator=generator, device=q.device).log_()
    return (q / noise).topk(k).indices, q


def draw(law: Tensor, generator: Generator | None) -> int:
    """A token of the law (V,), by inversion in float64; one of probability 0 is never drawn."""
    edges = law.double().cumsum(0)
    point = edges[-1] * torch.rand(1, generator=generator, device=law.device, dtype=torch.float64)
    return min(int(torch.searchsorted(edges, point, right=True)), len(law) - 1)
