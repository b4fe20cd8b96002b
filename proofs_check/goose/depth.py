"""How deep the spine of a best tree is at the ratio of rates that the paper measures."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.budgets import best_first, two_sources
from proofs_check.goose.walks import TwoSourceTree, committed, depths, pairs, reached, shapes
from proofs_check.printed import decimals

RATIOS = tuple(map(Fraction, (2, 6, 18)))
"""p_s / p_t: the least, the median and the largest that the abstract gives."""
BUDGET, SHALLOW, DEEP = 60, 9, 30
"""The method's nodes, and its spines at the ratios 0.15 and 0.5."""


@cache
def spine_length(s: Fraction, ratio: Fraction) -> int:
    """Spine tokens of the best tree of 60 nodes with p_s / p_t = ratio."""
    return best_first(s, s / ratio, BUDGET).spine


def least(tokens: int, ratio: Fraction) -> Fraction:
    """The smallest p_s, in hundredths, from which on the spine has at least `tokens` tokens."""
    hundredths = [Fraction(h, 100) for h in range(1, 100)]
    enough = [s for s in hundredths if spine_length(s, ratio) >= tokens]
    if enough != hundredths[-len(enough) :]:
        raise ArithmeticError("a larger p_s has a shorter spine")
    return enough[0]


@cache
def fans(s: Fraction, t: Fraction, n: int) -> list[tuple[int, int]]:
    """Width and depth of the branches below each spine node in the best tree; nodes without branches are left out.

    The width is the number of branches, the depth the tokens on their longest path. The best tree has the n largest
    values; among equal ones the spine comes first, then the shallower node.
    """
    offers = [
        (-(s ** (k + 1)), False, k + 1, k, 0) for k in range(n)
    ]  # -value, off, depth, spine node, siblings before
    spines, branches, missed = ([one**power for power in range(n + 1)] for one in (s, t, 1 - t))
    for k, a, b in product(range(n), range(1, n + 1), range(n)):
        if k + a + b <= n:
            offers += [(-(1 - s) * spines[k] * branches[a] * missed[b], True, k + a, k, b)] * comb(a + b - 1, b)
    taken = [one for one in sorted(offers)[:n] if one[1]]
    below = [[one for one in taken if one[3] == k] for k in range(n)]
    return [(sum(one[2] == k + 1 for one in fan), max(one[2] for one in fan) - k) for k, fan in enumerate(below) if fan]


def fans_of(shape: TwoSourceTree) -> list[tuple[int, int]]:
    """`fans` of a tree with its nodes."""
    deep = depths(shape)
    found: dict[int, list[int]] = {}
    for node in range(1, len(shape.parent)):
        if not shape.spine[node]:
            top = node
            while not shape.spine[top]:
                top = shape.parent[top]
            found.setdefault(top, []).append(deep[node] - deep[top])
    return [(found[top].count(1), max(found[top])) for top in sorted(found)]


@claim("G-SPINE")
def spine_is_deepest(effort: int) -> Finding:
    def narrow(n: int, rates: tuple[Fraction, Fraction]) -> bool:
        return any(width < depth for width, depth in fans(*rates, n))

    def shaped(n: int, rates: tuple[Fraction, Fraction]) -> Iterator[dict[str, Any]]:
        yield from ({"p_t": rates[1], "width": width, "depth": depth} for width, depth in fans(*rates, n))

    n, (s, t) = smallest(product(range(1, 9), pairs(7)), narrow)
    branches = [*product(range(1, 8 + effort), pairs(4 + effort))]

    def deepest(n: int, rates: tuple[Fraction, Fraction]) -> dict[str, Any]:
        s, t = rates
        best = best_first(s, t, n)
        found = TwoSourceTree.best(s, t, n)
        told = {"by_values": best.accepted, "by_recursion": two_sources(s, t, n)[n], "depth": best.depth}
        return told | {"by_nodes": reached(found, s, t) - 1, "spine": best.spine}

    trees = [*product(range(1, 11 + 10 * effort), pairs(5))]
    return Finding(
        {"count": len(trees), "budget": 10 + 10 * effort, "wide": len(branches), "nodes": 7 + effort},
        {"p_s": s, "p_t": t, "budget": n, "width_and_depth_of_branches": fans(s, t, n)}
        | TwoSourceTree.best(s, t, n).shown(),
        cases={
            "tree": (deepest(*one) for one in trees),
            "fan": (fan for one in ((n, (s, t)), *branches) for fan in shaped(*one)),
        },
    )


@second("G-SPINE")
def spine_is_deepest_again(case: Case) -> None:
    """Second check: of all trees with this budget, the tree drawn alone has the largest yield, outcome by outcome, and
    some of its branches are deeper than wide.
    """
    n, s, t = case["budget"], case["p_s"], case["p_t"]
    drawn = TwoSourceTree.of_case(case)
    yields = [reached(shape, s, t) for shape in shapes(n)]
    assert committed(drawn, s, t) == max(yields)
    assert yields.count(max(yields)) == 1
    assert sorted(fans_of(drawn)) == sorted(case["width_and_depth_of_branches"])
    assert any(width < depth for width, depth in fans_of(drawn))


@claim("G-SPINE-N")
def deep_spine(effort: int) -> Finding:
    tenths = [Fraction(tenth, 10) for tenth in range(1, 10)]
    by_rate = {ratio: {s: spine_length(s, ratio) for s in tenths} for ratio in RATIOS}
    enough = {ratio: (least(SHALLOW, ratio), least(DEEP, ratio)) for ratio in RATIOS}
    median = RATIOS[1]
    s = max(s for s in tenths if spine_length(s, median) < SHALLOW)
    shallow, deep = (", ".join(map(decimals, each)) for each in zip(*enough.values(), strict=True))
    return Finding(
        {"few": SHALLOW, "budget": BUDGET, "shallow": shallow, "many": DEEP, "deep": deep},
        {
            "p_s": s,
            "p_t": s / median,
            "budget": BUDGET,
            "spine_of_the_best_tree": spine_length(s, median),
            "smallest_in_the_method": SHALLOW,
        }
        | {f"spine_by_p_s_at_ratio_{ratio}": found for ratio, found in by_rate.items()},
        cases={
            "rates": (
                {"p_s": s, "spine": spine_length(s, ratio), "from_9": enough[ratio][0], "from_30": enough[ratio][1]}
                for ratio in RATIOS
                for s in (Fraction(h, 100) for h in range(1, 100))
            )
        },
    )


@second("G-SPINE-N")
def deep_spine_again(case: Case) -> None:
    """Second check: the library's best trees have the same spines at all settings of the case. At its p_s and p_t the
    recursion over budgets gives the same number of tokens.
    """
    for ratio in RATIOS:
        for s, tokens in case[f"spine_by_p_s_at_ratio_{ratio}"].items():
            assert sum(TwoSourceTree.best(s, s / ratio, BUDGET).spine) - 1 == tokens
    s, t, n = case["p_s"], case["p_t"], case["budget"]
    best = TwoSourceTree.best(s, t, n)
    assert reached(best, s, t) == 1 + two_sources(s, t, n)[n]
    assert sum(best.spine) - 1 == case["spine_of_the_best_tree"] < case["smallest_in_the_method"]
