"""`GlobalResolution`: a draft is chosen by weights from a convex problem, so that the choice is nearly optimal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, residual, zero_of, zeros_like
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.draft_sets import draft_sets
from spectheory.otlp.naive import Naive
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class GlobalResolution(Solver):
    """Choose one draft, or none, by weights; accept it with probability min(1, p / r), else draw from N((p - r)+).

    H is the set of tokens with the smallest p(H) - q(H)^k, so that p(H) + 1 - q(H)^k is the optimal acceptance
    (Theorem 3.1 of the paper). If a draft is outside H, one of the drafts outside H is chosen, with probabilities
    proportional to their weights. If all drafts are in H, draft i is chosen with probability
    e^(a_i) / (1 + sum e^(a_j)), and none with the rest (Theorems 6.4 and 6.5). r is the distribution of the chosen
    draft over all sets of drafts. The weights are sought such that r = p on H, and that r is as large as possible, but
    not above p, outside H (Theorem 6.2).

    The paper emits the chosen draft. Its convex problem is solved to a tolerance t, so the output differs from p by up
    to 15 t in L1 norm (Lemma 6.6), and the published rule is lossy. Here the last step is rejection sampling with the
    exact r, as in `Khisti`. This is lossless for any weights, and the tolerance costs acceptance only. If the naive
    rule accepts at least sum min(p, r), for example for p = q, it is used.

    All sets of drafts are listed (no truncation), so the vocabulary must be small. The weights are computed in
    float64, by the multiplicative updates of choice models, which raise the concave objective in each sweep, and are
    then rounded to 24 bits, so that the rule is a rational one for Fractions.

    Acceptance: the sum over all sets of drafts of the probability to emit one of them; at most the optimum, and below
        it by what the weights miss.
    Cost: at most 300 sweeps over all sets of drafts, at least C(V, k) of them; cached for p, q and k.
    Source: arXiv 2511.15898 (Thomas and Pal), Theorems 3.1, 5.1, 6.2, 6.4 and 6.5, read from a public summary of the
        paper that states them.

    Attributes:
        sweeps: maximum number of updates of the weights.

    Raises:
        InputError: sweeps is below 1.
    """

    sweeps: int = 300

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART)
    small_vocabulary_only: ClassVar[str] = (
        "lists all sets of drafts, and a real vocabulary has too many; the paper limits the sets to the most probable "
        "tokens, which makes the output differ from p"
    )

    def __post_init__(self) -> None:
        if self.sweeps < 1:
            raise InputError(f"sweeps must be at least 1, got {self.sweeps}")

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution.

        Raises:
            InputError: there are more sets of drafts than can be listed.
        """
        choice, r = self._choice(p, q, len(drafts))
        return self._emitted(p, q, r, drafts, choice.get(frozenset(drafts), {}))

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance.

        Raises:
            InputError: there are more sets of drafts than can be listed.
        """
        choice, r = self._choice(p, q, k)
        if self._naive(p, q, r):
            return Naive()._acceptance(p, q, k)
        chances = draft_sets(q, k, DrawRule.IID)
        kept = zero_of(p)
        for drafts, chosen in choice.items():
            kept = kept + self._emitted(p, q, r, list(drafts), chosen)[sorted(drafts)].sum() * chances[drafts]
        return kept

    def _choice(self, p: Vector, q: Vector, k: int) -> tuple[dict[frozenset[int], dict[int, Any]], Vector]:
        """For each set of drafts, the probability to choose each draft; and r."""
        choice, masses = _chosen(tuple(p.tolist()), tuple(q.tolist()), k, self.sweeps, p.dtype == object)
        r = zeros_like(p)
        for token, mass in masses.items():
            r[token] += mass
        return choice, r

    def _emitted(self, p: Vector, q: Vector, r: Vector, drafts: Sequence[int], chosen: dict[int, Any]) -> Vector:
        """Distribution of the emitted token, given the drafts and the probability to choose each of them."""
        if self._naive(p, q, r):
            return Naive()._distribution(p, q, drafts)
        kept = {token: chance * accept_ratio(p[token], r[token]) for token, chance in chosen.items()}
        distribution = residual(p, r) * (1 - sum(kept.values()))
        for token, chance in kept.items():
            distribution[token] += chance
        return distribution

    def _naive(self, p: Vector, q: Vector, r: Vector) -> bool:
        return bool(p.clip(max=q).sum() >= p.clip(max=r).sum())


@lru_cache(maxsize=512)
def _chosen(
    p: tuple[Any, ...], q: tuple[Any, ...], k: int, sweeps: int, exact: bool
) -> tuple[dict[frozenset[int], dict[int, Any]], dict[int, Any]]:
    """For each set of drafts, the probability to choose each draft; and r.

    `exact` is part of the key of the cache, because 1/2 and 0.5 are equal as keys.
    """
    chances = draft_sets(np.array(q, dtype=object if exact else np.float64), k, DrawRule.IID)
    inside, rounded = transport_weights([float(x) for x in p], [float(x) for x in q], k, sweeps)
    weights = [Fraction(weight) if exact else weight for weight in rounded]
    choice, masses = {}, dict.fromkeys(range(len(p)), 0)
    for drafts, chance in chances.items():
        open_to = sorted(drafts - inside) or sorted(drafts)
        total = sum(weights[token] for token in open_to) + (drafts <= inside)
        choice[drafts] = {token: weights[token] / total for token in open_to}
        for token, share in choice[drafts].items():
            masses[token] = masses[token] + chance * share
    return choice, masses


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
