"""The distribution of each node solver, against its published procedure over all branches of its coins."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from spectheory import DrawRule
from spectheory.core.chance import branches, draw
from spectheory.otlp import NSS, RRS, GreedyTopK, Naive, Solver, SpecHub, SpecInfer, SpecTr
from tests.enumeration import CASES
from tests.otlp.test_solvers import cases

LEAST, LARGE, BEST = SpecTr(), SpecTr(rho=3), SpecTr(candidates=3)
"""The factor is the least that is lossless, one for every case here, or the best of three."""


def remains(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    rest = np.array([max(x - y, Fraction(0)) for x, y in zip(p, q, strict=True)], dtype=object)
    return rest / sum(rest) if any(rest) else p


def in_random_order(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any) -> int:
    for x in rng.permutation(drafts):
        if rng.random() * q[x] < p[x]:
            return int(x)
        p = remains(p, q)
    return draw(p, rng)


def without_replacement(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any) -> int:
    for x in dict.fromkeys(drafts):
        if rng.random() * q[x] < p[x]:
            return x
        p, others = remains(p, q), np.array([Fraction(0) if t == x else share for t, share in enumerate(q)])
        q = others / (sum(others) or 1)
    return draw(p, rng)


def k_sequence(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any, solver: SpecTr = LEAST) -> int:
    rho, k = solver.factor(p, q, len(drafts)), len(drafts)
    for x in drafts:
        if rng.random() * rho * q[x] < p[x]:
            return x
    common = np.array([min(x / rho, y) for x, y in zip(p, q, strict=True)], dtype=object)
    gamma = (1 - (1 - sum(common)) ** k) / sum(common) if any(common) else rho
    return draw(remains(p, gamma * common), rng)


def first_draft(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any) -> int:
    return drafts[0] if rng.random() * q[drafts[0]] < p[drafts[0]] else draw(remains(p, q), rng)


def top_then_one(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any) -> int:
    *top, drawn = drafts
    others = np.array([Fraction(0) if t in top else share for t, share in enumerate(q)], dtype=object)
    return first_draft(p, others / sum(others), (drawn,), rng)


def through_the_hub(p: np.ndarray, q: np.ndarray, drafts: tuple[int, ...], rng: Any) -> int:
    """arXiv 2411.05289: straight pairs (x, hub) first, reverse pairs (hub, x) then."""
    if len(drafts) == 1:
        return first_draft(p, q, drafts, rng)
    hub = int(np.argmax(q))
    straight = [Fraction(0) if x == hub else q[x] for x in range(len(q))]
    reverse = [share * q[hub] / (1 - q[hub]) for share in straight]
    left = [Fraction(0) if x == hub else max(p[x] - straight[x], Fraction(0)) for x in range(len(q))]
    unplaced = [sum(max(s - p[x], Fraction(0)) for x, s in enumerate(straight) if x != hub)]
    unplaced.append(sum(max(r - left[x], Fraction(0)) for x, r in enumerate(reverse) if x != hub))
    hub_left = max(p[hub] - unplaced[1], Fraction(0))
    x = next(token for token in drafts if token != hub)
    share, room, hub_room, need = (
        (straight[x], p[x], hub_left, unplaced[0]) if drafts[1] == hub else (reverse[x], left[x], p[hub], unplaced[1])
    )
    if rng.random() * share < room:
        return x
    if rng.random() * need < hub_room:
        return hub
    rest = [max(room - r, Fraction(0)) for room, r in zip(left, reverse, strict=True)]
    rest[hub] = max(hub_left - unplaced[0], Fraction(0))
    return draw(np.array(rest, dtype=object) if any(rest) else p, rng)


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize(
    ("solver", "procedure"),
    [
        (NSS(), lambda p, q, drafts, rng: draw(p, rng)),
        (Naive(), first_draft),
        (SpecInfer(), in_random_order),
        (LEAST, k_sequence),
        (LARGE, partial(k_sequence, solver=LARGE)),
        (BEST, partial(k_sequence, solver=BEST)),
        (RRS(), without_replacement),
        (GreedyTopK(), top_then_one),
        (SpecHub(), through_the_hub),
    ],
)
def test_the_distribution_is_that_of_the_procedure_with_coins(
    solver: Solver, procedure: Callable[..., int], count: int
) -> None:
    rng = np.random.default_rng(5)
    for i, (p, q, k) in enumerate(cases(count, solver, seed=5, sizes=(2, 3))):
        rule = solver.rules[i % len(solver.rules)]
        drafts = rule.children(q, min(k, 2) if rule is DrawRule.HUB else k, rng)
        for draws in (procedure, solver._sample):
            distribution = p * 0
            for token, chance in branches(lambda coins, p=p, q=q, x=drafts, draws=draws: draws(p, q, x, coins)):
                distribution[token] += chance
            assert (distribution == solver._distribution(p, q, drafts)).all(), (p, q, drafts)
