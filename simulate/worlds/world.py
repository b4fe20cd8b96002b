"""`SimulatedWorld`, the base of worlds, and `Walks`, the cycles drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from spectheory import DrawRule, InputError, Provenance, Tally, Tree, Verifier
from spectheory.core.checks import check_whole
from spectheory.verify import name_of

Choose = Callable[[Int[np.ndarray, " walks"]], Int[np.ndarray, " walks"]]
"""Draws, for an array of accepted nodes, the child of each that is accepted next, or -1."""


@dataclass(frozen=True, eq=False)
class Walks:
    """N simulated cycles of several requests.

    Attributes:
        accepted: (N,) number of drafted tokens that each cycle keeps.
        request: (N,) number of the request of each cycle, 0, 1, ...
        deepest: maximum number of drafted tokens that a cycle can keep.
    """

    accepted: np.ndarray
    request: np.ndarray
    deepest: int

    def tally(self, provenance: Provenance) -> Tally:
        """The counts by request, with intervals that assume independent requests, not independent cycles."""
        cycles = np.bincount(self.request)
        return Tally(
            emitted=np.bincount(self.request, self.accepted).astype(np.int64) + cycles,
            cycles=cycles,
            accepted_histogram=np.bincount(self.accepted, minlength=self.deepest + 1),
            provenance=provenance,
        )


def check_sizes(requests: int, cycles: int) -> None:
    """Refuse a number of requests or cycles that is below 1."""
    check_whole("requests", requests, 1)
    check_whole("cycles", cycles, 1, ": give the number of cycles of each request")


def descend(tree: Tree, choose: Choose, cycles: int) -> Int[np.ndarray, " cycles"]:
    """Number of accepted tokens of walks from the root down, all at once, level by level."""
    node, accepted = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
    walking = np.arange(cycles)
    for _ in range(tree.max_depth):
        node[walking] = choose(node[walking])
        walking = walking[node[walking] >= 0]
        accepted[walking] += 1
    return accepted


def by_edges(tree: Tree, edges: Float[np.ndarray, " nodes"], rng: np.random.Generator) -> Choose:
    """Walks in which at most one child is accepted: node u, if its parent is accepted, with probability `edges[u]`."""
    child, share = children_by_rank(tree), np.zeros((tree.budget + 1, int(tree.rank.max()) + 1))
    drafted = np.arange(1, tree.budget + 1)
    share[tree.parent[drafted], tree.rank[drafted]] = edges[drafted]
    upto = share.cumsum(1)

    def choose(at: np.ndarray) -> np.ndarray:
        rank = (upto[at] <= rng.random(len(at))[:, None]).sum(1)
        return child[at, rank]

    return choose


def children_by_rank(tree: Tree) -> Int[np.ndarray, "nodes children"]:
    """The child of each node by rank, -1 where there is none; the last column is always -1."""
    child = np.full((tree.budget + 1, int(tree.rank.max()) + 2), -1)
    drafted = np.arange(1, tree.budget + 1)
    child[tree.parent[drafted], tree.rank[drafted]] = drafted
    return child


def require_tree(shape: object, world: str) -> Tree:
    """`shape`, if it is a static tree. Raises InputError if not."""
    if not isinstance(shape, Tree):
        raise InputError(
            f"shape must be a Tree in a {world}, which has no tokens that a policy could draft, got {shape!r:.60}: use "
            "MarkovWorld"
        )
    return shape


class SimulatedWorld(ABC):
    """How many drafted tokens a cycle keeps. It is drawn by `walks`, and computed by the other methods.

    The two are independent of each other: `walks` simulates each cycle, and the other methods compute exact values
    with `spectheory`. So each is a test of the other.

    All methods take the same three arguments:

    - `shape`: what is drafted in every cycle, a static `Tree`, or where the world has tokens, a policy.
    - `verifier`: the verifier. Worlds of rates take None, because the rates belong to one verifier already.
    - `rule`: how the children of a static tree are drawn; policies have a rule of their own.
    """

    def walks(
        self,
        shape: Any,
        verifier: Verifier | None = None,
        rule: DrawRule | None = None,
        *,
        requests: int,
        cycles: int,
        rng: np.random.Generator,
    ) -> Walks:
        """Draw `cycles` cycles of each of `requests` requests.

        Raises:
            InputError: the world does not know such a shape or verifier, or a number is below 1.
        """
        check_sizes(requests, cycles)
        return self._walks(shape, verifier, rule, requests, cycles, rng)

    @abstractmethod
    def _walks(
        self, shape: Any, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        """`walks`, after a check of the two numbers."""

    @abstractmethod
    def emitted_tokens(
        self, shape: Any, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> Shaped[np.ndarray, " lengths"]:
        """Probabilities that a cycle of a long run emits 1, 2, ... tokens. Raises InputError as `walks` does."""

    def block_efficiency(self, shape: Any, verifier: Verifier | None = None, rule: DrawRule | None = None) -> Any:
        """E[tau], the expected tokens per target call of a long run. Raises InputError as `walks` does."""
        probabilities = self.emitted_tokens(shape, verifier, rule)
        return probabilities @ np.arange(1, len(probabilities) + 1)


def require_own_verifier(own: Verifier | None, asked: Verifier | None, rule: DrawRule | None) -> None:
    """Check that a world of rates is asked for the verifier to which its rates belong, or for none.

    Raises:
        InputError: another verifier is asked for, which the rates cannot tell apart, or a draw rule is given.
    """
    if asked is not None and asked != own:
        holds = "their verifier is not known" if own is None else f"they belong to {name_of(own)}"
        raise InputError(
            f"verifier must be left out in a world of rates, which cannot tell {name_of(asked)} from other verifiers "
            f"({holds}), got {asked}: give the world the rates of {name_of(asked)} and verifier={asked}, or use "
            "MarkovWorld"
        )
    if rule is not None:
        raise InputError(
            f"rule must be left out in a world of rates, which has no tokens that could be drawn, got {rule.name}: use "
            "MarkovWorld"
        )
