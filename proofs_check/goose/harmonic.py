"""The harmonic rule that replaces Eq. (2) in Algorithm 1."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from proofs_check.claims import Case, Finding, claim, second, smallest
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
