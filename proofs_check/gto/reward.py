"""GTO, Section 3.1: the lengths L_i, the reward r, its bounds and limits, and the expectation it is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any

import numpy as np
import sympy

from proofs_check.gto.exponentials import sign, times
from proofs_check.gto.trees import ETAS, by_walking, drawn, expected, leaves, length, lengths, texts
from proofs_check.small_drafts import Hat, Nodes, drafts, trees
from proofs_check.verdict import Verdict, claim, every, second, smallest
from spectheory import Tree, gto

SECTION = "GTO, Section 3.1"


def grids(effort: int) -> tuple[tuple[int, int, int], ...]:
    """Depth, tokens and largest denominator of the targets."""
    return ((1, 4, 5), (2, 2, 4), (3, 2, 2)) if effort == 1 else ((1, 4, 7), (2, 3, 3), (3, 2, 3))


def words(effort: int) -> str:
    """The cases of `planted`."""
    named = ", ".join(f"{d} deep with {v} tokens and denominators to {m}" for d, v, m in grids(effort))
    return f"all trees of up to 3 drafted nodes (4 where all are siblings) under all targets {named}, zeros included"


def planted(effort: int) -> Iterator[tuple[Nodes, Hat]]:
    """Trees and targets, small trees first."""
    for size in range(1, 5):
        for grid in grids(effort):
            for target in drafts(*grid):
                if size < 4 or grid[0] == 1:
                    yield from ((tree, target) for tree in trees(frozenset(target), size) if len(tree) == size)


def branches(effort: int) -> Iterator[tuple[list[Fraction], Fraction]]:
    """Different lists of branch lengths, with eta."""
    seen = {tuple(sorted(lengths(tree, target))) for tree, target in planted(effort)}
    return ((list(case), eta) for case, eta in product(sorted(seen), ETAS))


def library_tree(case: dict[str, Any]) -> tuple[Tree, np.ndarray]:
    """The tree of `drawn` for the library, with the target's probability at each node given its parent."""
    p, parent = case["p"], case["parent"]
    rate = [Fraction(1)] + [p[v] / p[parent[v]] if p[parent[v]] else Fraction(0) for v in range(1, len(p))]
    return Tree(parent), np.array([float(one) for one in rate])


@claim("T-EQ3", source=f"{SECTION}, Eq. (3) and (4)")
def branch_length(effort: int) -> Verdict:
    """L_i = sum_j prod_{k<=j} T(x_k | prefix, x_<k) is the expectation of how many tokens of branch i are accepted.

    The draft's tokens are given (its tree is deterministic), and the verifier emits a sample of the target, or its
    arg max, and follows the draft while it agrees. Proof: the number A of accepted tokens is the number of j with
    A >= j, and A >= j when the target emits the first j tokens. Where a token is itself a sample of q and is accepted
    with min(1, p/q), as in speculative sampling, this is not its acceptance; GTO does not draft so.
    """
    t = sympy.symbols("t1:7", positive=True)
    for depth in range(1, 7):
        reach = [sympy.prod(t[:j]) for j in range(depth + 1)]
        mean = sum(j * (reach[j] - (reach[j + 1] if j < depth else 0)) for j in range(depth + 1))
        assert sympy.expand(mean - sum(reach[1:])) == 0

    def walks() -> Iterator[tuple[Fraction, Fraction]]:
        for tree, target in planted(effort):
            for leaf in leaves(tree):
                branch = frozenset(leaf[:j] for j in range(1, len(leaf) + 1))
                yield length(leaf, target), by_walking(branch, target)

    count = every(walks(), lambda case: case[0] == case[1])
    return Verdict(
        "holds",
        "Proved in the statement, and by expanding sum_j j P(A = j) with symbols for branches up to 6 tokens; walking "
        f"every text of the target gave L on {count:,} branches, for {words(effort)}.",
        "a symbolic identity for each depth up to 6; a proof in words; exact enumeration",
    )


@claim("T-TAIL", source="GTO, Appendix A, before Lemma 1")
def tail_sum(effort: int) -> Verdict:
    """E[L_dec] = sum_{j>=1} P(E_j), E_j = {L_dec >= j} being the union over branches of {the target emits x_i[1:j]}.

    Proof: L_dec counts the j with E_j. The target emits one text; its first j tokens are accepted when some branch
    begins with them. Distinct nodes of one depth exclude each other, so E[L_dec] is the sum over the drafted nodes of
    the target's probability of their path: a node that branches share counts once.
    """

    def agrees(case: tuple[Nodes, Hat]) -> bool:
        tree, target = case
        ends = leaves(tree)
        tails = [
            sum((p for text, p in texts(target) if any(len(end) >= j and end[:j] == text[:j] for end in ends)), start)
            for j in range(1, 1 + max(map(len, ends)))
            for start in [Fraction(0)]
        ]
        return sum(tails, Fraction(0)) == expected(*case) == by_walking(*case)

    count = every(planted(effort), agrees)
    return Verdict(
        "holds",
        f"Proved in the statement; walking every text, the tails and the sum over nodes agreed on {count:,} cases: "
        f"{words(effort)}.",
        "a proof in words; exact enumeration",
    )


