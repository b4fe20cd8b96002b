"""Proposition 3 and its consequences: two sources against one, for the same number of drafted nodes."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, every, second
from proofs_check.goose.budgets import (
    best_one_source_tree,
    budgets,
    ceiling,
    chain_trees,
    free_extensions,
    nodes_to_reach,
    one_source,
    pld,
    spine_with_chains,
    two_sources,
)
from proofs_check.goose.walks import TwoSourceTree, chain_tree, committed, pairs, rates, reached, shapes

CLOSE = (11, Fraction(7, 15), Fraction(6, 13))
"""Budget, p_s, p_t: found by search; smaller budgets, and smaller denominators for this one, have no such case."""
PAPER = (60, Fraction(31, 100), Fraction(3, 10), 6)
"""The paper's budget and branch depth."""
RATES = tuple(
    (Fraction(s), Fraction(t)) for s, t in (("1/2", "1/3"), ("2/3", "1/2"), ("3/5", "1/10"), ("9/10", "3/20"))
)
"""p_s, p_t: the budget from which one source wins is shown for these."""
LARGE = 10**12
"""Larger budgets are not counted."""


def compared(n: int, s: Fraction, t: Fraction) -> dict[str, Any]:
    """The best of one source with its tree against the best spine whose branches are chains; from first principles."""
    tree = best_one_source_tree(t, n)
    one, chains = 1 + one_source(t, n)[n], 1 + spine_with_chains(s, t, n)[n]
    if committed(tree, t, t) != one or one <= chains:
        raise ArithmeticError("one source does not win")
    return {"p_s": s, "p_t": t, "budget": n, "best_one_source": one, "best_spine_with_chains": chains, **tree.shown()}


def none_smaller(largest: int) -> int:
    """Check that below 11 nodes some spine with chains is as good as the best tree of one source, even for p_s = p_t.

    That is its worst case: the best spine with chains grows with p_s by the argument of G-P3-GAP.
    """
    return every(
        product(range(1, CLOSE[0]), rates(largest)), lambda n, t: spine_with_chains(t, t, n)[n] == one_source(t, n)[n]
    )


def again_by_trees(case: dict[str, Any]) -> int:
    """Value every spine with chains of that budget: none reaches the best of one source. Returns how many there are."""
    n, s, t = case["budget"], case["p_s"], case["p_t"]
    best, count = best_by_trees(n, s, t)
    assert best == case["best_spine_with_chains"] < case["best_one_source"]
    found = TwoSourceTree.best(0, t, n)
    assert committed(found, t, t) == case["best_one_source"]
    return count


@cache
def best_by_trees(n: int, s: Fraction, t: Fraction) -> tuple[Fraction, int]:
    """The best yield of a spine with chains by valuing each, and how many there are."""
    values = [reached(chain_tree(fans), s, t) for fans in chain_trees(n)]
    return max(values), len(values)


def recursion_is_exact(effort: int) -> int:
    """The recursions against every tree of two sources, outcome by outcome."""
    return every(
        budgets(4 + effort, [*pairs(3), (Fraction(3, 5), Fraction(2, 5))]),
        lambda n, s, t: max(committed(shape, s, t) for shape in shapes(n)) == 1 + two_sources(s, t, n)[n],
    )


def best_of(n: int, s: Fraction, t: Fraction) -> dict[str, Fraction]:
    """The best yields with n nodes: of either source alone, of a spine with chains, and of all trees of two sources."""
    return {
        "chain": 1 + pld(s, n),
        "one_source": 1 + one_source(t, n)[n],
        "spine_with_chains": 1 + spine_with_chains(s, t, n)[n],
        "two_sources": 1 + two_sources(s, t, n)[n],
    }


@claim("G-P1-SPECIAL")
def special_cases(effort: int) -> Finding:
    case = compared(*CLOSE)
    small = none_smaller(8 + 8 * effort)
    recursion = recursion_is_exact(effort)
    each = [*budgets(11 + 10 * effort, pairs(5))]
    return Finding(
        {"close": CLOSE[0], "small": small, "both": len(each), "recursion": recursion, "budget": 10 + 10 * effort},
        case,
        cases={"rates_of_the_family": [best_of(*CLOSE)], "rates": (best_of(*one) for one in each)},
    )


