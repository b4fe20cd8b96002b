"""Eq. (1): what its terms mean, what they are worth, and whether it is a bound, tight, and paid for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import sympy

import spectheory as st
from proofs_check.goose.budgets import two_sources
from proofs_check.goose.walks import (
    Shape,
    chains,
    coins,
    committed,
    exclusive,
    height,
    independent,
    longest,
    pairs,
    rates,
    reached,
    shapes,
    walked,
)
from proofs_check.verdict import Verdict, claim, every, second, smallest
from spectheory import goose

Setting = tuple[tuple[int, ...], int]
"""b_1..b_L and D."""


def eq_1(s: Fraction, t: Fraction, widths: tuple[int, ...], depth: int, *, mutual: bool = False) -> Fraction:
    """The right-hand side, term by term; with b p_t for Q(b) where siblings exclude each other."""
    extension = sum((t**j for j in range(1, depth)), Fraction(0))
    total = Fraction(1)
    for k, b in enumerate(widths, start=1):
        found = b * t if mutual else 1 - (1 - t) ** b
        total += s**k + s ** (k - 1) * (1 - s) * found * (1 + extension)
    return total


def settings(nodes: int, *, charge_all: bool) -> Iterator[Setting]:
    """Spines and widths that take so many nodes: L + D sum b_k, or L + sum b_k as printed, with D <= 3."""
    for length, depth in product(range(1, nodes + 1), (1, 2, 3)):
        each = depth if charge_all else 1
        for widths in product(range(nodes + 1), repeat=length):
            if length + each * sum(widths) == nodes and (sum(widths) or depth == 1):
                yield widths, depth


@claim("G-EEXT", source="Goose, Section 3, key quantities")
def extension(effort: int) -> Verdict:
    """E_ext, the mean number of tokens after the first of a branch, is sum_{j=1}^{D-1} p_t^j = p_t (1 - p_t^{D-1}) /
    (1 - p_t) for 0 <= p_t < 1; it lies between 0 and D - 1, the limits for p_t -> 0 and p_t -> 1.

    A branch is a chain of at most D tokens, "measured from the branching point", so its first token is the first of D:
    only then is 1 + E_ext the mean of a chain of D tokens. With the sum to D, the other reading, the chain has D + 1.
    Meanings (1), (2) and (3), which agree on a chain.
    """
    p, d = sympy.symbols("p D", positive=True)
    closed = p * (1 - p ** (d - 1)) / (1 - p)
    step = sympy.simplify(sympy.expand_power_exp(closed.subs(d, d + 1) - closed - p**d))
    limits = [sympy.limit(closed.subs(d, n), p, 1) - (n - 1) for n in range(1, 7)]
    if step != 0 or closed.subs(d, 1) != 0 or any(limits):
        raise ArithmeticError("the closed form is not the sum")

    def counted(case: tuple[int, Fraction]) -> bool:
        depth, t = case
        form = t * (1 - t ** (depth - 1)) / (1 - t)
        drafted = chains((), 1) if depth == 1 else Shape(tuple(range(-1, depth - 1)), (True,) + (False,) * (depth - 1))
        return 0 <= form <= depth - 1 and committed(drafted, t, t) == 1 + form

    count = every(product(range(1, 5 + effort), rates(4 + 2 * effort)), counted)
    return Verdict(
        "holds",
        "Induction over D: the closed form is 0 for D = 1 and grows by p_t^D from D to D + 1. Each of the D - 1 terms "
        "is at least 0 and at most 1, and all are 1 in the limit p_t -> 1, where the closed form itself is 0/0. A "
        f"chain of D - 1 coins, outcome by outcome, has this mean in {count} cases.",
        f"symbolic proof (sympy); enumeration for all D <= {4 + effort}, denominators of p_t <= {4 + 2 * effort}",
    )


def _best(n: int, s: Fraction, t: Fraction) -> Fraction:
    """The most that any tree of n nodes yields under any of the three meanings."""
    values = []
    for shape in shapes(n):
        values += [independent(shape, s, t), committed(shape, s, t), exclusive(shape, s, t) or Fraction(0)]
    return max(values)


def _grid(nodes: int) -> Iterator[tuple[Setting, Fraction, Fraction]]:
    """Settings of at most so many nodes, all charged, at (n + 1)^2 pairs of rates, enough to tell polynomials apart."""
    for n in range(1, nodes + 1):
        points = [Fraction(i, n + 2) for i in range(1, n + 2)]
        yield from product(settings(n, charge_all=True), points, points)


@claim("G-P1-LB", source="Goose, Proposition 1 and E.1")
def lower_bound(effort: int) -> Verdict:
    """With spine length L, branch widths b_1..b_L and total budget L + sum b_k <= B, the tree's yield is at least
    1 + sum_k p_s^k + sum_k p_s^{k-1} (1 - p_s) Q(b_k) (1 + E_ext), Q(b) = 1 - (1 - p_t)^b, E_ext up to depth D.

    Taken as printed: the budget counts L + sum b_k drafted nodes, and the draft has no others. Meanings (1), (2), (3).
    """

    def unpaid() -> Iterator[tuple[int, Setting, Fraction, Fraction]]:
        for n in (1, 2, 3):
            for (s, t), setting in product(pairs(5), settings(n, charge_all=False)):
                yield n, setting, s, t

    n, (widths, depth), s, t = smallest(unpaid(), lambda c: eq_1(c[2], c[3], *c[1]) > _best(c[0], c[2], c[3]))

    def paid(case: tuple[Setting, Fraction, Fraction]) -> bool:
        (widths, depth), s, t = case
        tree, bound = chains(widths, depth), eq_1(s, t, widths, depth)
        paths = all(longest(tree, right) >= walked(tree, right) for right, _ in coins(tree.rates(s, t)))
        other = exclusive(tree, s, t)
        mutual = eq_1(s, t, widths, depth, mutual=True)
        return committed(tree, s, t) == bound and paths and mutual >= bound and other in (None, mutual)

    count = every(_grid(4 + (effort > 1)), paid)
    return Verdict(
        "corrected",
        f"E_ext is the yield of tokens that the budget does not count: within it, no tree of any shape with {n} nodes "
        f"reaches the printed value under any of the three meanings. With all nodes charged, in {count} cases: the "
        "walk's yield equals Eq. (1), which at so many points per tree proves the polynomials equal; in every outcome "
        "the longest path is no shorter than the walk's; and exclusive siblings have b p_t >= Q(b) in the place of "
        "Q(b).",
        "counterexample by search over all trees; outcome by outcome for all L + D sum b_k <= "
        f"{4 + (effort > 1)}, D <= 3, at (n + 1)^2 pairs of rates for n nodes",
        {"p_s": s, "p_t": t, "widths": widths, "branch_depth": depth, "budget": n, "eq_1": eq_1(s, t, widths, depth)}
        | {"best_of_all_trees": _best(n, s, t), **chains(widths, depth).shown()},
        "With L + D sum b_k <= B, every token of the branches charged, Eq. (1) is the yield under a committed walk, "
        "and a lower bound with independent indicators and the longest path, and for exclusive siblings.",
    )


@second("G-P1-LB")
def lower_bound_again(verdict: Verdict) -> str:
    """The library's bound and tree, and the recursion over budgets in place of an enumeration of trees."""
    case = verdict.counterexample or {}
    s, t, widths, depth = case["p_s"], case["p_t"], case["widths"], case["branch_depth"]
    printed = goose.spine_bound(s, t, len(widths), widths, depth)
    charged = goose.budget_of_bound(len(widths), widths, depth)
    assert goose.budget_as_printed(len(widths), widths) == case["budget"] < charged
    assert printed == case["eq_1"] > 1 + two_sources(s, t, case["budget"])[case["budget"]]
    tree = goose.tree_of_bound(float(s), float(t), len(widths), widths, depth)
    again = Shape(tuple(tree.tree.parent.tolist()), tuple(tree.is_spine.tolist()))
    assert tree.tree.budget == charged
    assert reached(again, s, t) == printed <= height(again, s, t)
    return (
        "spectheory's bound and the tree behind it, valued node by node, give the same number for "
        f"{charged} nodes; an exact recursion over budgets finds less for {case['budget']}."
    )


