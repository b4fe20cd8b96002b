"""Verifiers that draw with torch, NumPy's global functions or `random`, right and wrong."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

import spectheory as st

WEIGHTS = torch.tensor([1.0, 0.0, 3.0, 4.0], dtype=torch.float64)


def exponential(like: torch.Tensor = WEIGHTS) -> torch.Tensor:
    return torch.empty_like(like).exponential_(1)


def accept(draft: st.Draft, p: Any, coin: Any) -> int:
    """The child if its coin accepts it, else 0."""
    child = draft.draws[0][0]
    token = draft.tokens[child]
    return child if coin * draft.q[0][token] < p[0][token] else 0


def by_multinomial(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right: the ratio test and the residual, on tensors."""
    target, q = torch.tensor(p), torch.tensor(draft.q[0])
    node = accept(draft, target, torch.rand(1, dtype=torch.float64))
    weights = target[node] if node else (target[0] - q).clamp(min=0)
    return node, int(torch.multinomial(weights, 1))


def from_p(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong: the correction is drawn from p."""
    node = accept(draft, p, torch.rand(1).item())
    return node, int(torch.multinomial(torch.tensor(p[node]), 1))


def by_race(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right: races, in a batch of all positions."""
    target, q = torch.tensor(p), torch.tensor(draft.q[0])
    weights = target.clone()
    weights[0] = (target[0] - q).relu()
    tokens = (weights / exponential(weights)).argmax(dim=-1)
    node = accept(draft, p, random.random())
    return node, int(tokens[node])


def shared_noise(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong: the coin that rejects also draws the correction by inversion."""
    coin = torch.rand(1, dtype=torch.float64)
    node = accept(draft, p, coin)
    target, q = torch.tensor(p), torch.tensor(draft.q[0])
    weights = target[node] if node else (target[0] - q).clamp(min=0)
    edges = (weights / weights.sum()).cumsum(0)
    return node, min(int(torch.searchsorted(edges, coin)), len(edges) - 1)


def uncapped(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, with NumPy's global functions."""
    node = accept(draft, p, np.random.rand())  # noqa: NPY002
    weights = p[node] if node else np.maximum(p[0] - draft.q[0], 0)
    return node, int(np.random.choice(len(p[0]), p=weights / weights.sum()))  # noqa: NPY002


def gumbel_in_numpy(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right: p is drawn by Gumbel numbers of NumPy."""
    with np.errstate(divide="ignore"):
        return 0, int(np.argmax(np.log(p[0].astype(float)) + np.random.gumbel(size=len(p[0]))))  # noqa: NPY002


def by_choices(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right: drawn by `random.choices`."""
    return 0, random.choices(range(len(p[0])), weights=p[0])[0]


def reuses_coins(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong: one coin for both drafted tokens."""
    target, q, coin, node = torch.tensor(p), torch.tensor(draft.q), torch.rand(1, dtype=torch.float64), 0
    while draft.draws[node]:
        child = draft.draws[node][0]
        if coin >= (target[node] / q[node])[draft.tokens[child]]:
            return node, int(torch.multinomial((target[node] - q[node]).clamp(min=0), 1))
        node = child
    return node, int(torch.multinomial(target[node], 1))