@second("G-P1-SPECIAL")
def special_cases_again(case: Case) -> dict[str, Any]:
    """Second check: build every tree of the family and compute its value."""
    return {"count": again_by_trees(case)}


@claim("G-P3-DOM")
def dominance(effort: int) -> Finding:
    case = compared(*CLOSE)
    n, s, t, depth = PAPER
    one, printed = one_source(t, n)[n], free_extensions(s, t, depth, n)[n]
    if one <= printed or one <= spine_with_chains(s, t, n)[n]:
        raise ArithmeticError("the spine tree wins at the paper's budget")
    small = none_smaller(8 + 8 * effort)
    recursion = recursion_is_exact(effort)
    most = 15 * effort
    each = [*budgets(most + 1, pairs(6))]
    wins = {one: nodes_to_reach(ceiling(*one), one[1], LARGE) for one in RATES}
    return Finding(
        {
            "bounded": len([*pairs(6)]),
            "wins": ", ".join(f"{found:,} nodes" if found else f"more than {LARGE:,}" for found in wins.values()),
            "n": n,
            "s": s,
            "t": t,
            "best": 1 + one,
            "spine": 1 + spine_with_chains(s, t, n)[n],
            "printed_yield": 1 + printed,
            "close": CLOSE[0],
            "small": small,
            "count": len(each),
            "recursion": recursion,
            "most": most,
        },
        case
        | {"paper_budget": {"budget": n, "p_s": s, "p_t": t, "branch_depth": depth}}
        | {
            "one_source_wins_from": [
                {"p_s": s, "p_t": t, "spine_with_chains_below": 1 + ceiling(s, t), "budget": budget}
                for (s, t), budget in wins.items()
            ]
        },
        cases={
            "rates_of_the_family": [best_of(*CLOSE), best_of(n, s, t)],
            "rates": ({"one_source": one_source(b, m)[m], "two_sources": two_sources(a, b, m)[m]} for m, a, b in each),
            "pair_of_rates": (
                {"spine_with_chains": max(spine_with_chains(a, b, most)), "bound": ceiling(a, b)} for a, b in pairs(6)
            ),
        },
    )


@second("G-P3-DOM")
def dominance_again(case: Case) -> dict[str, Any]:
    """Second check: build every spine with chains. At the paper's budget, use the library's search."""
    count = again_by_trees(case)
    n, s, t = case["paper_budget"]["budget"], case["paper_budget"]["p_s"], case["paper_budget"]["p_t"]
    both, one = TwoSourceTree.best(s, t, n), TwoSourceTree.best(0, t, n)
    assert reached(both, s, t) == 1 + two_sources(s, t, n)[n] > reached(one, t, t) == 1 + one_source(t, n)[n]
    depth = case["paper_budget"]["branch_depth"]
    most = 1 + s / (1 - s) + sum(t**j for j in range(depth))
    assert most < reached(one, t, t)
    for found in case["one_source_wins_from"][:2]:
        t, n = found["p_t"], found["budget"]
        larger, smaller = (reached(TwoSourceTree.best(0, t, nodes), t, t) for nodes in (n, n - 1))
        assert larger >= found["spine_with_chains_below"] > smaller
    wide = 1 - Fraction(1, 2) ** 6
    assert sum(wide**depth for depth in range(6)) > case["one_source_wins_from"][1]["spine_with_chains_below"]
    assert reached(balanced(6, 2), Fraction(1, 2), Fraction(1, 2)) == 1 + wide + wide**2
    return {"spines": count, "ceiling": most}


def balanced(children: int, depth: int) -> TwoSourceTree:
    """The tree of one source whose nodes down to `depth` - 1 all have `children` children."""
    parent, layer = [-1], [0]
    for _ in range(depth):
        first = len(parent)
        parent += [node for node in layer for _ in range(children)]
        layer = range(first, len(parent))
    return TwoSourceTree(tuple(parent), (True,) + (False,) * (len(parent) - 1))
