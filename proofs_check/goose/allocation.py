"""Proposition 2: the number of branches beside each spine token.

The synergy term is a sum over k of w_k (1 - (1 - p_t)^b_k), w_k = p_s^{k-1} (1 - p_s), up to the factor 1 + E_ext.
With p_s = r^j and 1 - p_t = r^q the slope ln p_s / ln(1 - p_t) of Eq. (2) is j/q, so everything stays rational:
widths that are multiples of 1/q have rational values.

The harmonic rule replaces Eq. (2) in Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.walks import chains, rates, reached
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


@claim("G-P2-HARM")
def harmonic(effort: int) -> Finding:
    rare = Fraction(1, 9), Fraction(1, 99)
    grid = ((length, total - length, t) for total in range(2, 40) for length in range(2, total) for t in rare)

    def share(length: int, branches: int, t: Fraction) -> Fraction:
        """The harmonic rule's share of the best synergy, with p_s = 2 p_t."""
        found = goose.allocate(2 * t, t, length, branches)
        return found.synergy(goose.harmonic_widths(length, branches)) / found.synergy(found.widths)

    length, branches, t = smallest(grid, lambda *case: share(*case) < Fraction(1, 2))
    further = [share(n, n, Fraction(1, n**3)) for n in (10, 100, 400)]

    def unrounded(case: SpineBudget) -> dict[str, Fraction | float]:
        widths = best_widths(case)
        most = max(width * k for k, width in enumerate(widths, start=1))
        total = sum((Fraction(1, k) for k in range(1, case.length + 1)), Fraction(0))
        rule = sum(
            float(case.s) ** (k - 1) * (1 - float(1 - case.t) ** float(case.branches / (k * total)))
            for k in range(1, case.length + 1)
        )
        best = float(case.synergy(widths) / (1 - case.s))
        return {"n": case.branches, "largest_k_b_k": most, "H_L": float(total), "harmonic": rule + 1e-12, "best": best}

    allocations = [*product(range(1, 21), range(61))]
    each = [*cases(5 + effort, 4, spine_better=False)]
    widths, best = goose.harmonic_widths(length, branches), goose.allocate(2 * t, t, length, branches).widths
    return Finding(
        {
            "shapes": len(allocations),
            "further_gaps": ", ".join(f"{float(one):.2f}" for one in further),
            "count": len(each),
        },
        {"p_s": 2 * t, "p_t": t, "spine_length": length, "branches": branches, "harmonic": widths, "optimal": best}
        | {"share": share(length, branches, t)},
        cases={
            "rates": [{"share": one} for one in (share(length, branches, t), *further)],
            "shape": (
                {"n": n, "widths": (w := goose.harmonic_widths(size, n)), "total": sum(w)} for size, n in allocations
            ),
            "spine": (unrounded(one) for one in each),
        },
    )


@second("G-P2-HARM")
def harmonic_again(case: Case) -> None:
    """Second check: add up the nodes of the tree with these widths, and of the tree with the optimal widths."""
    s, t, length = case["p_s"], case["p_t"], case["spine_length"]
    spine = reached(chains((0,) * length, 1), s, t)
    rule, best = (reached(chains(widths, 1), s, t) - spine for widths in (case["harmonic"], case["optimal"]))
    shares = [Fraction(1, k) for k in range(1, length + 1)]
    exact = [case["branches"] * one / sum(shares) for one in shares]
    assert all(abs(width - one) < 1 for width, one in zip(case["harmonic"], exact, strict=True))
    assert sum(case["harmonic"]) == sum(case["optimal"]) == case["branches"]
    assert rule / best == case["share"] < Fraction(1, 2)
