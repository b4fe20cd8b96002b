"""The harmonic rule that stands for Eq. (2) in Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from proofs_check.goose.allocation import Case, best_widths, cases
from proofs_check.goose.walks import chains, reached
from proofs_check.verdict import Verdict, claim, every, second, smallest
from spectheory import goose


@claim("G-P2-HARM", source="Goose, Section 3 after Proposition 2, and Algorithm 1")
def harmonic(effort: int) -> Verdict:
    """The harmonic rule, widths proportional to 1/i, keeps the falling shape and approximates the optimal allocation:
    its synergy term stays above some fixed share of the optimum, here 1/2, whatever 0 < p_t < p_s < 1, L and the
    budget.

    "Approximates" has no number in the text; a half is taken, and evidence goes on to smaller shares. Shares are
    rounded by largest remainders, as spectheory does; the text has no rounding.
    """

    def grid() -> Iterator[tuple[int, int, Fraction]]:
        for total in range(2, 40):
            yield from (
                (length, total - length, t) for length in range(2, total) for t in (Fraction(1, 9), Fraction(1, 99))
            )

    def share(length: int, branches: int, t: Fraction) -> Fraction:
        """With p_s = 2 p_t."""
        widths = goose.harmonic_widths(length, branches)
        return _synergy(2 * t, t, widths) / _synergy(2 * t, t, _greedy(2 * t, t, length, branches))

    length, branches, t = smallest(grid(), lambda case: share(*case) < Fraction(1, 2))
    further = [share(n, n, Fraction(1, n**3)) for n in (10, 100, 400)]

    def falling(case: tuple[int, int]) -> bool:
        widths = goose.harmonic_widths(*case)
        return list(widths) == sorted(widths, reverse=True) and sum(widths) == case[1]

    def dominated(case: Case) -> bool:
        return all(width * k <= case.branches for k, width in enumerate(best_widths(case), start=1))

    shapes = every(product(range(1, 21), range(61)), falling)
    count = every(cases(5 + effort, 4, spine_better=False), dominated)
    widths, best = goose.harmonic_widths(length, branches), _greedy(2 * t, t, length, branches)
    return Verdict(
        "corrected",
        f"The shape holds ({shapes} cases). Where both rates are small the optimum stands at the root and the rule "
        f"gives the root 1/H_L of it: shares of {', '.join(f'{float(one):.2f}' for one in further)} for L = branches "
        "= 10, 100, 400, p_t = 1/L^3, p_s = 2 p_t, and no fixed share holds. Proof of the repair: optimal widths fall "
        f"with k and sum to n, so b_k <= n/k (also seen in {count} cases): the rule's n/(k H_L) is at least b_k / "
        "H_L, and Q, concave with Q(0) = 0, gives at least Q(b_k) / H_L there.",
        "counterexample by search over L + branches; proof in words of the bound; enumeration of the shape for L <= "
        "20, branches <= 60",
        {"p_s": 2 * t, "p_t": t, "spine_length": length, "branches": branches, "harmonic": widths, "optimal": best}
        | {"share": share(length, branches, t)},
        "The rule keeps the falling shape, and before rounding its synergy term is at least 1/H_L of the optimum, "
        "H_L = 1 + 1/2 + ... + 1/L, for all rates; no share that does not fall with L holds.",
    )


def _synergy(s: Fraction, t: Fraction, widths: Sequence[int]) -> Fraction:
    return sum((s**k * (1 - s) * (1 - (1 - t) ** width) for k, width in enumerate(widths)), Fraction(0))


def _greedy(s: Fraction, t: Fraction, length: int, branches: int) -> tuple[int, ...]:
    return goose.allocate(s, t, length, branches).widths


@second("G-P2-HARM")
def harmonic_again(verdict: Verdict) -> str:
    """The tree with these widths, node by node, against the tree with all branches where the optimum has them."""
    case = verdict.counterexample or {}
    s, t, length = case["p_s"], case["p_t"], case["spine_length"]
    spine = reached(chains((0,) * length, 1), s, t)
    rule, best = (reached(chains(widths, 1), s, t) - spine for widths in (case["harmonic"], case["optimal"]))
    shares = [Fraction(1, k) for k in range(1, length + 1)]
    exact = [case["branches"] * one / sum(shares) for one in shares]
    assert all(abs(width - one) < 1 for width, one in zip(case["harmonic"], exact, strict=True))
    assert sum(case["harmonic"]) == sum(case["optimal"]) == case["branches"]
    assert rule / best == case["share"] < Fraction(1, 2)
    return "both trees valued node by node, without the formula of the synergy term."
