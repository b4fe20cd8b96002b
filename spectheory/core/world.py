"""Worlds small enough to write down, and policies that draft in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree

Context = tuple[int, ...]
"""Tokens behind the last committed one, oldest first; () right after it."""


@dataclass(frozen=True)
class World:
    """Target and draft as next-token distributions given a context.

    Attributes:
        p: context -> (V,) the target's distribution.
        q: context -> (V,) the draft's distribution.
    """

    p: Callable[[Context], Vector]
    q: Callable[[Context], Vector]

    @classmethod
    def constant(cls, p: Vector, q: Vector) -> World:
        """Distributions that do not depend on the context."""
        return cls(lambda _: p, lambda _: q)

    @classmethod
    def markov(cls, p: Any, q: Any, start: int = 0) -> World:
        """Distributions p[token], q[token] that depend on the last token only; `start` is the last committed one. (V,
        V).
        """
        return cls(lambda context: p[(start, *context)[-1]], lambda context: q[(start, *context)[-1]])

    @classmethod
    def table(cls, distributions: Mapping[Context, tuple[Vector, Vector]]) -> World:
        """Distributions (p, q) written down for each context; those for () serve where a context is not in the
        table.
        """
        return cls(
            lambda context: distributions.get(context, distributions[()])[0],
            lambda context: distributions.get(context, distributions[()])[1],
        )

    def target(self, draft: Draft) -> list[Vector]:
        """The target's distribution at each node of a draft, n + 1 rows of (V,)."""
        return [self.p(draft.context(node)) for node in range(draft.tree.budget + 1)]


class DrawPolicy(ABC):
    """How a draft tree grows. Subclasses say how many draws a node of given depth and multiplicity gets."""

    rule: DrawRule

    @property
    @abstractmethod
    def name(self) -> str:
        """The shape without the draw rule."""

    @abstractmethod
    def draws(self, depth: int, multiplicity: int) -> int:
        """Number of draws below a node that `multiplicity` draws have hit."""

    def grow(self, world: World, rng: Any) -> Draft:
        """Draw one draft; `rng` is a `numpy.random.Generator`, or the `Replay` of `branches` to get all of them."""
        growth = Growth(self.rule)
        for node, _ in enumerate(growth.tokens):  # grows while it is read
            distribution = world.q(growth.contexts[node])
            count = self.draws(growth.depth(node), growth.hits[node])
            growth.hang(node, distribution, self.rule.children(distribution, count, rng) if count else [])
        return growth.draft()


class Growth:
    """A draft that grows node by node.

    Attributes:
        tokens: of the nodes so far; the root's is `root`.
        contexts: for each node the drafted tokens from the root to it.
        hits: how many draws have hit each node.
    """

    def __init__(self, rule: DrawRule, root: int = 0) -> None:
        self.rule = rule
        self.tokens, self.hits = [root], [1]
        self.contexts: list[Context] = [()]
        self._parent = [-1]
        self._distributions: list[Any] = [None]
        self._draws: list[tuple[int, ...]] = [()]

    def depth(self, node: int) -> int:
        """Edges from the root to `node`."""
        return len(self.contexts[node])

    def hang(self, node: int, distribution: Vector, drawn: Sequence[int]) -> list[int]:
        """Put the tokens drawn from `distribution` below `node`, in draw order; the nodes that are new."""
        first = len(self.tokens)
        known: dict[int, int] = {}
        draws = []
        for token in drawn:
            if token in known and self.rule is not DrawRule.IID_APART:
                self.hits[known[token]] += 1
            else:
                known[token] = len(self.tokens)
                self._parent.append(node)
                self.tokens.append(token)
                self.hits.append(1)
                self.contexts.append((*self.contexts[node], token))
                self._distributions.append(None)
                self._draws.append(())
            draws.append(known[token])
        self._distributions[node], self._draws[node] = distribution, tuple(draws)
        return list(range(first, len(self.tokens)))

    def draft(self) -> Draft:
        """All of it. Leaves have the distribution that they were given, or None."""
        tree, tokens = Tree._unchecked(self._parent), np.array(self.tokens)
        return Draft._unchecked(tree, tokens, self._distributions, tuple(self._draws), self.rule)


@dataclass(frozen=True)
class Levels(DrawPolicy):
    """Every node of depth d gets counts[d] draws: chains (1, 1, ...), k-ary and delayed trees (1, 1, 3, 1)."""

    counts: tuple[int, ...]
    rule: DrawRule = DrawRule.IID

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise InputError(f"counts must name at least one draw for each depth, such as (2, 1), got {self.counts}")

    @property
    def name(self) -> str:
        """See DrawPolicy.name."""
        return f"Levels({self.counts})"

    def draws(self, depth: int, multiplicity: int) -> int:
        """See DrawPolicy.draws."""
        return self.counts[depth] if depth < len(self.counts) else 0


@dataclass(frozen=True)
class Paths(DrawPolicy):
    """A trunk of `trunk` single draws, then `paths` i.i.d. continuations of `length` tokens: (K, L1, L2)-delayed trees.

    Paths share the nodes of their common beginnings under DrawRule.IID: a node on m of them gets m draws.
    Source: Dynamic Delayed Tree Expansion, Section 4.
    """

    paths: int
    length: int
    trunk: int = 0
    rule: DrawRule = DrawRule.IID

    def __post_init__(self) -> None:
        if self.paths < 1 or min(self.length, self.trunk) < 0:
            raise InputError(
                "paths must be at least 1, length and trunk at least 0, got "
                f"paths={self.paths}, length={self.length}, trunk={self.trunk}"
            )

    @property
    def name(self) -> str:
        """See DrawPolicy.name."""
        return f"Paths({self.paths}, {self.length}, trunk={self.trunk})"

    def draws(self, depth: int, multiplicity: int) -> int:
        """See DrawPolicy.draws."""
        if depth < self.trunk:
            return 1
        if depth >= self.trunk + self.length:
            return 0
        return self.paths if depth == self.trunk else multiplicity
