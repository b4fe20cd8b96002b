"""GTO, Theorem 1(b): whether a higher reward means more accepted tokens of a greedy target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.exponentials import sign, times
from proofs_check.gto.reward import library_tree
from proofs_check.gto.sampled import Change, shown
from proofs_check.gto.trees import ETAS, leaves, lengths, rises
from proofs_check.small_drafts import Hat, Nodes, same_law, trees
from spectheory import gto

FEWER = (
    frozenset({(0,), (0, 0), (0, 0, 0), (1,)}),
    frozenset({(0,), (0, 0), (0, 0, 1), (0, 0, 2)}),
    same_law((Fraction(1), Fraction(0), Fraction(0)), 3),
    Fraction(1, 4),
)
"""A change of two branches with L = 3 and 0 to L = 2 and 2; the reward rises, as z^3 + 1 < 2 z^2 for z = exp(1/4)."""


def greedy_trees(tokens: int, depth: int, most: int) -> list[tuple[Nodes, Hat]]:
    """(tree, target) for every tree of up to `most` nodes, small ones first; the target always emits token A."""
    target = same_law((Fraction(1), *[Fraction(0)] * (tokens - 1)), depth)
    found = {tree for size in range(1, most + 1) for tree in trees(frozenset(target), size)}
    return [(tree, target) for tree in sorted(found, key=lambda tree: (len(tree), sorted(tree)))]


def changes(tokens: int, depth: int, most: int, etas: list[Fraction] = ETAS) -> Iterator[Change]:
    """(old tree, new tree, target, eta) over all pairs of `greedy_trees`, small trees first."""
    chosen = greedy_trees(tokens, depth, most)
    pairs = sorted(product(chosen, repeat=2), key=lambda pair: len(pair[0][0]) + len(pair[1][0]))
    return ((old, new, target, eta) for (old, target), (new, _) in pairs for eta in etas)


def deepest(tree: Nodes, target: Hat) -> Fraction:
    """max_i L_i, which is the number of accepted tokens where the target is greedy."""
    return max(lengths(tree, target))


def rises_for(gained: Callable[[Fraction], bool]) -> Callable[..., bool]:
    """A test of a change: whether its reward rises although `gained` is true of the change in max L."""
    return lambda old, new, target, eta: (
        gained(deepest(new, target) - deepest(old, target)) and rises(lengths(old, target), lengths(new, target), eta)
    )


@claim("T-1B")
def theorem_1b(effort: int) -> Finding:
    stays = smallest(changes(2, 1, 2), rises_for(lambda gained: gained <= 0))
    falls = smallest(changes(3, 1, 3), rises_for(lambda gained: gained < 0))
    if not rises_for(lambda gained: gained < 0)(*FEWER):
        raise ArithmeticError("the change with two branches is no counterexample")
    grids = ((2, 3, 4), (3, 2, 3)) if effort == 1 else ((2, 4, 5), (3, 3, 4))

    floors = [
        (tree, target, eta)
        for grid in grids
        for tree, target in greedy_trees(*grid)
        for eta in ETAS
        if sign([eta], [Fraction(0)] * len(leaves(tree))) > 0
    ]

    def values(tree: Nodes, target: Hat, eta: Fraction) -> dict[str, int]:
        exponents, whole = times(lengths(tree, target), eta), deepest(tree, target)
        return {"r_less_max_L": sign(exponents, [eta * whole]), "r_less_next": sign(exponents, [eta * (whole + 1)])}

    def changed(old: Nodes, new: Nodes, target: Hat, eta: Fraction) -> dict[str, Any]:
        enough = all(sign([eta], [Fraction(0)] * len(leaves(tree))) > 0 for tree in (old, new))
        gained = deepest(new, target) - deepest(old, target)
        return {
            "r_rises": rises(lengths(old, target), lengths(new, target), eta),
            "gained": gained,
            "large_eta": enough,
        }

    named = " or ".join(f"{most} nodes with {tokens} tokens {depth} deep" for tokens, depth, most in grids)
    return Finding(
        {"count": len(floors), "named": named},
        {"max_stays": shown(*stays), "max_falls": shown(*falls), "as_many_branches": shown(*FEWER)},
        cases={
            "change": (changed(*one) for one in (*changes(2, 1, 2), *changes(3, 1, 3), FEWER)),
            "tree_with_large_eta": (values(*one) for one in floors),
        },
    )


@second("T-1B")
def _(cases: Case) -> dict[str, Any]:
    told = []
    for name, case in cases.items():
        text, kept, rewards = "A" * 9, [], []
        for tree in (case["old"], case["new"]):
            kept.append(max(len(node) for node in tree["node"] if text.startswith(node)))
            rewards.append(gto.draft_tree_reward(*library_tree(tree), float(case["eta"])))
            assert gto.expected_accepted(*library_tree(tree)) == kept[-1]
        assert rewards[1] > rewards[0] + 1e-6
        assert kept[1] == kept[0] if name == "max_stays" else kept[1] < kept[0]
        told.append(f"{rewards[0]:.3f} to {rewards[1]:.3f} with {kept[0]} then {kept[1]} accepted")
    return {"told": "; ".join(told)}
