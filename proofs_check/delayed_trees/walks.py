"""Drafted trees and verifiers as programs that draw, and the exact distribution of what such a program returns.

A context is the tuple of tokens after the last committed one. A draft is the list of its paths in draw order; paths
that begin alike share nodes, and a node's list of children has one entry for each path through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any

import spectheory as st
from proofs_check.delayed_trees.library import array
from proofs_check.plays import ONE, ZERO, Pick, gathered
from proofs_check.small_drafts import Law, Path, total

DraftedPaths = tuple[Path, ...]
DelayedShape = tuple[int, int, int]
"""(K, L1, L2) of Definition 5.2."""
Branching = Callable[[Law, Law, Path], Law]
"""(p, q, drafted tokens) -> distribution of the emitted token: the branching probabilities of Definition 5.3."""
Emitted = dict[Path, Fraction]
"""The distribution of accepted tokens and the token after them; that token is left out after the last drafted ones."""


@dataclass(frozen=True)
class ContextTable:
    """(p, q) by context in order of length; the last pair also holds after all longer contexts."""

    table: tuple[tuple[Law, Law], ...]

    @property
    def size(self) -> int:
        """Tokens in the vocabulary."""
        return len(self.table[0][0])

    def pair(self, context: Path) -> tuple[Law, Law]:
        """(p, q) after a context."""
        place, size = 0, self.size
        for token in context:
            place = place * size + token + 1
        return self.table[place if place < len(self.table) else -1]

    def after(self, context: Path) -> ContextTable:
        """The world in which every context has the pair that `context` has here."""
        return ContextTable((self.pair(context),))

    def chance(self, path: Path, side: int, context: Path = ()) -> Fraction:
        """The probability of a path after a context, by the target (side 0) or the draft (side 1)."""
        chance = ONE
        for i, token in enumerate(path):
            chance *= self.pair((*context, *path[:i]))[side][token]
        return chance

    def texts(self, length: int) -> Emitted:
        """The target's distribution on texts of `length` tokens."""
        paths = product(range(self.size), repeat=length)
        return {path: chance for path in paths if (chance := self.chance(path, 0))}

    def shown(self, length: int) -> dict[str, Any]:
        """The distributions after every context shorter than `length`, as data: contexts written in letters."""
        contexts = [path for depth in range(length) for path in product(range(self.size), repeat=depth)]
        return {"".join("ABCD"[token] for token in path) or "root": self.pair(path) for path in contexts}

    def library(self) -> st.World:
        """The same world as an object of spectheory."""
        return st.World(lambda context: array(self.pair(context)[0]), lambda context: array(self.pair(context)[1]))


def all_laws(size: int, largest: int) -> list[Law]:
    """Every distribution on `size` tokens with a common denominator of at most `largest`, the simplest first."""
    counts = [
        c for parts in range(1, largest + 1) for c in product(range(parts, -1, -1), repeat=size) if sum(c) == parts
    ]
    return list(dict.fromkeys(tuple(Fraction(count, sum(law)) for count in law) for law in counts))


def worlds(size: int, largest: int, contexts: int = 1) -> list[ContextTable]:
    """Every world of `all_laws` after the first `contexts` contexts; the last pair also holds after longer ones.

    The simplest, by the sum of the common denominators of its distributions, comes first.
    """
    tables = product(product(all_laws(size, largest), repeat=2), repeat=contexts)
    denominators = {law: lcm(*(weight.denominator for weight in law)) for law in all_laws(size, largest)}
    ordered = sorted(tables, key=lambda table: sum(denominators[law] for pair in table for law in pair))
    return [ContextTable(tuple((p, q) for p, q in table)) for table in ordered]


def drawn(pick: Pick, world: ContextTable, shape: DelayedShape) -> DraftedPaths:
    """A random (K, L1, L2)-delayed tree, by Definition 5.2: a trunk, then K independent continuations."""
    paths, trunk, length = shape
    stem = _continued(pick, world, (), trunk)
    return tuple(_continued(pick, world, stem, length) for _ in range(paths))


def _continued(pick: Pick, world: ContextTable, path: Path, tokens: int) -> Path:
    for _ in range(tokens):
        path = (*path, pick(world.pair(path)[1]))
    return path


def listed(draft: DraftedPaths, node: Path, trunk: int = 0) -> Path:
    """The child list of a node: a token for each path through it, but one token on the trunk."""
    depth = len(node)
    tokens = tuple(path[depth] for path in draft if path[:depth] == node and len(path) > depth)
    return tokens[:1] if depth < trunk else tokens


def walked(pick: Pick, world: ContextTable, draft: DraftedPaths, trunk: int, solver: Branching) -> Path:
    """Top-down traversal: accepted tokens and the one that leaves the tree; none after the end of a path."""
    node: Path = ()
    while tokens := listed(draft, node, trunk):
        emitted = pick(solver(*world.pair(node), tokens))
        node = (*node, emitted)
        if emitted not in tokens:
            break
    return node


def depth_kept(draft: DraftedPaths, emitted: Path) -> int:
    """How many of the emitted tokens were drafted."""
    return max(i for i in range(len(emitted) + 1) if any(path[:i] == emitted[:i] for path in draft if len(path) >= i))


def completed(world: ContextTable, emitted: Emitted, length: int) -> Emitted:
    """The distribution of texts of `length` tokens when the target goes on after what was emitted."""
    return gathered(
        ((*start, *rest), chance * world.chance(rest, 0, start))
        for start, chance in emitted.items()
        for rest in product(range(world.size), repeat=length - len(start))
    )


def distance(one: Emitted, other: Emitted) -> Fraction:
    """The total variation distance."""
    return sum((abs(one.get(text, ZERO) - other.get(text, ZERO)) for text in {*one, *other}), ZERO) / 2


def excess(p: Sequence[Fraction], q: Sequence[Fraction]) -> Law:
    """(p - q)+, not normalised."""
    return tuple(x - y if x > y else ZERO for x, y in zip(p, q, strict=True))


def shortfall(weight: Fraction, p: Law, q: Law) -> Law:
    """(w p - q)+, not normalised."""
    return excess([weight * x for x in p], q)


def normalised(weights: Sequence[Fraction], otherwise: Law | None = None) -> Law:
    """The distribution with these weights; `otherwise`, or 0 throughout, where they are all 0."""
    mass = total(weights)
    return tuple(weight / mass for weight in weights) if mass else otherwise or (ZERO,) * len(weights)


def words(law: Law) -> str:
    """A distribution as words of a sentence."""
    return "(" + ", ".join(map(str, law)) + ")"
