"""`TriedTrees`, the trees that were replayed for a plan, with tau of each: what engines and curves choose from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import isclose
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.budget_curves import BudgetCurves
from spectheory.planning.replayed_options import Option
from spectheory.planning.replayed_tree import ReplayedTree
from spectheory.verify import name_of, verifier_of
from spectheory.yields import RequestClasses

ROUNDING = 1e-6
"""Relative rounding error of a tau."""


@dataclass(frozen=True, eq=False, repr=False)
class TriedTrees(Record):
    """N trees that were replayed, each with a verifier and its tau. A tree may occur with several verifiers.

    Attributes:
        trees: the trees; each has a drafted node.
        verifiers: (N,) names of their verifiers.
        tau: replayed tokens per target call.

    Raises:
        InputError: the lengths disagree, a tree has no drafted node, a verifier is unknown or does not verify its tree,
            or a tau is impossible.
    """

    kind: ClassVar[str] = "tried_trees"

    trees: tuple[Tree, ...]
    verifiers: tuple[str, ...]
    tau: Float[np.ndarray, " trees"]

    def __post_init__(self) -> None:
        tau = np.asarray(self.tau, np.float64)
        object.__setattr__(self, "tau", tau)
        if tau.shape != (len(self.trees),) or len(self.verifiers) != len(self.trees):
            raise InputError(
                f"trees, verifiers and tau must have one entry each, got {len(self.trees)}, {len(self.verifiers)} and "
                f"shape {tau.shape}"
            )
        for tree, verifier, value in zip(self.trees, self.verifiers, tau, strict=True):
            if not tree.budget or (verifier_of(verifier).takes != "trees" and not tree.is_chain):
                raise InputError(f"verifiers must be able to verify their trees, got {verifier} for {tree}")
            if not 1 - ROUNDING <= value <= tree.max_depth + 1 + ROUNDING:
                raise InputError(f"tau of {tree} must be between 1 and {tree.max_depth + 1}, got {value:.6g}")

    @classmethod
    def of(cls, options: Iterable[Option]) -> Self:
        """Replayed options, smaller trees first."""
        listed = sorted(options, key=lambda one: one.tree.budget)
        return cls(
            tuple(one.tree for one in listed),
            tuple(name_of(one.verifier) for one in listed),
            np.array([one.replayed.tau for one in listed]),
        )

    @property
    def summary(self) -> str:
        """The number of trees and their largest budget."""
        largest = max((tree.budget for tree in self.trees), default=0)
        return f"{len(self.trees):,} replayed trees and verifiers, of up to {largest} nodes"

    def require(self, used: ReplayedTree) -> None:
        """Check that a tree with its verifier is among these with the same tau. Raises InputError if it is not."""
        tree, verifier, tau = used.tree, used.verifier, used.replayed.tau
        rows = zip(self.trees, self.verifiers, self.tau, strict=True)
        found = [value for one, how, value in rows if one == tree and how == verifier]
        if not any(isclose(value, tau, rel_tol=ROUNDING) for value in found):
            held = ", ".join(f"tau {value:.6g}" for value in found) or "nothing"
            raise InputError(f"tried must hold {tree} with {verifier} and tau {tau:.6g}, got {held}")

    def speedups(self, latency: Latency, context: int) -> Float[np.ndarray, " trees"]:
        """Predicted speedup of each tree over plain decoding."""
        rows = zip(self.trees, self.tau.tolist(), self.verifiers, strict=True)
        return np.array([latency.speedup(tree, tau, context, verifier) for tree, tau, verifier in rows])

    def chain_speedups(self, latency: Latency, context: int, longest: int) -> Float[np.ndarray, " lengths"]:
        """Predicted speedup of the chain of each length with its fastest verifier.

        Entry 0 is plain decoding; a length that was not replayed has 0, so that it is never chosen.
        """
        found = np.append(1.0, np.zeros(longest))
        for tree, speedup in zip(self.trees, self.speedups(latency, context), strict=True):
            if tree.is_chain and tree.budget <= longest:
                found[tree.budget] = max(found[tree.budget], speedup)
        return found

    def curves(self, latency: Latency, context: int) -> BudgetCurves:
        """The best predictions at the budgets of these trees.

        At each budget, block efficiency is the highest one with at most that many nodes, and speedup the highest one
        with exactly that many. A budget without a chain has the entries of the longest chain below it.
        """
        rows = [(0, 1.0, 1.0, 1.0, 1.0)]
        speedups = self.speedups(latency, context)
        order = sorted(range(len(self.trees)), key=lambda i: self.trees[i].budget)
        for budget, group in groupby(order, key=lambda i: self.trees[i].budget):
            numbers = list(group)
            chains = [i for i in numbers if self.trees[i].is_chain]
            _, tau, _, *chain = rows[-1]
            if chains:
                chain = [self.tau[chains].max(), speedups[chains].max()]
            rows.append((budget, max(tau, self.tau[numbers].max()), speedups[numbers].max(), chain[0], chain[1]))
        return BudgetCurves(*map(np.array, zip(*rows, strict=True)))


def worth_keeping(options: Iterable[Option], chosen: Option | None, latency: Latency, context: int) -> list[Option]:
    """The chosen option, the chains with every verifier, and for each budget the highest tau and the fastest option."""
    listed = sorted(options, key=lambda one: one.tree.budget)
    kept = [one for one in listed if one.tree.is_chain or one is chosen]
    for _, group in groupby(listed, key=lambda one: one.tree.budget):
        same = list(group)
        kept.append(max(same, key=lambda one: one.replayed.tau))
        kept.append(max(same, key=lambda one: one.speedup(latency, context)))
    return list(dict.fromkeys(kept))


def require_tried(tried: TriedTrees | None, used: Iterable[tuple[Tree, ReplayedTree | None]]) -> None:
    """Check that either all trees of a plan were replayed, and are among those that were tried, or none was.

    Args:
        tried: the trees that were replayed; None if tau is predicted from rates.
        used: each tree of the plan, with what was replayed of it.

    Raises:
        InputError: some were and some were not, or `tried` lacks one.
    """
    for tree, one in used:
        if tried is None and one is not None:
            raise InputError(f"tried must be given, because {tree} was replayed: plan with a trace")
        if tried is not None and one is None and tree.budget:
            raise InputError(f"replayed must be given for {tree}, because tried is given: plan with a trace")
        if tried is not None and one is not None:
            tried.require(one)


def require_one_source(replayed: object | None, classes: RequestClasses | None) -> None:
    """Raise InputError if tau would be replayed and predicted from request classes."""
    if replayed is not None and classes is not None:
        raise InputError("classes must be None if trees were replayed, which need no rates: leave them out")
