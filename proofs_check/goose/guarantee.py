"""Proposition 4: never worse than either source alone, whatever the budget; and the walk that verifies the tree."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.budgets import budgets, one_source, pld, two_sources
from proofs_check.goose.walks import TwoSourceTree, coins, committed, pairs, reached, shapes, walked
from spectheory import goose

BYPASS = 8
"""The match length from which the method drafts only the chain (Section 4.3)."""


@cache
def with_spine(s: Fraction, t: Fraction, n: int, most: int) -> Fraction:
    """Accepted tokens of the best tree of n nodes with at most `most` spine tokens, whatever its branches."""
    off = one_source(t, n)
    if most == 0 or n == 0:
        return off[n]
    forked = (s * (1 + with_spine(s, t, m, most - 1)) + (1 - s) * off[n - 1 - m] for m in range(n))
    return max(off[n], *forked)


def spine_of(shape: TwoSourceTree) -> int:
    """Number of spine tokens."""
    return sum(shape.spine) - 1


def _spine_first(shape: TwoSourceTree) -> bool:
    """Whether the walk takes the spine's right tokens first, in every outcome."""
    chain, node = [], 0
    while below := [child for child in shape.children[node] if shape.spine[child]]:
        node = below[0]
        chain.append(node)
    for right, _ in coins([Fraction(1, 2)] * (len(shape.parent) - 1)):
        first_wrong = next((k for k, token in enumerate(chain) if not right[token - 1]), len(chain))
        if walked(shape, right) < first_wrong:
            return False
    return True


@claim("G-P4-PLD")
def against_chain(effort: int) -> Finding:
    # with rho = 1/2 and rho B whole, so that its rounding does not matter
    matches = [(n, m, s, t) for n in range(2, 9, 2) for m in range(1, BYPASS) for s, t in pairs(4)]
    n, m, s, t = smallest(matches, lambda n, m, s, t: with_spine(s, t, n, min(m, n // 2)) < pld(s, min(m, n)))
    large = {"p_s": Fraction(9, 10), "p_t": Fraction(1, 100), "budget": 40, "match": 7, "spine_ratio": Fraction(3, 20)}
    if with_spine(large["p_s"], large["p_t"], 40, 6) >= pld(large["p_s"], 7):
        raise ArithmeticError("a spine of 6 does not lose")

    trees = [shape for n in range(1, 5 + effort) for shape in shapes(n)]

    def method(n: int, m: int, s: Fraction, t: Fraction) -> dict[str, Fraction | int]:
        best = 1 + with_spine(s, t, n, min(m, n // 2))
        return {"match": min(m, n), "longest_spine": n // 2, "yield_of_method": best, "chain": 1 + pld(s, min(m, n))}

    return Finding(
        {"count": len(trees), "size": 4 + effort, "bypass": BYPASS, "rho": "0.15"}
        | {"nodes": smallest(range(1, 100), lambda nodes: Fraction("0.15") * nodes >= BYPASS - 1)},
        {"p_s": s, "p_t": t, "budget": n, "match": m, "spine_ratio": Fraction(1, 2), "chain": 1 + pld(s, min(m, n))}
        | {"best_with_cut_spine": 1 + with_spine(s, t, n, n // 2), "parent": [-1, 0, 0], "large": large},
        cases={
            "match": (method(*one) for one in matches),
            "tree": ({"walk_takes_the_spine_first": _spine_first(shape)} for shape in trees),
        },
    )


@second("G-P4-PLD")
def against_chain_again(case: Case) -> None:
    """Second check: add up the outcomes of all trees with so short a spine. The tree that the library builds by
    Algorithm 1 is also worse than the chain.
    """
    n, s, t = case["budget"], case["p_s"], case["p_t"]
    chain = TwoSourceTree(tuple(range(-1, min(case["match"], n))), (True,) * (min(case["match"], n) + 1))
    short = [shape for shape in shapes(n) if spine_of(shape) <= n // 2]
    assert max(committed(shape, s, t) for shape in short) == case["best_with_cut_spine"]
    assert committed(chain, s, t) == case["chain"] > case["best_with_cut_spine"]
    for one, budget in ((case, n), (case["large"], 40)):
        s, t, m = one["p_s"], one["p_t"], one["match"]
        built = TwoSourceTree.of_library(
            goose.spine_tree(float(s), float(t), budget, m, spine_ratio=float(one["spine_ratio"]))
        )
        assert reached(built, s, t) < 1 + pld(s, min(m, budget))


@claim("G-P4-TR")
def against_transitions(effort: int) -> Finding:
    n, s, t = smallest(budgets(5, pairs(6)), lambda n, s, t: pld(s, n) < one_source(t, n)[n])
    half, low, most = Fraction(1, 2), Fraction(3, 10), 60
    bypassed, alone = pld(half, most), one_source(low, most)[most]
    built = [
        TwoSourceTree.of_library(goose.spine_tree(0.4, 0.3, most, m, spine_ratio=rho))
        for m in range(1, BYPASS)
        for rho in (0.15, 0.3, 0.5)
    ]
    harmonic = max(reached(shape, Fraction(2, 5), low) for shape in built)
    if not (bypassed < alone and harmonic < 1 + alone):
        raise ArithmeticError("the method does not lose at 60 nodes")

    def values(n: int, s: Fraction, t: Fraction) -> dict[str, Fraction | int]:
        told = {"chain": pld(s, n), "best": two_sources(s, t, n)[n], "transitions": one_source(t, n)[n]}
        return told | {"n": n, "p_s": s, "p_t": t}

    size = 15 * effort
    each = [*budgets(size + 1, pairs(6))]
    at_60 = [{"method": bypassed, "transitions": alone}, {"method": harmonic - 1, "transitions": alone}]
    return Finding(
        {"bypassed_yield": 1 + bypassed, "alone_yield": 1 + alone, "harmonic": harmonic}
        | {"count": len(each), "size": size},
        {"p_s": s, "p_t": t, "budget": n, "chain": 1 + pld(s, n), "transitions": 1 + one_source(t, n)[n]}
        | {"parent": list(range(-1, n)), "paper_budget": {"p_s": half, "p_t": low, "budget": most}},
        cases={"tree_of_60_nodes": at_60, "rates": (values(*one) for one in each)},
    )


@second("G-P4-TR")
def against_transitions_again(case: Case) -> None:
    """Second check: add up the outcomes of all trees. At the paper's budget, compare the library's trees."""
    n, s, t = case["budget"], case["p_s"], case["p_t"]
    assert committed(TwoSourceTree(tuple(case["parent"]), (True,) * (n + 1)), s, t) == case["chain"]
    best = max(committed(shape, s, t) for shape in shapes(n) if spine_of(shape) == 0)
    assert best == case["transitions"] > case["chain"]
    s, t, n = case["paper_budget"]["p_s"], case["paper_budget"]["p_t"], case["paper_budget"]["budget"]
    bypass = TwoSourceTree.of_library(goose.spine_tree(float(s), float(t), n, BYPASS))
    one, both = TwoSourceTree.best(0, t, n), TwoSourceTree.best(s, t, n)
    assert reached(bypass, s, t) < 2 < reached(one, t, t) == 1 + one_source(t, n)[n] < reached(both, s, t)
