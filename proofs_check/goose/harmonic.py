"""The harmonic rule that replaces Eq. (2) in Algorithm 1."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from proofs_check.claims import Case, Finding, claim, every, second, smallest
from proofs_check.goose.allocation import SpineBudget, best_widths, cases
from proofs_check.goose.walks import chains, reached
from spectheory import goose


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

    def falling(length: int, branches: int) -> bool:
        widths = goose.harmonic_widths(length, branches)
        return list(widths) == sorted(widths, reverse=True) and sum(widths) == branches

    def dominated(case: SpineBudget) -> bool:
        return all(width * k <= case.branches for k, width in enumerate(best_widths(case), start=1))

    shapes = every(product(range(1, 21), range(61)), falling)
    count = every(cases(5 + effort, 4, spine_better=False), dominated)
    widths, best = goose.harmonic_widths(length, branches), goose.allocate(2 * t, t, length, branches).widths
    return Finding(
        {"shapes": shapes, "further_gaps": ", ".join(f"{float(one):.2f}" for one in further), "count": count},
        {"p_s": 2 * t, "p_t": t, "spine_length": length, "branches": branches, "harmonic": widths, "optimal": best}
        | {"share": share(length, branches, t)},
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
