"""GTO, Theorem 1(a): whether a higher reward means more accepted tokens of a target that samples."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import isclose
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.reward import library_tree, supported, words
from proofs_check.gto.trees import ETAS, drawn, lengths, rises
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