@claim("G-P1-TIGHT", source="Goose, Proposition 1 and E.1")
def tight(effort: int) -> Verdict:
    """Eq. (1) equals the expected accepted path length where the branches are independent chains of D tokens.

    Taken with Section 3's own model, meaning (1): every token is right independently, and Section 2's "the longest
    accepted path is selected". All tokens of the chains are charged, 0 < p_s, p_t < 1.
    """

    def cases() -> Iterator[tuple[Setting, Fraction, Fraction]]:
        for n in (1, 2, 3, 4):
            yield from ((setting, s, t) for (s, t), setting in product(pairs(4), settings(n, charge_all=True)))

    def gap(setting: Setting, s: Fraction, t: Fraction) -> Fraction:
        return independent(chains(*setting), s, t) - eq_1(s, t, *setting)

    setting, s, t = smallest(cases(), lambda case: gap(*case) != 0)

    def repaired(case: tuple[Setting, Fraction, Fraction]) -> bool:
        (widths, depth), s, t = case
        single = depth == 1 or not any(widths)
        walk = committed(chains(widths, depth), s, t) == eq_1(s, t, widths, depth)
        return walk and (gap(*case) == 0 if single else gap(*case) > 0)

    count = every(_grid(4 + (effort > 1)), repaired)
    tree = chains(*setting)
    return Verdict(
        "corrected",
        "With D >= 2, spine token k and a whole branch beside it are all right with positive probability while the "
        "spine ends there: the walk takes the spine's one token, the longest path has the branch's D, so Eq. (1) is "
        "too small. With D = 1 a branch beside token k reaches depth k, which the walk reaches too unless it breaks "
        f"there. Confirmed in {count} cases.",
        f"argument in words; enumeration of outcomes for all L + D sum b_k <= {4 + (effort > 1)}, D <= 3",
        {"p_s": s, "p_t": t, "widths": setting[0], "branch_depth": setting[1], "eq_1": eq_1(s, t, *setting)}
        | {"longest_path": independent(tree, s, t), **tree.shown()},
        "It is exact for a committed walk, whatever the chains. With independent indicators and the longest path it is "
        "exact if and only if there is no branch or D = 1, and too small otherwise.",
    )


