"""Eq. (1): its terms, and whether it is a lower bound, tight, and within the budget."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose import walks
from proofs_check.goose.budgets import two_sources
from spectheory import goose

Setting = tuple[tuple[int, ...], int]
"""The widths b_1, ..., b_L and the branch depth D."""


def eq_1(s: Fraction, t: Fraction, widths: tuple[int, ...], depth: int, *, mutual: bool = False) -> Fraction:
    """The right-hand side, term by term; with b p_t for Q(b) where siblings exclude each other."""
    extension = sum((t**j for j in range(1, depth)), Fraction(0))
    total = Fraction(1)
    for k, b in enumerate(widths, start=1):
        found = b * t if mutual else 1 - (1 - t) ** b
        total += s**k + s ** (k - 1) * (1 - s) * found * (1 + extension)
    return total


def settings(nodes: int, *, charge_all: bool) -> Iterator[Setting]:
    """Spines and widths that take `nodes` nodes: L + D sum b_k, or L + sum b_k as printed, with D <= 3."""
    for length, depth in product(range(1, nodes + 1), (1, 2, 3)):
        each = depth if charge_all else 1
        for widths in product(range(nodes + 1), repeat=length):
            if length + each * sum(widths) == nodes and (sum(widths) or depth == 1):
                yield widths, depth


def _best(n: int, s: Fraction, t: Fraction) -> Fraction:
    """The largest yield of any tree of n nodes under any meaning where p_t holds given that the spine is wrong."""
    values = []
    for shape in walks.shapes(n):
        values += [
            walks.independent(shape, s, t),
            walks.committed(shape, s, t),
            walks.exclusive_given_failure(shape, s, t) or Fraction(0),
        ]
    return max(values)


def _grid(nodes: int) -> Iterator[tuple[Setting, Fraction, Fraction]]:
    """Settings of at most `nodes` charged nodes, with (n + 1)^2 pairs of rates: enough to tell polynomials apart."""
    for n in range(1, nodes + 1):
        points = [Fraction(i, n + 2) for i in range(1, n + 2)]
        yield from product(settings(n, charge_all=True), points, points)


def _fit(widths: tuple[int, ...], s: Fraction, t: Fraction) -> bool:
    """Whether the marginal rates of a spine token and of the branches beside it sum to at most 1 at every node."""
    return s + max(widths) * t <= 1


def _marginal_cases(nodes: int, largest: int) -> Iterator[tuple[Setting, Fraction, Fraction]]:
    """Settings that print a budget of at most `nodes`, at rates p_t <= p_s whose siblings fit, simplest first."""
    both = [*((rate, rate) for rate in walks.rates(largest)), *walks.pairs(largest)]
    for n in range(1, nodes + 1):
        yield from ((one, s, t) for one in settings(n, charge_all=False) for s, t in both if _fit(one[0], s, t))


@claim("G-P1-LB")
def lower_bound(effort: int) -> Finding:
    """Proof for marginal rates: node k has b_k branches of one token, each right with its own rate p_t, so the tree of
    the L + sum b_k nodes that the budget counts yields 1 + sum_k p_s^k + sum_k p_s^(k-1) b_k p_t. Eq. (1) has
    (1 - p_s) Q(b_k) (1 + E_ext) in the place of b_k p_t. Here Q(b_k) <= b_k p_t and 1 + E_ext =
    (1 - p_t^D) / (1 - p_t) < 1 / (1 - p_t), so each of its terms is below b_k p_t (1 - p_s) / (1 - p_t) <= b_k p_t
    where b_k > 0 and p_t <= p_s.
    """
    unpaid = ((n, one, s, t) for n in (1, 2, 3) for s, t in walks.pairs(5) for one in settings(n, charge_all=False))
    n, (widths, depth), s, t = smallest(unpaid, lambda n, setting, s, t: eq_1(s, t, *setting) > _best(n, s, t))

    def paid(setting: Setting, s: Fraction, t: Fraction) -> dict[str, Any]:
        widths, depth = setting
        tree, bound = walks.chains(widths, depth), eq_1(s, t, widths, depth)
        gains = [walks.longest(tree, right) - walks.walked(tree, right) for right, _ in walks.coins(tree.rates(s, t))]
        mutual = eq_1(s, t, widths, depth, mutual=True)
        other = walks.exclusive_given_failure(tree, s, t)
        told = {"Eq_1": bound, "walk": walks.committed(tree, s, t), "least_gain_of_the_longest_path": min(gains)}
        return told | {"exclusive": mutual if other is None else other}

    def free(setting: Setting, s: Fraction, t: Fraction) -> dict[str, Any]:
        bound = eq_1(s, t, *setting)
        found = _alone(setting, s, t)
        return {"p_s": s, "p_t": t, "best_yield": found, "Eq_1": bound, "branches": sum(setting[0])}

    likelier = (
        (one, s, t)
        for one in settings(2, charge_all=False)
        for s, t in product(walks.rates(4), repeat=2)
        if s < t and _fit(one[0], s, t)
    )
    needs = smallest(likelier, lambda one, s, t: (_alone(one, s, t) or eq_1(s, t, *one)) < eq_1(s, t, *one))
    charged, marginal = [*_grid(4 + (effort > 1))], [*_marginal_cases(4, 4 + effort)]
    as_printed = [{"best_yield": _best(n, s, t), "Eq_1": eq_1(s, t, widths, depth)}]
    return Finding(
        {"n": n, "count": len(charged), "size": 4 + (effort > 1), "marginal": len(marginal), "largest": 4 + effort},
        {"p_s": s, "p_t": t, "widths": widths, "branch_depth": depth, "budget": n, "eq_1": eq_1(s, t, widths, depth)}
        | {"best_of_all_trees": _best(n, s, t), **walks.chains(widths, depth).shown()}
        | {"with_marginal_rates": _marginal((widths, depth), Fraction(1, 3), Fraction(1, 4))}
        | {"likelier_branches": _marginal(*needs)},
        cases={
            "printed_budget": as_printed,
            "charged_budget": (paid(*one) for one in charged),
            "printed_budget_with_marginal_rates": (free(*one) for one in (*marginal, needs)),
        },
    )


def _alone(setting: Setting, s: Fraction, t: Fraction) -> Fraction | None:
    """The yield of the nodes that the printed budget counts: exclusive siblings, marginal rates."""
    return walks.exclusive(walks.chains(setting[0], 1), s, t)


def _marginal(setting: Setting, s: Fraction, t: Fraction) -> dict[str, Any]:
    """Eq. (1) beside the yield of `_alone`, as data."""
    rates = {"p_s": s, "p_t": t, "widths": setting[0], "branch_depth": setting[1]}
    return rates | {"eq_1": eq_1(s, t, *setting), "yield": _alone(setting, s, t)}


@second("G-P1-LB")
def lower_bound_again(case: Case) -> dict[str, Any]:
    """Second check: compute the bound with the library, and the best tree by recursion over budgets."""
    s, t, widths, depth = case["p_s"], case["p_t"], case["widths"], case["branch_depth"]
    printed = goose.spine_bound(s, t, len(widths), widths, depth)
    charged = goose.budget_of_bound(len(widths), widths, depth)
    assert goose.budget_of_bound(len(widths), widths, 1) == case["budget"] < charged
    assert printed == case["eq_1"] > 1 + two_sources(s, t, case["budget"])[case["budget"]]
    tree = goose.tree_of_bound(float(s), float(t), len(widths), widths, depth)
    again = walks.TwoSourceTree.of_library(tree)
    assert tree.tree.budget == charged
    assert walks.reached(again, s, t) == printed <= walks.height(again, s, t)
    for one, sign in ((case["with_marginal_rates"], 1), (case["likelier_branches"], -1)):
        s, t, widths, depth = one["p_s"], one["p_t"], one["widths"], one["branch_depth"]
        assert goose.spine_bound(s, t, len(widths), widths, depth) == one["eq_1"]
        assert one["yield"] == 1 + sum(s**k + s ** (k - 1) * b * t for k, b in enumerate(widths, start=1))
        assert sign * (one["yield"] - one["eq_1"]) > 0 < sign * (s - t)
    return {"charged": charged, "budget": case["budget"]}


@claim("G-P1-TIGHT")
def tight(effort: int) -> Finding:
    def gap(setting: Setting, s: Fraction, t: Fraction) -> Fraction:
        return walks.independent(walks.chains(*setting), s, t) - eq_1(s, t, *setting)

    cases = ((one, s, t) for n in (1, 2, 3, 4) for s, t in walks.pairs(4) for one in settings(n, charge_all=True))
    setting, s, t = smallest(cases, lambda *case: gap(*case) != 0)

    def values(setting: Setting, s: Fraction, t: Fraction) -> dict[str, Any]:
        shape, bound = walks.chains(*setting), eq_1(s, t, *setting)
        told = {"longest_path": walks.independent(shape, s, t), "walk": walks.committed(shape, s, t)}
        return told | {"Eq_1": bound, "D": setting[1], "branches": sum(setting[0])}

    every_one = [*_grid(4 + (effort > 1))]
    tree = walks.chains(*setting)
    return Finding(
        {"count": len(every_one), "size": 4 + (effort > 1)},
        {"p_s": s, "p_t": t, "widths": setting[0], "branch_depth": setting[1], "eq_1": eq_1(s, t, *setting)}
        | {"longest_path": walks.independent(tree, s, t), **tree.shown()},
        cases={"tree": (values(*one) for one in every_one)},
    )


@second("G-P1-TIGHT")
def tight_again(case: Case) -> None:
    """Second check: compute the mean height of the tree by products over children."""
    tree = walks.TwoSourceTree.of_case(case)
    s, t = case["p_s"], case["p_t"]
    bound = goose.spine_bound(s, t, len(case["widths"]), case["widths"], case["branch_depth"])
    assert walks.height(tree, s, t) == case["longest_path"] > bound == case["eq_1"] == walks.reached(tree, s, t)


@claim("G-P1-EXCL")
def siblings(effort: int) -> Finding:
    def by_target(b: int, t: Fraction) -> Fraction:
        star = walks.TwoSourceTree((-1,) + (0,) * b, (True,) + (False,) * b)
        return (walks.exclusive(star, t, t) or Fraction(0)) - 1

    cases = [(b, t) for b in range(1, 4 + effort) for t in [*walks.rates(6), Fraction(1)] if b * t <= 1]
    b, t = smallest(cases, lambda b, t: by_target(b, t) != 1 - (1 - t) ** b)
    p, n = sympy.symbols("p n", positive=True)
    grows = sympy.simplify(sympy.expand_power_exp((1 - (1 - p) ** (n + 1)) - (1 - (1 - p) ** n) - p * (1 - p) ** n))
    if grows != 0:
        raise ArithmeticError("Q(b + 1) - Q(b) is not p (1 - p)^b")

    def values(b: int, t: Fraction) -> dict[str, Any]:
        return {"accepted": by_target(b, t), "Q": 1 - (1 - t) ** b, "b": b, "p_t": t}

    def conditional(b: int, t: Fraction) -> dict[str, Any]:
        found = sum((t * (1 - t) ** j for j in range(b)), Fraction(0))
        return {"accepted": found, "Q": 1 - (1 - t) ** b}

    return Finding(
        {"count": len(cases), "size": 3 + effort},
        {"p_t": t, "siblings": b, "probability": by_target(b, t), "q": 1 - (1 - t) ** b, "parent": [-1] + [0] * b},
        cases={
            "star": (values(*one) for one in cases),
            "star_with_conditional_rates": (conditional(*one) for one in cases),
        },
    )


@second("G-P1-EXCL")
def siblings_again(case: Case) -> None:
    """Second check: run the library's greedy verifier on every target that emits one token."""
    b, t = case["siblings"], case["p_t"]
    draft_law = np.array([[Fraction(1, b + 1)] * (b + 1)] * (b + 1))
    draft = st.Draft.in_order(st.Tree([-1] + [0] * b), [0, *range(b)], draft_law, st.DrawRule.TOP_K)
    total = Fraction(0)
    for emitted, weight in [*((token, t) for token in range(b)), (b, 1 - b * t)]:
        law = np.array([[Fraction(int(token == emitted)) for token in range(b + 1)]] * (b + 1))
        total += weight * (st.verify.Greedy().outcome(draft, law).block_efficiency - 1)
    assert total == case["probability"] == b * t > case["q"]
