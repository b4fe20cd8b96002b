"""What Algorithm 1 finds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.opt_tree.algorithm import cases, falling, gains, grown, over, steps, stop
from proofs_check.small_drafts import (
    Hat,
    Nodes,
    best_worth,
    is_tree,
    same_law,
    select,
    selections,
    shown,
    worth,
)
from proofs_check.verdict import Verdict, claim, every, smallest


@claim("O-SIZE", source="OPT-Tree, Section 3, before Algorithm 1")
def drafted_nodes(effort: int) -> Verdict:
    """After d drafting steps, of which each keeps the n tokens with the largest p-hat, T has d * n nodes."""
    most = 4 if effort == 1 else 6

    def drafted() -> Iterator[tuple[int, int, int, int]]:
        """n, tokens, step, and the nodes after it; larger trees have smaller vocabularies."""
        for n in range(1, most + 1):
            for tokens in range(1, min(n, 3 if n < 5 else 2) + 1):
                kept = steps(n, same_law((Fraction(1, tokens),) * tokens, n))
                yield from ((n, tokens, step, len(nodes)) for step, nodes in enumerate(kept, 1))

    def repaired(case: tuple[int, int, int, int]) -> bool:
        n, tokens, step, nodes = case
        return nodes == sum(min(n, tokens**depth) for depth in range(1, step + 1))

    n, tokens, step, nodes = smallest(drafted(), lambda case: case[1] > 1 and case[3] != case[0] * case[2])
    count = every(drafted(), repaired)
    hat = same_law((Fraction(1, tokens),) * tokens, n)
    return Verdict(
        "corrected",
        "A layer of T cannot have more nodes than the layer above it has children: by induction layer i has "
        f"min(n, V^i). Counted after {count} steps, n up to {most} and V up to 3 and n.",
        "an induction, and counting",
        shown(hat, steps(n, hat)[step - 1], n=n, d=step, claimed=n * step, drafted=nodes),
        "With a vocabulary of V tokens T has min(n, V) + min(n, V^2) + ... + min(n, V^d) nodes after d steps: d * n "
        "where V is at least n, as it is in practice.",
    )


@claim("O-ALG1", source="OPT-Tree, Algorithm 1")
def algorithm_1(effort: int) -> Verdict:
    """Algorithm 1, whose layers are cut to n and whose depth is at most n, finds the n-node tree of largest Eq. (3).

    Read for every threshold delta, as it is an input of the algorithm, and for every resolution of ties.
    """
    zero = Fraction(0)

    def tied() -> Iterator[tuple[int, Hat, Nodes]]:
        return ((n, hat, chosen) for n, hat in cases(effort) for chosen in selections(grown(n, hat, zero), n, hat))

    def early() -> Iterator[tuple[int, Hat, Nodes, Fraction]]:
        deltas = [Fraction(quarter, 4) for quarter in range(1, 5)]
        return ((n, hat, select(grown(n, hat, d), n, hat), d) for n, hat in cases(effort) for d in deltas)

    def repaired(case: tuple[int, Hat]) -> bool:
        n, hat = case
        best = best_worth(frozenset(hat), n, hat)
        found = [select(grown(n, hat, zero, later_first=later), n, hat) for later in (False, True)]
        return all(is_tree(tree) and worth(tree, hat) == best for tree in found)

    n, hat, orphaned = smallest(tied(), lambda case: not is_tree(case[2]))
    early_n, early_hat, short, delta = smallest(
        early(), lambda case: worth(case[2], case[1]) < best_worth(frozenset(case[1]), case[0], case[1])
    )
    count = every(cases(effort), repaired)
    return Verdict(
        "corrected",
        "As printed, ties in the last selection can orphan a node, and a delta above 0 can stop before the optimum. "
        "Repaired, a node is cut only when n others in its layer are worth as much, and after a step without gain none "
        f"gains. It was right on {count:,} drafts against every tree, ties in the cut of a layer going either way: "
        f"{over(effort)}.",
        "a derivation, and enumeration in Fractions of every draft and every tree",
        {
            "ties": shown(hat, orphaned, n=n, delta=zero),
            "delta": shown(early_hat, short, n=early_n, delta=delta),
        },
        "With delta = 0, and ties in the last selection going to the node of smaller depth, it finds an n-node tree "
        "with the largest sum of p-hat.",
    )


@claim("O-3.2", source="OPT-Tree, Theorem 3.2")
def theorem_3_2(effort: int) -> Verdict:
    """As the drafting step increases, E_sub(T, n), the largest sum of p-hat of a subtree of n nodes, does not fall.

    Where T has fewer than n nodes, E_sub is read as the largest sum of at most n nodes. Proof: T only gains nodes, so
    that E_sub is the largest of more sums.
    """
    count = every(cases(effort), lambda case: min(gains(steps(*case), *case)) >= 0)
    return Verdict(
        "holds",
        "T only gains nodes, so that E_sub is the largest of more sums. It did not fall at any step on "
        f"{count:,} drafts: {over(effort)}.",
        "a proof, and enumeration in Fractions of every draft and every tree",
    )


@claim("O-STOP", source="OPT-Tree, Section 3, after Algorithm 2")
def no_later_gain(effort: int) -> Verdict:
    """The tree of largest Eq. (3) is had by stopping drafting when E_sub(T, n) no longer increases.

    The paper derives it from Theorem 3.2, which is not enough: a sum that does not fall could stand still and rise
    again. Proof that no step gains more than the one before: E_sub after d steps is the least of
    f_d(x) = n x + L_1(x) + ... + L_d(x) over x >= 0, where L_i(x) is the sum of max(p-hat - x, 0) over layer i, and the
    children of a node share its p-hat, so that L_{d+1} <= L_d. At the x where f_d is least, E_sub after d + 1 steps is
    at most f_d + L_{d+1}, and after d - 1 steps at most f_d - L_d: twice E_sub after d is at least their sum.
    """

    def stopped(case: tuple[int, Hat]) -> bool:
        gained = gains(steps(*case), *case)
        return falling(gained) and sum(gained[: stop(gained, Fraction(0))]) == best_worth(frozenset(case[1]), *case)

    count = every(cases(effort), stopped)

    return Verdict(
        "holds",
        "No step gained more than the one before, and the gains until the first step without one were the largest sum "
        f"of any tree of n nodes, on {count:,} drafts: {over(effort)}.",
        "a proof, and enumeration in Fractions of every draft and every tree",
    )
