"""Where the line of Eq. (2) gives numbers of branches, at the paper's budget too."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.allocation import SpineBudget, cases
from proofs_check.goose.depth import BUDGET, DEEP, SHALLOW
from proofs_check.printed import decimals
from spectheory import goose

MEDIAN = 6
"""p_s / p_t: the median of the abstract."""
SPINES = (SHALLOW, 15, DEEP)
"""Spine tokens of 60 nodes: the least, a middle one and the most of the method."""


def enough(length: int, branches: int, s: Fraction, t: Fraction) -> bool:
    """Whether M >= r L (L - 1) / 2 with r = ln p_s / ln(1 - p_t), in whole powers: p_s^(L (L-1)/2) >= (1 - p_t)^M."""
    return s ** (length * (length - 1) // 2) >= (1 - t) ** branches


def least_rate(length: int) -> Fraction:
    """The smallest p_s in hundredths from which on Eq. (2) has no negative width at the paper's budget."""
    hundredths = [Fraction(h, 100) for h in range(1, 100)]
    valid = [s for s in hundredths if enough(length, BUDGET - length, s, s / MEDIAN)]
    if valid != hundredths[-len(valid) :]:
        raise ArithmeticError("a larger p_s makes the line steeper")
    return valid[0]


@claim("G-P2-RANGE")
def range_of_the_line(effort: int) -> Finding:
    """Proof: the line falls, so its least width is the last, b_L = M / L - r (L - 1) / 2, by its sum M."""
    bad = smallest(cases(6, 5), lambda case: min(case.line()) < 0)

    def values(case: SpineBudget) -> dict[str, Any]:
        return {"M": case.branches, "r": Fraction(case.j, case.q), "L": case.length, "least_width": min(case.line())}

    size = 8 + 2 * effort
    each = [*cases(size, 4, spine_better=False)]
    least = {length: least_rate(length) for length in SPINES}
    return Finding(
        {"count": len(each), "size": size, "budget": BUDGET, "spines": ", ".join(map(str, SPINES)), "ratio": MEDIAN}
        | {"least": ", ".join(map(decimals, least.values()))},
        {**bad.shown(), "slope": Fraction(bad.j, bad.q), "eq_2": bad.line()}
        | {"valid_from": [{"spine_length": length, "p_s": s} for length, s in least.items()]},
        cases={"spine": (values(one) for one in each)},
    )


@second("G-P2-RANGE")
def range_again(case: Case) -> None:
    """Second check: the library's line is negative below the stated rates and not at them."""
    found = goose.allocate(case["p_s"], case["p_t"], case["spine_length"], case["branches"]).linear
    assert all(abs(one - float(other)) < 1e-12 for one, other in zip(found, case["eq_2"], strict=True))
    assert min(case["eq_2"]) < 0
    for one in case["valid_from"]:
        length, s = one["spine_length"], one["p_s"]
        lines = [goose.allocate(p, p / MEDIAN, length, BUDGET - length).linear for p in (s, s - Fraction(1, 100))]
        assert min(lines[0]) >= 0 > min(lines[1])
