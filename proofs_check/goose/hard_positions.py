"""Eq. (1) where the two sources fail together: each position is hard or easy for both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.bound import eq_1
from spectheory import goose

Outcome = tuple[bool, bool]
"""Whether the token of the spine's source is right, and the token of the other source."""


@dataclass(frozen=True)
class Position:
    """The chances that both sources are right at a position, only the spine's, only the other one, and neither."""

    both: Fraction
    spine: Fraction
    branch: Fraction
    neither: Fraction

    @property
    def s(self) -> Fraction:
        """The share of positions at which the spine's source is right."""
        return self.both + self.spine

    @property
    def t(self) -> Fraction:
        """The share of positions at which the other source is right."""
        return self.both + self.branch

    @property
    def given_failure(self) -> Fraction:
        """The rate of the other source where the spine's is wrong."""
        return self.branch / (self.branch + self.neither)

    @property
    def chances(self) -> dict[Outcome, Fraction]:
        """The chance of each outcome."""
        chances = (self.both, self.spine, self.branch, self.neither)
        outcomes = ((True, True), (True, False), (False, True), (False, False))
        return dict(zip(outcomes, chances, strict=True))


def positions(largest: int) -> Iterator[Position]:
    """Positions with a common denominator up to `largest` and 0 < p_t < p_s < 1, simplest first."""
    for whole in range(2, largest + 1):
        for both, spine, branch in product(range(whole + 1), repeat=3):
            if both + spine + branch <= whole:
                rest = whole - both - spine - branch
                one = Position(*(Fraction(part, whole) for part in (both, spine, branch, rest)))
                if 0 < one.t < one.s < 1:
                    yield one


def played(position: Position, length: int) -> Fraction:
    """E[tau] of a spine with a branch of one token beside each of its tokens, over all outcomes of the positions.

    Where both sources are right they propose the same token, which is drafted once, on the spine.
    """
    total = Fraction(1)
    for outcome in product(position.chances.items(), repeat=length):
        weight = prod((chance for _, chance in outcome), start=Fraction(1))
        right = [one for one, _ in outcome]
        on_spine = next((k for k, (spine, _) in enumerate(right) if not spine), length)
        total += weight * (on_spine + (on_spine < length and right[on_spine][1]))
    return total


@claim("G-P1-HARD")
def hard_positions(effort: int) -> Finding:
    """Proof: the first wrong spine token is token k with probability p_s^(k-1) (1 - p_s), and then the branch is right
    with the rate c given that failure, so the yield is Eq. (1) with c for p_t. It is at least Eq. (1) iff c >= p_t:
    P(neither) P(both) <= P(spine only) P(branch only).
    """

    def values(position: Position, length: int) -> dict[str, Fraction]:
        ones = (1,) * length
        return {
            "true_yield": played(position, length),
            "Eq_1": eq_1(position.s, position.t, ones, 1),
            "Eq_1_with_c": eq_1(position.s, position.given_failure, ones, 1),
            "c": position.given_failure,
            "p_t": position.t,
        }

    bad = smallest(positions(6), lambda one: played(one, 1) < eq_1(one.s, one.t, (1,), 1))
    size = 6 + 2 * effort
    count = len([*product(positions(size), (1, 2, 3))])
    distinct = sum(one.both == 0 for one in positions(size))
    return Finding(
        {"count": count, "size": size, "distinct": distinct}
        | {"s": bad.s, "t": bad.t, "printed": eq_1(bad.s, bad.t, (1,), 1), "true": played(bad, 1)},
        {"both_right": bad.both, "spine_only": bad.spine, "branch_only": bad.branch, "neither": bad.neither}
        | {"p_s": bad.s, "p_t": bad.t, "p_t_where_the_spine_fails": bad.given_failure, "widths": (1,)}
        | {"eq_1": eq_1(bad.s, bad.t, (1,), 1), "yield": played(bad, 1), "parent": [-1, 0, 0], "spine_nodes": [1]},
        cases={
            "position": (values(*one) for one in product(positions(size), (1, 2, 3))),
            "position_of_distinct_tokens": (values(one, 2) for one in positions(size) if one.both == 0),
        },
    )


@second("G-P1-HARD")
def hard_positions_again(case: Case) -> None:
    """Second check: the library's bound, and a walk over texts of equally likely positions of each kind."""
    s, t = case["p_s"], case["p_t"]
    assert goose.spine_bound(s, t, 1, case["widths"], 1) == case["eq_1"] > case["yield"]
    kinds = [case[name] for name in ("both_right", "spine_only", "branch_only", "neither")]
    whole = max(kind.denominator for kind in kinds)
    places = [kind for kind, share in enumerate(kinds) for _ in range(int(share * whole))]
    assert len(places) == whole
    tokens = [1 + (kind < 3) for kind in places]  # the walk takes a token unless both sources are wrong
    assert Fraction(sum(tokens), whole) == case["yield"]
    assert goose.spine_bound(s, case["p_t_where_the_spine_fails"], 1, case["widths"], 1) == case["yield"]
