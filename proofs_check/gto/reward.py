"""GTO, Section 3.1: the lengths L_i, the reward r, its bounds and limits, and the expectation it is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any

import numpy as np
import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.trees import ETAS, drawn, leaves, lengths, sign, times
from proofs_check.small_drafts import Hat, Nodes, accepted, drafts, texts, trees, worth
from spectheory import Tree, gto


def grids(effort: int) -> tuple[tuple[int, int, int], ...]:
    """Depth, tokens and largest denominator of the targets."""
    return ((1, 4, 5), (2, 2, 4), (3, 2, 2)) if effort == 1 else ((1, 4, 7), (2, 3, 3), (3, 2, 3))


def words(effort: int) -> str:
    """The cases of `planted` in words."""
    named = ", ".join(f"{d} deep with {v} tokens and denominators to {m}" for d, v, m in grids(effort))
    return f"all trees of up to 3 drafted nodes (4 where all are siblings) under all targets {named}, zeros included"


def planted(effort: int) -> Iterator[tuple[Nodes, Hat]]:
    """Trees and targets, small trees first."""
    for size in range(1, 5):
        for grid in grids(effort):
            for target in drafts(*grid):
                if size < 4 or grid[0] == 1:
                    yield from ((tree, target) for tree in trees(frozenset(target), size) if len(tree) == size)


def supported(effort: int) -> Iterator[tuple[Nodes, Hat]]:
    """The cases of `planted` under targets with full support."""
    return ((tree, target) for tree, target in planted(effort) if min(target.values()) > 0)


def branches(effort: int) -> Iterator[tuple[list[Fraction], Fraction]]:
    """Every distinct list of branch lengths, with every eta."""
    seen = {tuple(sorted(lengths(tree, target))) for tree, target in planted(effort)}
    return ((list(case), eta) for case, eta in product(sorted(seen), ETAS))


def library_tree(case: dict[str, Any]) -> tuple[Tree, np.ndarray]:
    """The tree of `drawn` for the library, with the target's probability at each node given its parent."""
    p, parent = case["p"], case["parent"]
    rate = [Fraction(1)] + [p[v] / p[parent[v]] if p[parent[v]] else Fraction(0) for v in range(1, len(p))]
    return Tree(parent), np.array([float(one) for one in rate])


@claim("T-TAIL")
def tail_sum(effort: int) -> Finding:
    def values(tree: Nodes, target: Hat) -> dict[str, Fraction]:
        ends = leaves(tree)
        tails = (
            p
            for text, p in texts(target)
            for j in range(1, 1 + max(map(len, ends)))
            if any(len(end) >= j and end[:j] == text[:j] for end in ends)
        )
        total, by_nodes = sum(tails, Fraction(0)), worth(tree, target)
        return {"sum_of_tails": total, "sum_over_nodes": by_nodes, "accepted": accepted(tree, target)}

    found = [values(*one) for one in planted(effort)]
    return Finding({"count": len(found), "cases": words(effort)}, cases={"tree": found})


@claim("T-BOUND")
def bounds(effort: int) -> Finding:
    def values(each: list[Fraction], eta: Fraction) -> dict[str, int]:
        most, size = eta * max(each), len(each)
        low, high = sign(times(each, eta), [most]), sign(times(each, eta), [most] * size)
        return {"r_less_max": low, "r_less_bound": high, "N": size, "different": len(set(each))}

    found = [values(*one) for one in branches(effort)]
    return Finding({"count": len(found), "cases": words(effort)}, cases={"tree": found})


@claim("T-REWARD")
def equality(effort: int) -> Finding:
    one = Fraction(1)

    def differs(tree: Nodes, target: Hat, eta: Fraction = one) -> bool:
        return sign(times(lengths(tree, target), eta), [eta * worth(tree, target)]) != 0

    def values(tree: Nodes, target: Hat, eta: Fraction) -> dict[str, Any]:
        each, kept = lengths(tree, target), worth(tree, target)
        apart = sign(times(each, eta), [eta * kept])
        above = sign(times(each, eta), [eta * kept] * len(each))
        told = {"r_less_E": apart, "r_less_E_and_log": above, "branches": len(each), "max_L": max(each)}
        return told | {"sum_L": sum(each, Fraction(0)), "E": kept}

    tree, target = smallest(supported(effort), differs)
    below = smallest(planted(effort), lambda tree, target: worth(tree, target) == 0 and differs(tree, target))
    found = [values(*case, eta) for case in planted(effort) for eta in ETAS[:2]]
    return Finding(
        {"count": len(found), "cases": words(effort)},
        {"eta": one, **drawn(tree, target), "never_accepted": drawn(*below)},
        cases={"tree": found},
    )


@second("T-REWARD")
def _(cases: Case) -> dict[str, Any]:
    found = []
    for case in (cases, cases["never_accepted"]):
        each = [sympy.Rational(one.numerator, one.denominator) for one in case["branch_lengths"]]
        reward = sympy.log(sum(sympy.exp(one) for one in each))
        kept = sum(case["p"][1:], Fraction(0))
        assert kept == case["expected_accepted"]
        assert abs(sympy.N(reward - sympy.Rational(kept.numerator, kept.denominator), 40)) > sympy.Float("0.01")
        library = gto.draft_tree_reward(*library_tree(case), 1.0), gto.expected_accepted(*library_tree(case))
        assert isclose(library[0], sympy.N(reward))
        assert isclose(library[1], kept, abs_tol=1e-15)
        found.append(f"{library[0]:.4f} against {library[1]:.4f}")
    return {"pairs": " and ".join(found)}
