"""GTO, Theorem 1: whether a higher reward means more accepted tokens of a target that samples, or is greedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product
from math import isclose
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.reward import library_tree, supported, words
from proofs_check.gto.trees import ETAS, drawn, leaves, lengths, rises, sign, times
from proofs_check.small_drafts import Hat, Nodes, Path, positive_laws, same_law, trees, worth
from spectheory import gto

Change = tuple[Nodes, Nodes, Hat, Fraction]
"""The old tree, the new one, the target and eta."""


def shown(old: Nodes, new: Nodes, target: Hat, eta: Fraction) -> dict[str, Any]:
    return {"eta": eta, "old": drawn(old, target), "new": drawn(new, target)}


def misled(old: Nodes, new: Nodes, target: Hat, eta: Fraction) -> bool:
    """Whether r rises and E[L_dec] falls."""
    return worth(new, target) < worth(old, target) and rises(lengths(old, target), lengths(new, target), eta)


def same_size() -> Iterator[Change]:
    """Two trees of two nodes, one distribution of two tokens everywhere."""
    for law in positive_laws(2, 10):
        target = same_law(law, 2)
        for old, new in product(trees(frozenset(target), 2), repeat=2):
            yield from ((old, new, target, eta) for eta in ETAS)


def same_shape() -> Iterator[Change]:
    """Two leaves under the root before and after, four tokens, small common denominators first."""
    forks = [frozenset[Path]((a,) for a in pair) for pair in combinations(range(4), 2)]
    for law in positive_laws(4, 12):
        target: dict[Path, Fraction] = {(token,): p for token, p in enumerate(law)}
        for old, new in product(forks, repeat=2):
            yield from ((old, new, target, Fraction(eta)) for eta in range(1, 11))


def any_eta(eta: Fraction) -> Change:
    """Branches of almost sure tokens after first tokens of 4, 3, 3 and 1 in 11: for every eta deep enough."""
    depth, nearly = int(6 / eta) + 1, Fraction(9999, 10000)
    target: Hat = {}
    for token, weight in enumerate((4, 3, 3, 1)):
        target |= {(token, *[0] * d): Fraction(weight, 11) * nearly**d for d in range(depth)}
    old, new = (frozenset(path for path in target if path[0] in pair) for pair in ((1, 2), (0, 3)))
    return old, new, target, eta


@claim("T-1A")
def theorem_1a(effort: int) -> Finding:
    shape, tokens = smallest(same_size(), misled), smallest(same_shape(), misled)
    for eta in (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5)):
        if not misled(*any_eta(eta)):
            raise ArithmeticError(f"no counterexample for eta {eta}")

    def grown() -> Iterator[Change]:
        for tree, target in supported(effort):
            outer = (node for node in target if node not in tree and (node[:-1] in tree or len(node) == 1))
            yield from ((tree, tree | {node}, target, eta) for node in outer for eta in ETAS[:2])

    def values(old: Nodes, new: Nodes, target: Hat, eta: Fraction) -> dict[str, Any]:
        gain = worth(new, target) - worth(old, target)
        return {"r_rises": rises(lengths(old, target), lengths(new, target), eta), "gain_of_E": gain}

    added = [values(*one) for one in grown()]
    return Finding(
        {"count": len(added), "cases": words(effort)},
        {"same_number_of_nodes": shown(*shape), "same_shape": shown(*tokens)},
        cases={"change": (values(*one) for one in (shape, tokens)), "added_node": added},
    )


@second("T-1A")
def _(cases: Case) -> dict[str, Any]:
    z = sympy.symbols("z", positive=True)
    assert sympy.factor(z**4 + z - 2 * z**3 - z * (z - 1) * (z**2 - z - 1)) == 0  # `any_eta`: 4 and 1, then 3 and 3
    told = []
    for case in cases.values():
        trees = [library_tree(case[name]) for name in ("old", "new")]
        before, after = (gto.draft_tree_reward(*tree, float(case["eta"])) for tree in trees)
        fell = [gto.expected_accepted(*tree) for tree in trees]
        assert all(map(isclose, fell, (case[name]["expected_accepted"] for name in ("old", "new"))))
        assert after > before + 1e-6
        assert fell[1] < fell[0] - 1e-6
        told.append(f"{before:.4f} to {after:.4f} while tokens go from {fell[0]:.4f} to {fell[1]:.4f}")
    return {"told": " and from ".join(told)}


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