@claim("T-BOUND", source="GTO, Appendix A, the bounds of the smooth maximum")
def bounds(effort: int) -> Verdict:
    """Max L <= r <= max L + log(N)/eta, with r = (1/eta) log(sum_i exp(eta L_i)).

    The symbols of Eq. (5) are lost; with the mean in the place of the sum the bounds would be others. Proof: the sum
    lies between its largest term and N times it, and log rises. Equality: on the left only for N = 1, on the right only
    where all L are equal.
    """

    def within(case: tuple[list[Fraction], Fraction]) -> bool:
        each, eta = case
        most, size = eta * max(each), len(each)
        low, high = sign(times(each, eta), [most]), sign(times(each, eta), [most] * size)
        return (low == 0 if size == 1 else low > 0) and (high == 0 if len(set(each)) == 1 else high < 0)

    count = every(branches(effort), within)
    return Verdict(
        "holds",
        f"Proved in the statement, with the cases of equality, which were as it says for {count:,} lists of branch "
        f"lengths and eta of 1/2, 1, 2, 5: those of {words(effort)}.",
        "a proof in words; exact enumeration, exponentials enclosed by rational numbers",
    )


@claim("T-MONO", source="GTO, Appendix A, proof of Theorem 1(a)")
def coordinatewise(effort: int) -> Verdict:
    """The reward is strictly increasing in each coordinate L_i.

    Proof: dr/dL_i = exp(eta L_i) / sum_k exp(eta L_k) > 0.
    """
    eta, *ls = sympy.symbols("eta l1:6", real=True)
    for size in range(1, 6):
        terms = [sympy.exp(eta * one) for one in ls[:size]]
        slope = sympy.diff(sympy.log(sum(terms)) / eta, ls[0])
        assert sympy.simplify(slope - terms[0] / sum(terms)) == 0

    def step(case: tuple[list[Fraction], Fraction]) -> bool:
        each, rate = case
        more = [[*each[:i], each[i] + Fraction(1, 100), *each[i + 1 :]] for i in range(len(each))]
        return all(sign(times(one, rate), times(each, rate)) > 0 for one in more)

    count = every(branches(effort), step)
    return Verdict(
        "holds",
        "The derivative is the weight in the softmax, checked with symbols for N of 1 to 5; a hundredth more on any "
        f"branch raised r for {count:,} lists of lengths and eta.",
        "a symbolic derivative; exact comparison",
    )


@claim("T-EQ5-ETA", source=f"{SECTION}, Eq. (5)")
def temperature(effort: int) -> Verdict:
    """The temperature interpolates between the maximum (eta -> inf) and the average (eta -> 0) of the branch lengths.

    r = (1/eta) log(sum_i exp(eta L_i)), the form that has the bounds of Appendix A. The first limit holds, by T-BOUND.
    For the second, Jensen's inequality gives r >= average + log(N)/eta, without bound as eta -> 0 for N > 1. With
    m = r - log(N)/eta: average <= m <= average + eta (max - min)^2 / 8, the left by Jensen, the right by Hoeffding's
    lemma; so m tends to the average, and by T-BOUND m >= max - log(N)/eta, so to the maximum as well.
    """

    def two() -> Iterator[tuple[Nodes, Hat]]:
        return ((tree, target) for tree, target in planted(effort) if min(target.values()) > 0)

    eta = Fraction(1, 10)

    def above(case: tuple[Nodes, Hat]) -> bool:
        each = lengths(*case)
        return len(each) > 1 and sign(times(each, eta), [eta * (max(each) + 6)]) > 0

    tree, target = smallest(two(), above)

    def hoeffding(case: tuple[list[Fraction], Fraction]) -> bool:
        each, rate = case
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
    return Verdict(
        "corrected",
        "The sum pays log(N)/eta for the number of branches. At eta = 1/10 two branches have a reward more than 6 "
        "above the longer one. The two-sided bound on m, and that m at twice eta is no less, held for "
        f"{count:,} lists of branch lengths and eta of 1/2, 1, 2, 5.",
        "inequalities with their proofs; exact enumeration, exponentials enclosed by rational numbers",
        {"eta": eta, "reward_is_above": max(lengths(tree, target)) + 6, **drawn(tree, target)},
        "m = r - log(N)/eta, the log of the mean of the exponentials over eta, interpolates: it lies between the "
        "average and average + eta (max - min)^2 / 8, and between max - log(N)/eta and max. r itself tends to the "
        "maximum as eta grows and to infinity as eta -> 0, unless there is one branch.",
    )


