"""GTO, Section 3.1: the lengths L_i, the reward r, its bounds and limits, and the expectation it is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any

import numpy as np
import sympy

from proofs_check.claims import Case, Finding, claim, every, second, smallest
from proofs_check.gto.exponentials import sign, times
from proofs_check.gto.trees import ETAS, drawn, leaves, length, lengths
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


@claim("T-EQ3")
def branch_length(effort: int) -> Finding:
    t = sympy.symbols("t1:7", positive=True)
    for depth in range(1, 7):
        reach = [sympy.prod(t[:j]) for j in range(depth + 1)]
        mean = sum(j * (reach[j] - (reach[j + 1] if j < depth else 0)) for j in range(depth + 1))
        assert sympy.expand(mean - sum(reach[1:])) == 0

    def walks() -> Iterator[tuple[Fraction, Fraction]]:
        for tree, target in planted(effort):
            for leaf in leaves(tree):
                branch = frozenset(leaf[:j] for j in range(1, len(leaf) + 1))
                yield length(leaf, target), accepted(branch, target)

    count = every(walks(), Fraction.__eq__)
    return Finding({"count": count, "cases": words(effort)})


@claim("T-TAIL")
def tail_sum(effort: int) -> Finding:
    def agrees(tree: Nodes, target: Hat) -> bool:
        ends = leaves(tree)
        tails = (
            p
            for text, p in texts(target)
            for j in range(1, 1 + max(map(len, ends)))
            if any(len(end) >= j and end[:j] == text[:j] for end in ends)
        )
        return sum(tails, Fraction(0)) == worth(tree, target) == accepted(tree, target)

    count = every(planted(effort), agrees)
    return Finding({"count": count, "cases": words(effort)})


@claim("T-BOUND")
def bounds(effort: int) -> Finding:
    def within(each: list[Fraction], eta: Fraction) -> bool:
        most, size = eta * max(each), len(each)
        low, high = sign(times(each, eta), [most]), sign(times(each, eta), [most] * size)
        return (low == 0 if size == 1 else low > 0) and (high == 0 if len(set(each)) == 1 else high < 0)

    count = every(branches(effort), within)
    return Finding({"count": count, "cases": words(effort)})


@claim("T-MONO")
def coordinatewise(effort: int) -> Finding:
    eta, *ls = sympy.symbols("eta l1:6", real=True)
    for size in range(1, 6):
        terms = [sympy.exp(eta * one) for one in ls[:size]]
        slope = sympy.diff(sympy.log(sum(terms)) / eta, ls[0])
        assert sympy.simplify(slope - terms[0] / sum(terms)) == 0

    def step(each: list[Fraction], rate: Fraction) -> bool:
        more = [[*each[:i], each[i] + Fraction(1, 100), *each[i + 1 :]] for i in range(len(each))]
        return all(sign(times(one, rate), times(each, rate)) > 0 for one in more)

    count = every(branches(effort), step)
    return Finding({"count": count})


@claim("T-EQ5-ETA")
def temperature(effort: int) -> Finding:
    eta = Fraction(1, 10)

    def above(tree: Nodes, target: Hat) -> bool:
        each = lengths(tree, target)
        return len(each) > 1 and sign(times(each, eta), [eta * (max(each) + 6)]) > 0

    tree, target = smallest(supported(effort), above)

    def hoeffding(each: list[Fraction], rate: Fraction) -> bool:
        size, mean = len(each), sum(each, Fraction(0)) / len(each)
        upper = rate * mean + (rate * (max(each) - min(each))) ** 2 / 8
        exponents = times(each, rate)
        doubled = [2 * x for x in exponents]
        pairs = [x + y for x, y in product(exponents, repeat=2)]
        return (
            sign(exponents, [rate * mean] * size) >= 0 >= sign(exponents, [upper] * size)
            and sign(doubled * size, pairs) >= 0  # m at 2 eta is at least m at eta
        )

    count = every(branches(effort), hoeffding)
    return Finding(
        {"count": count},
        {"eta": eta, "reward_is_above": max(lengths(tree, target)) + 6, **drawn(tree, target)},
        kept=count,
    )


@second("T-EQ5-ETA")
def _(case: Case) -> dict[str, Any]:
    eta, a, b = sympy.symbols("eta a b", positive=True)
    centred = sympy.series(sympy.log((sympy.exp(eta * a) + sympy.exp(eta * b)) / 2), eta, 0, 2).removeO()
    assert sympy.simplify(centred / eta - (a + b) / 2) == 0
    each = [sympy.Rational(one.numerator, one.denominator) for one in case["branch_lengths"]]
    reward = sympy.log(sum(sympy.exp(eta * one) for one in each)) / eta
    assert sympy.limit(reward, eta, 0, "+") == sympy.oo
    assert sympy.limit(reward, eta, sympy.oo) == max(each)
    found = gto.draft_tree_reward(*library_tree(case), float(case["eta"]))
    assert found > float(case["reward_is_above"]) > float(max(case["branch_lengths"]))
    return {"reward": f"{found:.4f}"}


@claim("T-REWARD")
def equality(effort: int) -> Finding:
    one = Fraction(1)

    def differs(tree: Nodes, target: Hat, eta: Fraction = one) -> bool:
        return sign(times(lengths(tree, target), eta), [eta * worth(tree, target)]) != 0

    def as_repaired(tree: Nodes, target: Hat) -> bool:
        each = lengths(tree, target)
        only_one_branch = all(differs(tree, target, eta) == (len(each) > 1) for eta in ETAS[:2])
        return only_one_branch and max(each) <= worth(tree, target) <= sum(each, Fraction(0))

    tree, target = smallest(supported(effort), differs)
    below = smallest(planted(effort), lambda tree, target: worth(tree, target) == 0 and differs(tree, target))
    count = 2 * every(planted(effort), as_repaired)
    return Finding(
        {"count": count, "cases": words(effort)},
        {"eta": one, **drawn(tree, target), "never_accepted": drawn(*below)},
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
