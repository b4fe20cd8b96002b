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


def best_widths(case: SpineBudget) -> tuple[int, ...]:
    """The integer optimum by looking at every allocation."""
    return max(spread(case.length, case.branches), key=case.synergy)


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