@second("G-P1-TIGHT")
def tight_again(verdict: Verdict) -> str:
    """The law of the tree's height by products over children."""
    case = verdict.counterexample or {}
    tree = Shape(tuple(case["parent"]), tuple(n == 0 or n in case["spine_nodes"] for n in range(len(case["parent"]))))
    s, t = case["p_s"], case["p_t"]
    bound = goose.spine_bound(s, t, len(case["widths"]), case["widths"], case["branch_depth"])
    assert height(tree, s, t) == case["longest_path"] > bound == case["eq_1"] == reached(tree, s, t)
    return "the height of the tree by products over children in place of outcomes, and spectheory's spine_bound."


@claim("G-P1-EXCL", source="Goose, Section 3, key quantities, with Section 4.2")
def siblings(effort: int) -> Verdict:
    """Q(b) = 1 - (1 - p_t)^b is the probability that one of b siblings is accepted under greedy verification, each of
    them being accepted with probability p_t.

    The siblings are distinct tokens (B.1 leaves out duplicates) and the target emits one token: meaning (3).
    """

    def by_target(t: Fraction, b: int) -> Fraction:
        star = Shape((-1,) + (0,) * b, (True,) + (False,) * b)
        return (exclusive(star, t, t) or Fraction(0)) - 1

    def cases() -> Iterator[tuple[int, Fraction]]:
        return ((b, t) for b in range(1, 4 + effort) for t in [*rates(6), Fraction(1)] if b * t <= 1)

    b, t = smallest(cases(), lambda case: by_target(case[1], case[0]) != 1 - (1 - case[1]) ** case[0])
    p, n = sympy.symbols("p n", positive=True)
    grows = sympy.simplify(sympy.expand_power_exp((1 - (1 - p) ** (n + 1)) - (1 - (1 - p) ** n) - p * (1 - p) ** n))
    if grows != 0:
        raise ArithmeticError("Q(b + 1) - Q(b) is not p (1 - p)^b")
    count = every(cases(), lambda c: by_target(c[1], c[0]) == c[0] * c[1] >= 1 - (1 - c[1]) ** c[0])
    return Verdict(
        "corrected",
        "At most one of distinct tokens is the target's, so the probabilities add up; independent siblings with 0 < "
        "p_t < 1 cannot be. Q(b + 1) - Q(b) = p_t (1 - p_t)^b <= p_t, so b p_t is never less than Q(b), and more from "
        f"b = 2 on. Over every greedy target of {count} stars it was b p_t.",
        f"argument in words, sympy; enumeration of targets for all b <= {3 + effort}, denominators of p_t <= 6",
        {"p_t": t, "siblings": b, "probability": by_target(t, b), "q": 1 - (1 - t) ** b, "parent": [-1] + [0] * b},
        "It is b p_t >= Q(b) if p_t is each sibling's own rate; it is Q(b) if p_t is the rate of a sibling given that "
        "the earlier ones are wrong, so that sibling j has the rate p_t (1 - p_t)^(j-1).",
    )


@second("G-P1-EXCL")
def siblings_again(verdict: Verdict) -> str:
    """The library's greedy verifier over every target that emits one token."""
    case = verdict.counterexample or {}
    b, t = case["siblings"], case["p_t"]
    draft_law = np.array([[Fraction(1, b + 1)] * (b + 1)] * (b + 1))
    draft = st.Draft.in_order(st.Tree([-1] + [0] * b), [0, *range(b)], draft_law, st.DrawRule.TOP_K)
    total = Fraction(0)
    for emitted, weight in [*((token, t) for token in range(b)), (b, 1 - b * t)]:
        law = np.array([[Fraction(int(token == emitted)) for token in range(b + 1)]] * (b + 1))
        total += weight * (st.verify.Greedy().outcome(draft, law).block_efficiency - 1)
    assert total == case["probability"] == b * t > case["q"]
    return "spectheory's greedy verifier, averaged over every target."
