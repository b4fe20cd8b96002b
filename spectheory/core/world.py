"""`World`, a target and a draft as functions of the context, and policies that draw random drafts in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory.core.arrays import RandomSource, Vector
from spectheory.core.checks import check_types, checked
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree

Context = tuple[int, ...]
"""The drafted tokens after the last committed token, oldest first; () directly after it."""


@dataclass(frozen=True)
class World:
    """Target and draft as next-token distributions given a context.

    Attributes:
        p: function that returns the target's distribution (V,) after a context.
        q: function that returns the draft's distribution (V,) after a context.
    """

    p: Callable[[Context], Vector]
    q: Callable[[Context], Vector]

    @classmethod
    @checked
    def constant(cls, p: Vector, q: Vector) -> World:
        """A world whose distributions do not depend on the context."""
        return cls(lambda _: p, lambda _: q)

    @classmethod
    @checked
    def markov(cls, p: Shaped[Any, "V V"], q: Shaped[Any, "V V"], start: int = 0) -> World:
        """A world whose distributions depend on the last token only: p[token] and q[token].

        Row t holds after token t. `start` is the last committed token.
        """
        if not len({*np.shape(p), *np.shape(q)}) == 1 or np.ndim(p) != 2 or np.ndim(q) != 2:
            raise InputError(f"p and q must be V rows of V probabilities, got shapes {np.shape(p)} and {np.shape(q)}")
        return cls(lambda context: p[(start, *context)[-1]], lambda context: q[(start, *context)[-1]])

    @classmethod
    @checked
    def table(cls, distributions: Mapping[Context, tuple[Vector, Vector]]) -> World:
        """A world with the distributions (p, q) of each listed context. Other contexts have the distributions of ()."""
        return cls(
            lambda context: distributions.get(context, distributions[()])[0],
            lambda context: distributions.get(context, distributions[()])[1],
        )

    def target(self, draft: Draft) -> list[Vector]:
        """The target's distribution (V,) at each of the n + 1 nodes of a draft."""
        return [self.p(draft.context(node)) for node in range(draft.tree.budget + 1)]


class DrawPolicy(ABC):
    """How a random draft tree grows: the number of draws below a node, by its depth and how often it was drawn."""

    rule: DrawRule

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the policy in messages, without the draw rule."""

    @abstractmethod
    def draws(self, depth: int, multiplicity: int) -> int:
        """Number of draws below a node at `depth` that was drawn `multiplicity` times."""

    def grow(self, world: World, rng: RandomSource) -> Draft:
        """Draw one draft. `rng` is a `numpy.random.Generator`, or a `Branch` to enumerate all drafts."""
        return self.growth(world, rng).draft()

    def growth(self, world: World, rng: RandomSource) -> Growth:
        """As `grow`, with the context of each node."""
        growth = Growth(self.rule)
        for node, context in enumerate(growth.contexts):  # the list grows during the loop
            distribution = world.q(context)
            count = self.draws(len(context), growth.hits[node])
            growth.add(node, distribution, self.rule.children(distribution, count, rng) if count else ())
        return growth


class Growth:
    """A draft that grows node by node.

    Attributes:
        tokens: token of each node so far; the token of the root is the argument `root`.
        contexts: for each node, the drafted tokens on the path from the root.
        hits: for each node, how often it was drawn.
    """

    def __init__(self, rule: DrawRule, root: int = 0) -> None:
        self.rule = rule
        self.tokens, self.hits = [root], [1]
        self.contexts: list[Context] = [()]
        self._parent = [-1]
        self._distributions: list[Any] = [None]
        self._draws: list[tuple[int, ...]] = [()]

    def add(self, node: int, distribution: Vector, drawn: Sequence[int]) -> list[int]:
        """Add the tokens `drawn` from `distribution`, in draw order, below `node`. Returns the new nodes."""
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
        """The draft of all nodes so far. A leaf to which nothing was added has no distribution (None)."""
        tree, tokens = Tree._unchecked(self._parent), np.array(self.tokens)
        return Draft._unchecked(tree, tokens, self._distributions, tuple(self._draws), self.rule)


@dataclass(frozen=True)
class Levels(DrawPolicy):
    """Every node at depth d gets counts[d] draws: (1, 1, ...) is a chain, (1, 1, 3, 1) a delayed tree."""

    counts: tuple[int, ...]
    rule: DrawRule = DrawRule.IID  # pyrefly: ignore[bad-override]

    def __post_init__(self) -> None:
        check_types(Levels, vars(self))
        if len(self.counts) == 0 or min(self.counts) < 1:
            raise InputError(f"counts must have at least one entry, each at least 1, such as (2, 1), got {self.counts}")

    @property
    def name(self) -> str:
        return f"Levels({self.counts})"

    def draws(self, depth: int, multiplicity: int) -> int:
        return self.counts[depth] if depth < len(self.counts) else 0


@dataclass(frozen=True)
class Paths(DrawPolicy):
    """The (K, L1, L2)-delayed tree: L1 = `trunk` single draws, then K = `paths` i.i.d. paths of L2 = `length` tokens.

    Under DrawRule.IID, paths that begin with the same tokens share nodes, and a node on m paths gets m draws.
    Source: Dynamic Delayed Tree Expansion, Section 4.
    """

    paths: int
    length: int
    trunk: int = 0
    rule: DrawRule = DrawRule.IID  # pyrefly: ignore[bad-override]

    def __post_init__(self) -> None:
        check_types(Paths, vars(self))
        if self.paths < 1 or min(self.length, self.trunk) < 0:
            raise InputError(
                "paths must be at least 1, length and trunk at least 0, got "
                f"paths={self.paths}, length={self.length}, trunk={self.trunk}"
            )

    @property
    def name(self) -> str:
        return f"Paths({self.paths}, {self.length}, trunk={self.trunk})"

    def draws(self, depth: int, multiplicity: int) -> int:
        if depth < self.trunk:
            return 1
        if depth >= self.trunk + self.length:
            return 0
        return self.paths if depth == self.trunk else multiplicity
