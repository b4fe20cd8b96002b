"""The weights by which `GlobalResolution` chooses among the drafts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.otlp.draft_sets import draft_sets

FLOOR = 2.0**-40
"""Least weight, relative to the largest: where the best weights do not exist, ratios of weights grow without bound."""
CLOSE = 1e-10
"""The sweeps end when all masses are this close to the demand."""
ROUNDING = 1e-12
"""Two values of p(H) - q(H)^k that differ by less are equal; the smaller set is taken."""


def transport_weights(
    p: Sequence[float], q: Sequence[float], k: int, sweeps: int
) -> tuple[frozenset[int], list[float]]:
    """The set H of `GlobalResolution`, and the weight of each token, rounded to 24 bits.

    Args:
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution.
        k: number of independent drafts.
        sweeps: maximum number of updates of the weights.

    Raises:
        InputError: k drafts form more sets than can be listed.
    """
    target, drafted = np.array(p), np.array(q)
    either = target + drafted
    order = np.argsort(-drafted / (either + (either == 0)), kind="stable")
    inside = order[: _best_prefix(target[order], drafted[order], k)[0]]
    rest = order[len(inside) :]
    demand = target.copy()
    demand[rest] = _carried(target, drafted, k, inside, rest)
    sets = draft_sets(drafted, k, DrawRule.IID)
    members = np.array([[token in drafts for token in range(len(p))] for drafts in sets], float)
    outside = ~np.isin(np.arange(len(p)), inside)
    beyond = (members @ outside) > 0
    members[beyond] *= outside
    weights = _swept(members, np.array(list(sets.values())), demand, ~beyond, sweeps)
    return frozenset(inside.tolist()), [float(np.float32(weight)) for weight in weights]


def _best_prefix(p: np.ndarray, q: np.ndarray, k: int, more_p: float = 0.0, more_q: float = 0.0) -> tuple[int, float]:
    """The length of the prefix T with the smallest p(T) + more_p - (q(T) + more_q)^k, and this value."""
    cut = np.append(0, p.cumsum()) + more_p - (np.append(0, q.cumsum()) + more_q) ** k
    return int(np.argmax(cut <= cut.min() + ROUNDING)), float(cut.min())


def _carried(p: np.ndarray, q: np.ndarray, k: int, inside: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The mass to carry to each token of `rest`, the tokens outside H: the mean of two vertices of Theorem 6.2.

    For an order v_1, v_2, ... of these tokens, v_i gets p(v_i) + c(i + 1) - c(i), where c(i) is the smallest
    p(T) - q(T)^k of the sets T that contain H and v_i, v_(i+1), .... Every order is optimal, and so is a mean. At a
    mean, the weights are less extreme than at a vertex.
    """
    vertices = np.zeros((2, len(rest)))
    for vertex, order in zip(vertices, (range(len(rest)), range(len(rest))[::-1]), strict=True):
        held, free = inside.tolist(), list(range(len(rest)))
        least = _best_prefix(p[rest], q[rest], k, p[held].sum(), q[held].sum())[1]
        for place in order:
            free.remove(place)
            held.append(rest[place])
            before, open_to = least, rest[free]
            least = _best_prefix(p[open_to], q[open_to], k, p[held].sum(), q[held].sum())[1]
            vertex[place] = p[rest[place]] + before - least
    return np.maximum(vertices.mean(0), 0)


def _swept(members: np.ndarray, chances: np.ndarray, demand: np.ndarray, slack: np.ndarray, sweeps: int) -> np.ndarray:
    """(V,) weights that carry `demand` to the tokens. Each sweep multiplies a weight by its demand / mass carried."""
    weights = np.maximum(demand, FLOOR)
    for sweep in range(sweeps):
        carried = weights * (members.T @ (chances / np.maximum(members @ weights + slack, FLOOR)))
        if sweep % 20 == 0 and np.abs(carried - demand).max() < CLOSE:
            break
        weights = np.clip(weights * demand / np.maximum(carried, FLOOR), FLOOR, 1 / FLOOR)
    return weights
