"""The second checks of OPT-Tree: sums over strings of letters, the printed loop word by word, the library's verifier.

Nothing here uses the trees, the sums or the algorithm of the first checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

import spectheory as st
from proofs_check.claims import Case, second


def is_tree(nodes: Sequence[str]) -> bool:
    """Whether every node has its parent."""
    return all(len(node) == 1 or node[:-1] in nodes for node in nodes)


def total(p_hat: Mapping[str, Fraction], nodes: Sequence[str]) -> Fraction:
    """Eq. (3): the sum of p-hat over the nodes."""
    return sum((p_hat[node] for node in nodes), Fraction(0))


def best(p_hat: Mapping[str, Fraction], n: int) -> Fraction:
    """The largest value of Eq. (3) over trees of n nodes."""
    return max(total(p_hat, nodes) for nodes in combinations(p_hat, n) if is_tree(nodes))


def assert_is_a_draft(p_hat: Mapping[str, Fraction]) -> None:
    """Assert that the children of a node share all of its p-hat, and that p-hat is non-increasing in their letters."""
    for node in ["", *p_hat]:
        below = [p_hat[name] for name in p_hat if name[:-1] == node and name != node]
        assert not below or sum(below) == (p_hat[node] if node else 1)
        assert below == sorted(below, reverse=True)


def assert_largest(p_hat: Mapping[str, Fraction], chosen: Sequence[str]) -> None:
    """Assert that no node left out has a larger p-hat than a chosen node."""
    assert min(p_hat[node] for node in chosen) >= max(p_hat[node] for node in p_hat if node not in chosen)


def p_hat_of(law: Sequence[Fraction], depth: int) -> dict[str, Fraction]:
    """p-hat where every node has the same distribution."""
    layer, p_hat = {"": Fraction(1)}, {}
    for _ in range(depth):
        layer = {node + token: layer[node] * p for node in layer for token, p in zip("ABC", law, strict=False)}
        p_hat |= layer
    return p_hat


def greedy_accepted(nodes: Sequence[str], emitted: str, tokens: int) -> Fraction:
    """Drafted tokens that the library's verifier keeps when the target's first choice is always `emitted`."""
    order = ["", *sorted(nodes, key=lambda node: (len(node), node))]
    tree = st.Tree([-1, *[order.index(node[:-1]) for node in order[1:]]])
    p = np.array([[Fraction(int(token == emitted)) for token in "ABC"[:tokens]]] * len(order))
    drafted = [0, *["ABC".index(node[-1]) for node in order[1:]]]
    draft = st.Draft.in_order(tree, drafted, p * 0 + Fraction(1, tokens), st.DrawRule.TOP_K)
    return Fraction(st.verify.Greedy().outcome(draft, p).block_efficiency) - 1


def algorithm_1(law: Sequence[Fraction], n: int, delta: Fraction) -> tuple[list[str], int]:
    """Algorithm 1 word by word with one distribution at every node: the nodes, and the drafting steps taken."""
    p_hat = p_hat_of(law, n)

    def top(nodes: list[str]) -> list[str]:
        return sorted(nodes, key=lambda node: (-p_hat[node], len(node)))[:n]

    layer = drafted = top([node for node in p_hat if len(node) == 1])
    before = Fraction(0)
    while len(layer[0]) < n and total(p_hat, top(drafted)) - before > delta:
        before = total(p_hat, top(drafted))
        layer = top([node for node in p_hat if node[:-1] in layer])
        drafted = drafted + layer
    return top(drafted), len(layer[0])


@second("O-3.1")
def not_strict(case: Case) -> None:
    assert_is_a_draft(case["p_hat"])
    assert case["v_i"] != case["v_j"]
    assert case["v_i"].startswith(case["v_j"])
    assert case["p_hat"][case["v_i"]] == case["p_hat"][case["v_j"]] > 0


@second("O-SUB")
def orphaned(case: Case) -> None:
    assert_is_a_draft(case["p_hat"])
    assert_largest(case["p_hat"], case["chosen"])
    assert len(case["chosen"]) == case["n"]
    assert not is_tree(case["chosen"])
    assert total(case["p_hat"], case["chosen"]) == best(case["p_hat"], case["n"])  # a tree that is worth as much is


@second("O-ALG1")
def ties_and_delta(case: Case) -> None:
    assert_is_a_draft(case["p_hat"])
    assert len(case["chosen"]) == case["n"] == max(map(len, case["p_hat"])) == 2
    first_layer = sorted((p for node, p in case["p_hat"].items() if len(node) == 1), reverse=True)[:2]
    assert sum(first_layer) > case["delta"] == 0  # so it drafts a second layer, and stops at depth n
    assert_largest(case["p_hat"], case["chosen"])
    assert not is_tree(case["chosen"])
    for law in ([6, 3, 1], [4, 4, 2], [9, 1, 0]):
        tenths = [Fraction(part, 10) for part in law]
        nodes, _ = algorithm_1(tenths, 4, Fraction(0))
        rates = st.Acceptance.by_rank([float(one) for one in tenths])
        found = st.block_efficiency(st.best_tree(rates, 4), rates) - 1
        assert abs(found - float(total(p_hat_of(tenths, 4), nodes))) < 1e-12
        whole = total(p_hat_of(tenths, 4), nodes)
        for tenth in range(1, 10):
            chosen, drafted = algorithm_1(tenths, 4, Fraction(tenth, 10))
            assert 0 <= whole - total(p_hat_of(tenths, 4), chosen) <= (4 - drafted) * Fraction(tenth, 10)


@second("O-DELTA")
def below_mu(case: Case) -> None:
    n, mu, law = case["n"], case["mu"], case["law"]

    def decode(delta: Fraction) -> Fraction:
        """The speed at a threshold when the target always emits A."""
        chosen, steps = algorithm_1(law, n, delta)
        return (1 + greedy_accepted(chosen, "A", len(law))) / (1 + mu * steps)

    deltas = [Fraction(step, 200) for step in range(201)]
    assert max(decode(delta) for delta in deltas if delta >= mu) == case["speed_inside"]
    assert max(map(decode, deltas)) == case["speed_best"] > max(case["speed_inside"], 1)


@second("O-DEPTH")
def deeper_and_less(case: Case) -> None:
    counts = []
    for delta in case["thresholds"]:
        chosen, _ = algorithm_1(case["draft"], case["n"], delta)
        counts.append(total(p_hat_of(case["target"], case["n"]), chosen))
    assert counts == case["accepted"]
    assert counts[0] < counts[1]
    assert case["thresholds"][0] < case["thresholds"][1]


@second("O-MU")
def a_small_gain_pays(case: Case) -> None:
    n, mu, law = case["n"], case["mu"], case["law"]
    p_hat = p_hat_of(law, n)
    drafts = [algorithm_1(law, n, delta)[0] for delta in (Fraction(1), Fraction(-1))]
    deep = [max(map(len, nodes)) for nodes in drafts]
    speeds = [
        (1 + greedy_accepted(nodes, "A", len(law))) / (1 + mu * steps)
        for nodes, steps in zip(drafts, deep, strict=True)
    ]
    assert deep == [1, 2]
    assert total(p_hat, drafts[1]) - total(p_hat, drafts[0]) <= mu
    assert speeds[1] > speeds[0] > 1


@second("O-EA")
def misled(cases: Case) -> None:
    for case in (cases["any"], cases["greedy"]):
        p_hat, emitted = p_hat_of(case["draft"], case["n"]), "AB"[case["target"].index(1)]
        assert total(p_hat, case["chosen"]) == best(p_hat, case["n"]) > total(p_hat, case["better"])
        assert greedy_accepted(case["chosen"], emitted, 2) == case["chosen_accepted"]
        assert greedy_accepted(case["better"], emitted, 2) == case["better_accepted"] > case["chosen_accepted"]
