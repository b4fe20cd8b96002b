"""Proposition 2: the number of branches beside each spine token.

The synergy term is a sum over k of w_k (1 - (1 - p_t)^b_k), w_k = p_s^{k-1} (1 - p_s), up to the factor 1 + E_ext.
With p_s = r^j and 1 - p_t = r^q the slope ln p_s / ln(1 - p_t) of Eq. (2) is j/q, so everything stays rational:
widths that are multiples of 1/q have rational values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.walks import rates
from spectheory import goose


@dataclass(frozen=True)
class SpineBudget:
    """p_s = root^j, 1 - p_t = root^q, L spine tokens and a budget of branches."""

    root: Fraction
    j: int
    q: int
    length: int
    branches: int

    @property
    def s(self) -> Fraction:
        return self.root**self.j

    @property
    def t(self) -> Fraction:
        return 1 - self.root**self.q

    def line(self) -> list[Fraction]:
        """The linear widths of Eq. (2); b_1 is such that they sum to the budget."""
        slope = Fraction(self.j, self.q)
        first = Fraction(self.branches, self.length) + slope * (self.length - 1) / 2
        return [first - k * slope for k in range(self.length)]

    def clipped(self) -> list[Fraction]:
        """The widths max(0, level - (k - 1) slope), with the level at which they sum to the budget."""
        for used in range(self.length, 0, -1):
            line = SpineBudget(self.root, self.j, self.q, used, self.branches).line()
            if line[-1] >= 0:
                return line + [Fraction(0)] * (self.length - used)
        raise ArithmeticError("no level uses the budget")

    def synergy(self, widths: Sequence[int | Fraction]) -> Fraction:
        """The synergy term as an exact Fraction, for widths that are multiples of 1/q."""
        powers = [Fraction(width) * self.q for width in widths]
        assert all(power.denominator == 1 for power in powers)
        found = (1 - self.root ** int(power) for power in powers)
        return sum((self.s**k * (1 - self.s) * q for k, q in enumerate(found)), Fraction(0))

    def shown(self) -> dict[str, object]:
        return {"p_s": self.s, "p_t": self.t, "spine_length": self.length, "branches": self.branches}


def spread(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    """Every way to split `total` into `parts` parts."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in spread(parts - 1, total - first))


def cases(size: int, roots: int, *, spine_better: bool = True) -> Iterator[SpineBudget]:
    """Cases with L + branches up to `size`, smallest first."""
    for total in range(2, size + 1):
        for length in range(1, total):
            for root, j, q in product(rates(roots), (1, 2, 3), (1, 2, 3)):
                case = SpineBudget(root, j, q, length, total - length)
                if case.s > case.t or not spine_better:
                    yield case


def rounded(case: SpineBudget) -> list[int]:
    """`clipped`, rounded by largest remainder; among equal remainders the shallower token comes first."""
    line = case.clipped()
    widths = [floor(width) for width in line]
    order = sorted(range(case.length), key=lambda k: (widths[k] - line[k], k))
    for k in order[: case.branches - sum(widths)]:
        widths[k] += 1
    return widths


def best_widths(case: SpineBudget) -> tuple[int, ...]:
    """The integer optimum by looking at every allocation."""
    return max(spread(case.length, case.branches), key=case.synergy)


@claim("G-P2-MARG")
def marginal(effort: int) -> Finding:
    t, b, s, k, level = sympy.symbols("t b s k level", positive=True)
    step = ((1 - (1 - t) ** (b + 1)) - (1 - (1 - t) ** b)) - t * (1 - t) ** b
    slope = sympy.diff(1 - (1 - t) ** b, b) + sympy.log(1 - t) * (1 - t) ** b
    exponent = (k - 1) * sympy.log(s) + (level - (k - 1) * sympy.log(s) / sympy.log(1 - t)) * sympy.log(1 - t)
    rests = {"difference": step, "derivative": slope, "exponent_along_the_line": sympy.diff(exponent, k)}
    return Finding(cases={"identity": [{name: sympy.simplify(rest) for name, rest in rests.items()}]})


