"""Enumerating a program's draws."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.chance import BranchError, branches, draw
from tests.enumeration import random_pairs, sequences

HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
EVEN, QUARTERS = {True: HALF, False: HALF}, {True: QUARTER, False: 3 * QUARTER}
COINS = {(a, b): QUARTER for a in (True, False) for b in (True, False)}


def distribution_of(program: Any) -> dict:
    found: Counter = Counter()
    for result, chance in branches(program):
        found[result] += chance  # type: ignore[assignment]
    return dict(found)


def test_choices_integers_and_permutations_are_counted() -> None:
    thirds = [THIRD, Fraction(0), 2 * THIRD]
    assert distribution_of(lambda rng: rng.choice(3, p=thirds)) == {0: THIRD, 2: 2 * THIRD}
    assert distribution_of(lambda rng: rng.integers(2, 4)) == {2: HALF, 3: HALF}
    assert distribution_of(lambda rng: tuple(rng.permutation(3))) == {
        order: Fraction(1, 6) for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    }
    pair = distribution_of(lambda rng: (rng.choice(["a", "b"]), draw(np.array([0.25, 0.75]), rng)))
    assert pair == {(name, i): chance / 2 for name in ("a", "b") for i, chance in enumerate((QUARTER, 3 * QUARTER))}


def test_a_uniform_number_is_settled_by_its_comparisons() -> None:
    def two_thresholds(rng: Any) -> str:
        u = rng.random()
        if u < Fraction(1, 4):
            return "low"
        return "middle" if 3 * u + 1 < 2.5 else "high"

    assert distribution_of(two_thresholds) == {"low": QUARTER, "middle": QUARTER, "high": HALF}
    assert distribution_of(lambda rng: 1 - rng.random() > THIRD) == {True: 2 * THIRD, False: THIRD}
    first = distribution_of(lambda rng: int((rng.random() < np.array([0.25, 0.5, 1.0])).argmax()))
    assert first == {0: QUARTER, 1: QUARTER, 2: HALF}
    inverse = distribution_of(lambda rng: int(np.searchsorted([0.25, 1.0], rng.random(), side="right")))
    assert inverse == {0: QUARTER, 1: 3 * QUARTER}
    assert distribution_of(lambda rng: rng.random() < float("inf")) == {True: 1}
    assert distribution_of(lambda rng: rng.random() < float("nan")) == {False: 1}
    assert distribution_of(lambda rng: tuple(bool(u < 0.5) for u in rng.random(2))) == COINS


def test_a_coin_of_exactly_zero_is_a_branch_of_probability_zero() -> None:
    assert list(branches(lambda rng: rng.random() * 2 <= 0)) == [(False, 1), (True, 0)]
    assert distribution_of(lambda rng: rng.random() * 2 < 0) == {False: 1}
    assert list(branches(lambda rng: rng.random() == 0)) == [(False, 1), (True, 0)]
    assert list(branches(lambda rng: bool(rng.random()))) == [(True, 1), (False, 0)]


def test_the_smallest_of_exponential_numbers_is_a_draw_by_their_rates() -> None:
    weights = np.array([1, 2, 3])
    sixths = {0: Fraction(1, 6), 1: THIRD, 2: HALF}
    assert distribution_of(lambda rng: int(np.argmin(rng.exponential(1, 3) / weights))) == sixths
    assert distribution_of(lambda rng: int(np.argmax(weights / rng.standard_exponential(3)))) == sixths
    gumbel = distribution_of(lambda rng: int(np.argmax(np.log(weights) + rng.gumbel(size=3))))
    logarithm = distribution_of(lambda rng: int(np.argmax(np.log(rng.random(3)) / weights)))
    one_minus = distribution_of(lambda rng: int(np.argmin(-np.log(1 - rng.random(3)) / weights)))
    for found in (gumbel, logarithm, one_minus):
        assert all(abs(found[i] - sixths[i]) < 1e-12 for i in range(3))


def test_exponential_numbers_are_ordered_as_by_draws_without_replacement() -> None:
    """Any sequence of comparisons: here of all pairs, in three orders."""
    weights = [Fraction(w, 7) for w in (1, 2, 4)]
    expected = dict(sequences(np.array(weights, dtype=object), 3, st.DrawRule.NO_REPLACEMENT))

    def ordered(rng: Any, pairs: list[tuple[int, int]]) -> tuple[int, ...]:
        numbers = rng.exponential(1, 3) / np.array(weights, dtype=object)
        wins = [
            sum(bool(numbers[i] < numbers[j]) for i, j in [*pairs, *(p[::-1] for p in pairs)] if i == k)
            for k in range(3)
        ]
        return tuple(sorted(range(3), key=lambda i: -wins[i]))

    for pairs in ([(0, 1), (1, 2), (0, 2)], [(2, 1), (2, 0), (1, 0)], [(0, 2), (1, 0), (1, 2)]):
        assert distribution_of(lambda rng, p=pairs: ordered(rng, p)) == expected


def test_an_exponential_number_has_its_distribution_function() -> None:
    found = distribution_of(lambda rng: bool(2 * rng.exponential() < 1))
    assert abs(found[True] - (1 - np.exp(-0.5))) < 1e-15
    found = distribution_of(lambda rng: bool(np.log(rng.random()) <= np.log(0.25)))
    assert abs(found[True] - Fraction(1, 4)) < 1e-15


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda rng: rng.normal(), "rng.normal cannot be enumerated"),
        (lambda rng: rng.random() * rng.random() < 0.5, "product of two uniform numbers"),
        (lambda rng: rng.random() + rng.random() < 1, "two uniform numbers are combined"),
        (lambda rng: rng.random() < 2 * rng.random(), "not of one kind"),
        (lambda rng: rng.random() < rng.exponential(), "not of one kind"),
        (lambda rng: (lambda u, v: (u < 0.5) + (u < v))(rng.random(), rng.random()), "threshold, and then with others"),
        (
            lambda rng: (lambda u, v: (u < v) + (u < 0.5))(rng.random(), rng.random()),
            "others, and then with a threshold",
        ),
        (lambda rng: (lambda e: (e[0] < e[1]) + (e[0] < 2 * e[1]))(rng.exponential(1, 2)), "again, with other weights"),
        (lambda rng: float(rng.random()), "used as a number"),
        (lambda rng: np.sin(rng.random()), "np.sin of a uniform number"),
        (lambda rng: np.log(rng.random() + 0.5), "logarithm of a shifted uniform number"),
        (lambda rng: rng.random(dtype=np.float32), r"random\(dtype=.*\) cannot be enumerated"),
        (lambda rng: rng.integers(2**62), "more than 10,000 outcomes"),
    ],
)
def test_what_cannot_be_enumerated_is_said(program: Any, message: str) -> None:
    with pytest.raises(BranchError, match=message):
        list(branches(program))


def test_hidden_randomness_is_noticed() -> None:
    outcomes = iter([3, 3, 3, 3, 3, 1])
    with pytest.raises(BranchError, match="random source of its own"):
        list(branches(lambda rng: [rng.integers(next(outcomes)) for _ in range(2)]))
    with pytest.raises(BranchError, match="more than 10 branches"):
        list(branches(lambda rng: [rng.integers(4) for _ in range(2)], most=10))
    for probabilities in ([0, 0], [0.5, 0.6]):
        with pytest.raises(ValueError, match="probabilities do not sum to 1"):
            list(branches(lambda rng, p=probabilities: rng.choice(2, p=p)))
    with pytest.raises(ValueError, match="one probability >= 0 for each of 2 values"):
        list(branches(lambda rng: rng.choice(2, p=[1.5, -0.5])))


def test_every_draw_rule_follows_its_definition() -> None:
    """Against an enumeration written from the definitions, 40 pairs of distributions, ties and zeros among them."""
    for _, q in random_pairs(40):
        for rule in st.DrawRule:
            for k in (1, 2) if rule is st.DrawRule.HUB else (1, 2, 3):
                found = distribution_of(lambda rng, r=rule, n=k, law=q: tuple(r.children(law, n, rng)))
                assert found == dict(sequences(q, k, rule))


def test_paths_share_nodes_and_keep_their_multiplicity() -> None:
    half = np.array([HALF, HALF], dtype=object)
    world = st.World.constant(half, half)
    drafts = list(branches(lambda rng: st.Paths(2, 2, trunk=1).grow(world, rng)))
    assert sum(chance for _, chance in drafts) == 1
    for draft, _ in drafts:
        below_trunk = draft.draws[1]
        assert len(draft.draws[0]) == 1
        assert len(below_trunk) == 2
        assert all(len(draft.draws[child]) == below_trunk.count(child) for child in set(below_trunk))
    apart = [d for d, _ in branches(lambda rng: st.Paths(2, 1, rule=st.DrawRule.IID_APART).grow(world, rng))]
    assert all(draft.tree.budget == 2 for draft in apart)


class Fixed:
    """A generator whose uniform numbers are all the same."""

    def __init__(self, uniform: float) -> None:
        self.uniform = uniform

    def random(self) -> float:
        return self.uniform


@pytest.mark.parametrize(("kind", "other"), [("f", "f"), ("d", "d"), ("f", "d"), ("d", "f")])
def test_a_draw_inverts_the_cumulated_distribution(kind: str, other: str) -> None:
    """At every uniform number it is the token whose interval holds it, of p as of (p - q)+, and of every second p."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 300):
        p, q = (rng.dirichlet(np.full(size, 0.3)).astype(code) * (rng.random(size) < 0.8) for code in (kind, other))
        p[-1] += np.float32(1e-3)
        for distribution, less in ((p, None), (p, q), (p.repeat(2)[::2], q), (p, p * np.float32(0.5))):
            rest = distribution.astype(np.float64) - (0 if less is None else less)
            edges = np.maximum(rest, 0).cumsum()
            if edges[-1] == 0:
                continue
            for uniform in (0.0, *rng.random(20), 1 - 2.0**-53):
                wanted = int(edges.searchsorted(edges[-1] * uniform, side="right"))
                assert draw(distribution, Fixed(uniform), less=less) == wanted


def test_distributions_that_cannot_be_drawn_from_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be 1 or 2 for HUB, got 3"):
        st.DrawRule.HUB.children(np.array([0.5, 0.5]), 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="could not be broadcast"):
        draw(np.ones(8), np.random.default_rng(0), less=np.ones(3))
    with pytest.raises(ValueError, match="and no NaN"):
        draw(np.array([0.5, np.nan]), np.random.default_rng(0))
    with pytest.raises(ValueError, match="distribution must have a positive entry and no NaN"):
        list(branches(lambda rng: draw(np.zeros(2), rng)))
