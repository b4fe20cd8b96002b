"""Exact enumeration over small vocabularies that shares no code with the rules under test, and choices of cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
import pytest

from spectheory import DrawRule
from spectheory.otlp import Solver

Case = TypeVar("Case")
CASES = [pytest.param(24, id="few"), pytest.param(510, id="many", marks=pytest.mark.deep)]
"""Number of random cases of an exact test."""


def exact(*weights: int) -> np.ndarray:
    """The distribution with these weights, as fractions."""
    return np.array([Fraction(weight, sum(weights)) for weight in weights], dtype=object)


def random_distribution(rng: np.random.Generator, size: int) -> np.ndarray:
    """A rational distribution with small numerators, zeros among them."""
    weights = rng.integers(0, 6, size)
    weights[rng.integers(size)] += 1
    return np.array([Fraction(int(w), int(weights.sum())) for w in weights], dtype=object)


def random_pairs(count: int, sizes: tuple[int, ...] = (2, 3, 4), seed: int = 0) -> Iterator[tuple]:
    """`count` pairs (p, q): one in eight has p = q, one in eight disjoint supports."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        size = int(rng.choice(sizes))
        p, q = random_distribution(rng, size), random_distribution(rng, size)
        if i % 8 == 0:
            q = p.copy()
        elif i % 8 == 1:
            cut = int(rng.integers(1, size))
            p[:cut], q[cut:] = Fraction(0), Fraction(0)
            p, q = (
                part / part.sum() if part.sum() else np.array([Fraction(j == at) for j in range(size)], dtype=object)
                for part, at in ((p, size - 1), (q, 0))
            )
        yield p, q


def sequences(q: np.ndarray, k: int, rule: DrawRule) -> list[tuple[tuple[int, ...], Fraction]]:
    """Every sequence of k drafts with its probability, straight from the definition of the rule; shorter ones where
    q has no more tokens to give."""
    found: dict[tuple[int, ...], Fraction] = {}
    order = sorted(range(len(q)), key=lambda token: (-q[token], token))
    for drafts in itertools.product(range(len(q)), repeat=k):
        chance, kept, left = Fraction(1), [], Fraction(1)
        for i, token in enumerate(drafts):
            if left == 0 or chance == 0:
                break
            if rule in (DrawRule.IID, DrawRule.IID_APART):
                factor, left = q[token], Fraction(1)
            elif rule is DrawRule.NO_REPLACEMENT:
                factor = q[token] if token not in kept else Fraction(0)
            elif rule is DrawRule.TOP_K or (rule is DrawRule.TOP_K_THEN_ONE and i < k - 1):
                factor = left if token == order[i] and q[token] else Fraction(0)
            elif rule is DrawRule.TOP_K_THEN_ONE:
                factor = q[token] if token not in kept else Fraction(0)
            elif i == 0 or k == 1:
                factor = q[token]
            elif kept[0] != order[0]:
                factor, left = Fraction(int(token == order[0])), Fraction(1)
            else:
                factor = q[token] if token != order[0] else Fraction(0)
                left = 1 - q[order[0]]
                if left == 0:
                    break
            chance *= factor / left
            kept.append(token)
            if rule in (DrawRule.NO_REPLACEMENT, DrawRule.TOP_K, DrawRule.TOP_K_THEN_ONE):
                left -= q[token]
        if chance:
            found[tuple(kept)] = chance
    return list(found.items())


def enumerated(solver: Solver, p: np.ndarray, q: np.ndarray, k: int, rule: DrawRule) -> tuple[np.ndarray, Fraction]:
    """The distribution of the emitted token, and the probability that it is a draft."""
    emitted, accepted = p * 0, Fraction(0)
    for drafts, chance in sequences(q, k, rule):
        distribution = solver._distribution(p, q, drafts)
        assert distribution.min() >= 0
        assert {type(share) for share in distribution} == {Fraction}
        emitted = emitted + chance * distribution
        accepted += chance * sum(distribution[sorted(set(drafts))])
    return emitted, accepted


def covering(cases: Sequence[Case], parts: Callable[[Case], Iterable[Hashable]]) -> list[Case]:
    """Cases, in their order, so that each part of any case is in one of them."""
    of, seen, chosen = [set(parts(case)) for case in cases], set[Hashable](), set[int]()

    def gain(number: int) -> int:
        return len(of[number] - seen)

    while gain(best := max(range(len(cases)), key=gain)):
        chosen.add(best)
        seen |= of[best]
    return [case for number, case in enumerate(cases) if number in chosen]