@claim("G-P2-LIN")
def linear(effort: int) -> Finding:
    bad = smallest(cases(6, 5), lambda case: min(case.line()) < 0)

    def marginals(case: SpineBudget) -> dict[str, Any]:
        """Logarithms of the marginals to the base root < 1 at tokens with branches, and at the others."""
        widths = case.clipped()
        # (j (k-1) + q b_k) is the logarithm of the marginal to the base root < 1: the smaller, the larger the marginal
        power = [case.j * k + case.q * width for k, width in enumerate(widths)]
        inside = [one for one, width in zip(power, widths, strict=True) if width > 0]
        told = {"M": case.branches, "sum_of_widths": sum(widths), "least_width_of_line": min(case.line())}
        told |= {"r": Fraction(case.j, case.q), "L": case.length}
        return told | {"least_inside": min(inside), "most_inside": max(inside), "least": min(power)}

    def compared(case: SpineBudget) -> dict[str, Fraction]:
        """The best allocation in steps of 1/q."""
        grid = spread(case.length, case.branches * case.q)
        best = max(case.synergy([Fraction(part, case.q) for part in parts]) for parts in grid)
        return {"synergy_of_clipped_line": case.synergy(case.clipped()), "best_synergy_on_a_grid": best}

    size = 6 + 2 * effort
    each = [*cases(size, 4, spine_better=False)]
    enumerated = cases(5 + effort, 3, spine_better=False)
    tried = [c for c in enumerated if all((w * c.q).denominator == 1 for w in c.clipped())]
    return Finding(
        {"count": len(each), "tried": len(tried), "size": size, "enumerated": 5 + effort},
        {**bad.shown(), "slope": Fraction(bad.j, bad.q), "eq_2": bad.line(), "clipped": bad.clipped()},
        cases={
            "spine": (marginals(one) for one in (bad, *each)),
            "spine_on_a_grid": (compared(one) for one in tried),
        },
    )


@second("G-P2-LIN")
def linear_again(case: Case) -> None:
    """Second check: the library gives the same linear and clipped widths. By sympy, the derivative at the edge of the
    allowed widths is positive.
    """
    s, t, (first, last) = case["p_s"], case["p_t"], case["clipped"]
    found = goose.allocate(s, t, case["spine_length"], case["branches"])
    assert all(abs(x - float(y)) < 1e-12 for x, y in zip(found.linear, case["eq_2"], strict=True))
    assert all(abs(x - float(y)) < 1e-12 for x, y in zip(found.clipped, case["clipped"], strict=True))
    assert min(case["eq_2"]) < 0 == last
    assert sum(case["eq_2"]) == first == case["branches"]
    x = sympy.symbols("x")
    keep, rate = sympy.Rational(str(1 - t)), sympy.Rational(str(s))
    value = (1 - rate) * ((1 - keep**x) + rate * (1 - keep ** (case["branches"] - x)))
    assert sympy.simplify(sympy.diff(value, x).subs(x, first)).is_positive


@claim("G-P2-INT")
def integral(effort: int) -> Finding:
    legal = [case for case in cases(9, 3) if min(case.line()) >= 0]

    def nearest(case: SpineBudget) -> list[int]:
        return [floor(width + Fraction(1, 2)) for width in case.line()]

    def no_tie(case: SpineBudget) -> bool:
        return all((2 * width).denominator != 1 or width.denominator == 1 for width in case.line())

    bad = smallest(legal, lambda case: any(width.denominator > 1 for width in case.line()))
    over = smallest(legal, lambda case: no_tie(case) and sum(nearest(case)) != case.branches)
    size = 6 + effort

    def values(case: SpineBudget) -> dict[str, Any]:
        widths, best = rounded(case), case.synergy(best_widths(case))
        told = {"M": case.branches, "sum_of_rounded": sum(widths), "by_remainders": case.synergy(widths), "best": best}
        return told | {"sum_of_nearest": sum(nearest(case)), "least_width": min(case.line())}

    each = [*cases(size, 3, spine_better=False)]
    return Finding(
        {"count": len(each), "size": size},
        {
            **bad.shown(),
            "eq_2": bad.line(),
            "integer_optimum": best_widths(bad),
            "nearest": {**over.shown(), "eq_2": over.line(), "rounded": nearest(over), "optimum": best_widths(over)},
        },
        cases={
            "spine": (values(one) for one in (bad, over, *each)),
        },
    )


@second("G-P2-INT")
def integral_again(case: Case) -> None:
    """Second check: the library's greedy allocation, in Fractions, reaches the optimum."""
    for one, optimum in ((case, case["integer_optimum"]), (case["nearest"], case["nearest"]["optimum"])):
        found = goose.allocate(one["p_s"], one["p_t"], one["spine_length"], one["branches"])
        assert found.synergy(found.widths) == found.synergy(optimum)
        assert sum(found.widths) == one["branches"]
        assert all(abs(x - float(y)) < 1e-12 for x, y in zip(found.linear, one["eq_2"], strict=True))
    assert sum(case["nearest"]["rounded"]) != case["nearest"]["branches"]
    for one in cases(12, 3, spine_better=False):
        if one.length == one.branches:
            found = goose.allocate(one.s, one.t, one.length, one.branches)
            assert found.synergy(found.widths) == found.synergy(rounded(one))