@second("T-EQ5-ETA")
def _(verdict: Verdict) -> str:
    assert verdict.counterexample
    case = verdict.counterexample
    eta, a, b = sympy.symbols("eta a b", positive=True)
    centred = sympy.series(sympy.log((sympy.exp(eta * a) + sympy.exp(eta * b)) / 2), eta, 0, 2).removeO()
    assert sympy.simplify(centred / eta - (a + b) / 2) == 0
    each = [sympy.Rational(one.numerator, one.denominator) for one in case["branch_lengths"]]
    reward = sympy.log(sum(sympy.exp(eta * one) for one in each)) / eta
    assert sympy.limit(reward, eta, 0, "+") == sympy.oo
    assert sympy.limit(reward, eta, sympy.oo) == max(each)
    found = gto.draft_tree_reward(*library_tree(case), float(case["eta"]))
    assert found > float(case["reward_is_above"]) > float(max(case["branch_lengths"]))
    return f"sympy's limits of the same formula are infinity and the maximum; spectheory.gto has r = {found:.4f} there."


@claim("T-REWARD", source="GTO, abstract and Section 3.1, Eq. (5)")
def equality(effort: int) -> Verdict:
    """The draft tree reward is "a sampling-free objective equal to the expected acceptance length of the draft tree
    under the target model" (abstract); Section 3.1 defines it by Eq. (5).

    E[L_dec] is the sum over drafted nodes of the target's probability of their path (T-TAIL). With one branch r = E.
    With N >= 2 branches, rational probabilities and a rational eta > 0 they are never equal: r = E says
    exp(eta E) = sum_i exp(eta L_i), where no term of the right can cancel, and exponentials of distinct rational
    numbers are linearly independent (Lindemann and Weierstrass), so that it needs N = 1 and E = L_1.
    """

    def differs(case: tuple[Nodes, Hat], eta: Fraction) -> bool:
        return sign(times(lengths(*case), eta), [eta * expected(*case)]) != 0

    one = Fraction(1)
    positive = ((tree, target) for tree, target in planted(effort) if min(target.values()) > 0)
    tree, target = smallest(positive, lambda case: differs(case, one))
    below = smallest(planted(effort), lambda case: expected(*case) == 0 and differs(case, one))
    checked = ((case, eta) for case in planted(effort) for eta in ETAS[:2])
    count = every(checked, lambda case: differs(*case) == (len(leaves(case[0][0])) > 1))

    def sandwich(case: tuple[Nodes, Hat]) -> bool:
        each = lengths(*case)
        return max(each) <= expected(*case) <= sum(each, Fraction(0))

    every(planted(effort), sandwich)
    return Verdict(
        "false",
        "The reward counts a shared token once for each branch, and pays log(N)/eta for the number of branches, "
        f"accepted or not. In {count:,} cases it differed from E just where there is more than one branch; eta 1/2 and "
        f"1, {words(effort)}.",
        "a proof by the independence of exponentials; exact enumeration",
        {"eta": one, **drawn(tree, target), "never_accepted": drawn(*below)},
        "The expected acceptance length is the sum over the drafted nodes of the target's probability of their path "
        "(spectheory.gto.expected_accepted), max L <= E <= sum L. The reward equals it only for a single branch; in "
        "general max L <= r <= E + log(N)/eta, and E <= N r.",
    )


@second("T-REWARD")
def _(verdict: Verdict) -> str:
    assert verdict.counterexample
    found = []
    for case in (verdict.counterexample, verdict.counterexample["never_accepted"]):
        each = [sympy.Rational(one.numerator, one.denominator) for one in case["branch_lengths"]]
        reward = sympy.log(sum(sympy.exp(one) for one in each))
        accepted = sum(case["p"][1:], Fraction(0))
        assert accepted == case["expected_accepted"]
        assert abs(sympy.N(reward - sympy.Rational(accepted.numerator, accepted.denominator), 40)) > sympy.Float("0.01")
        library = gto.draft_tree_reward(*library_tree(case), 1.0), gto.expected_accepted(*library_tree(case))
        assert isclose(library[0], sympy.N(reward))
        assert isclose(library[1], accepted, abs_tol=1e-15)
        found.append(f"{library[0]:.4f} against {library[1]:.4f}")
    return f"spectheory.gto has rewards and expectations of {' and '.join(found)}, sympy the same to 40 digits."
