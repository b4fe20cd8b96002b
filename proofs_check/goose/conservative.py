"""Eq. (2) for correlated spine tokens: where the first mismatch is, and where the best branches then are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.allocation import spread
from proofs_check.goose.correlation import SpineOutcomes, simulated, together
from proofs_check.goose.walks import rates

SpineChances = tuple[Fraction, ...]
"""The chance of each spine token given that all before it are right."""


def breaks(chances: Sequence[Fraction]) -> list[Fraction]:
    """The probability of each token to be the first that is wrong."""
    found, reached = [], Fraction(1)
    for chance in chances:
        found.append(reached * (1 - chance))
        reached *= chance
    return found


def best_widths(chances: Sequence[Fraction], t: Fraction, branches: int) -> list[int] | None:
    """The best numbers of one-token branches, largest gains first; None where a tie leaves a choice."""
    gains = [(e * (1 - t) ** b, k) for k, e in enumerate(breaks(chances)) for b in range(branches)]
    gains.sort(reverse=True)
    if len(gains) > branches and gains[branches - 1][0] == gains[branches][0]:
        return None
    return [sum(k == at for _, k in gains[:branches]) for at in range(len(chances))]


def independent(chances: SpineChances) -> SpineChances:
    """The same with all tokens independent, of the first one's rate."""
    return (chances[0],) * len(chances)


def no_later(chances: SpineChances) -> bool:
    """Whether the first wrong token, if there is one, is stochastically no later than among independent tokens."""
    ours, theirs = breaks(chances), breaks(independent(chances))
    return all(a * sum(theirs) >= b * sum(ours) for a, b in zip(accumulate(ours), accumulate(theirs), strict=True))


def conservative(chances: SpineChances, t: Fraction, branches: int) -> bool:
    """Whether the best widths have no fewer branches on the first k nodes than those for independent tokens."""
    ours, theirs = (best_widths(one, t, branches) for one in (chances, independent(chances)))
    if ours is None or theirs is None:
        return True
    return all(a >= b for a, b in zip(accumulate(ours), accumulate(theirs), strict=True))


def joint(chances: Sequence[Fraction]) -> SpineOutcomes | None:
    """A distribution with these chances where each token is right with the probability of the first, pairs correlated.

    After a wrong token each is right independently. None where a pair is right less often than an independent pair.
    """
    s, reached = chances[0], Fraction(1)
    law: SpineOutcomes = {(): Fraction(1)}
    for chance in chances:
        other = (s - reached * chance) / (1 - reached) if reached < 1 else Fraction(0)
        new: SpineOutcomes = {}
        for right, weight in law.items():
            coin = chance if all(right) else other
            new |= {(*right, True): weight * coin, (*right, False): weight * (1 - coin)}
        law, reached = new, reached * chance
    pairs = combinations(range(len(chances)), 2)
    return law if all(together(law, pair) >= s * s for pair in pairs) else None


def cases(length: int, largest: int, most: int) -> Iterator[tuple[SpineChances, Fraction, int]]:
    """Spines of `length` tokens, each no less likely than the first given that all before it are right."""
    for t, s in product(rates(largest), rates(largest)):
        later = [c for c in (*rates(largest), Fraction(1)) if c >= s]
        for rest, branches in product(product(later, repeat=length - 1), range(1, most + 1)):
            if t < s and joint((s, *rest)):
                yield (s, *rest), t, branches


@claim("G-P2-CORR")
def remark(effort: int) -> Finding:
    late = smallest(cases(3, 3, 1), lambda chances, *_: not no_later(chances))
    chances, t, branches = smallest(cases(3, 4, 4), lambda *case: not conservative(*case))

    def values(chances: SpineChances, t: Fraction, branches: int) -> dict[str, Any]:
        ours, theirs = breaks(chances), breaks(independent(chances))
        return {
            "L": len(chances),
            "no_later": no_later(chances),
            "conservative": conservative(chances, t, branches),
            "first_share": ours[0] / sum(ours),
            "first_share_if_independent": theirs[0] / sum(theirs),
        }

    two, three = [*cases(2, 4 + effort, 6)], [*cases(3, 4, 1)]
    return Finding(
        {"count": len(two), "wider": len(three), "size": 4 + effort},
        {
            "chance_given_all_before": chances,
            "p_t": t,
            "branches": branches,
            "first_mismatch": breaks(chances),
            "first_mismatch_independent": breaks(independent(chances)),
            "best_widths": best_widths(chances, t, branches),
            "best_widths_independent": best_widths(independent(chances), t, branches),
            "later_in_law": {"chance_given_all_before": late[0], "first_mismatch": breaks(late[0])},
        },
        cases={"spine": (values(*one) for one in (late, (chances, t, branches), *two, *three))},
    )


@second("G-P2-CORR")
def remark_again(case: Case) -> None:
    """Second check: walk through every outcome of a distribution of such tokens, for every allocation."""
    t, branches = case["p_t"], case["branches"]
    for chances, widths in (
        (case["chance_given_all_before"], case["best_widths"]),
        ((case["chance_given_all_before"][0],) * 3, case["best_widths_independent"]),
    ):
        law = joint(chances)
        assert law is not None
        assert {together(law, (token,)) for token in range(3)} == {chances[0]}
        values = {parts: simulated(law, t, (parts, 1)) for parts in spread(3, branches)}
        assert [parts for parts, value in values.items() if value == max(values.values())] == [tuple(widths)]
    ours, theirs = case["best_widths"], case["best_widths_independent"]
    assert any(sum(ours[:k]) < sum(theirs[:k]) for k in (1, 2))
