"""Trees of two sources, and their yield by enumeration under the three meanings of acceptance.

Meaning (3) has two forms, as the rate of a branch may be its own or its rate given that the spine's token is wrong.
The simulators enumerate every outcome of the nodes, or of a greedy target, and use no formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any

from proofs_check.small_drafts import total
from spectheory import goose

Forest = tuple[Any, ...]
"""An ordered forest: one entry per tree, each entry the forest below the tree's root."""


@dataclass(frozen=True)
class TwoSourceTree:
    """A tree as a parent array, root 0 with parent -1, and which of its tokens come from the spine's source."""

    parent: tuple[int, ...]
    spine: tuple[bool, ...]

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of each node in the order of the walk: the spine's token first, then by number."""
        nodes = range(1, len(self.parent))
        ordered = [[node for node in nodes if self.parent[node] == above] for above in range(len(self.parent))]
        return [sorted(below, key=lambda node: not self.spine[node]) for below in ordered]

    def rates(self, s: Fraction, t: Fraction) -> list[Fraction]:
        """The rate of each drafted node."""
        return [s if spine else t for spine in self.spine[1:]]

    @classmethod
    def of_case(cls, case: Mapping[str, Any], *, spine: bool = True) -> TwoSourceTree:
        """The tree of a counterexample, or the same tree without a spine."""
        spine_nodes = case.get("spine_nodes", ()) if spine else ()
        return cls(tuple(case["parent"]), tuple(node in (0, *spine_nodes) for node in range(len(case["parent"]))))

    @classmethod
    def of_library(cls, found: goose.SpineTree) -> TwoSourceTree:
        """A tree of spectheory.goose."""
        return cls(tuple(found.tree.parent.tolist()), tuple(found.is_spine.tolist()))

    @classmethod
    def best(cls, s: Fraction | int, t: Fraction, n: int) -> TwoSourceTree:
        """The best tree of n nodes by spectheory; without a spine where s is 0."""
        return cls.of_library(goose.optimal_tree(float(s), float(t), n))

    def shown(self) -> dict[str, Any]:
        """The tree as data for a counterexample."""
        return {
            "parent": list(self.parent),
            "spine_nodes": [node for node, spine in enumerate(self.spine) if spine and node],
        }


def rates(largest: int) -> list[Fraction]:
    """The fractions strictly between 0 and 1 with denominators up to `largest`, simplest first."""
    return [Fraction(a, d) for d in range(2, largest + 1) for a in range(1, d) if Fraction(a, d).denominator == d]


def pairs(largest: int) -> list[tuple[Fraction, Fraction]]:
    """(p_s, p_t) with 0 < p_t < p_s < 1, simplest first."""
    both = [(s, t) for s in rates(largest) for t in rates(largest) if s > t]
    return sorted(both, key=lambda pair: (max(rate.denominator for rate in pair), sum(r.denominator for r in pair)))


@cache
def forests(n: int) -> list[Forest]:
    """Every ordered forest of n nodes."""
    if n == 0:
        return [()]
    return [(below, *rest) for size in range(n) for below in forests(size) for rest in forests(n - 1 - size)]


@cache
def shapes(n: int) -> list[TwoSourceTree]:
    """Every tree of n drafted nodes with a spine of any length, none included; the order of siblings counts."""
    found = []
    for forest in forests(n):
        first = forest
        for length in range(n + 1):
            found.append(flat(forest, length))
            if not first:
                break
            first = first[0]
    return found


def flat(forest: Forest, spine_length: int = 0) -> TwoSourceTree:
    """The tree whose root has this forest below it; the spine follows first children for `spine_length` tokens."""
    parent, spine = [-1], [True]

    def hang(above: int, below: Forest, left: int) -> None:
        for rank, child in enumerate(below):
            parent.append(above)
            spine.append(rank == 0 and left > 0)
            hang(len(parent) - 1, child, left - 1 if rank == 0 else 0)

    hang(0, forest, spine_length)
    return TwoSourceTree(tuple(parent), tuple(spine))


def chains(widths: Sequence[int], depth: int) -> TwoSourceTree:
    """The tree of Eq. (1) with all its nodes: a spine, and beside its token k widths[k] chains of `depth` tokens."""
    return chain_tree([*([depth] * width for width in widths), []])


def chain_tree(fans: Sequence[Sequence[int]]) -> TwoSourceTree:
    """A spine and chains of these lengths below each of its nodes; entry 0 is for the root, the last for its end."""
    length = len(fans) - 1
    parent = list(range(-1, length))
    for node, fan in enumerate(fans):
        for tokens in fan:
            parent += [node, *range(len(parent), len(parent) + tokens - 1)]
    return TwoSourceTree(tuple(parent), tuple(node <= length for node in range(len(parent))))


def coins(chances: Sequence[Fraction]) -> Iterator[tuple[tuple[bool, ...], Fraction]]:
    """Every outcome of independent coins, with its probability."""
    for right in product((False, True), repeat=len(chances)):
        yield right, prod((c if one else 1 - c for c, one in zip(chances, right, strict=True)), start=Fraction(1))


def walked(shape: TwoSourceTree, right: Sequence[bool]) -> int:
    """Tokens accepted by the walk that commits to the first child that is right."""
    node, accepted = 0, 0
    while (taken := next((child for child in shape.children[node] if right[child - 1]), None)) is not None:
        node, accepted = taken, accepted + 1
    return accepted


def longest(shape: TwoSourceTree, right: Sequence[bool]) -> int:
    """Tokens on the longest path of nodes that are all right."""
    depth = {0: 0}
    for node, above in enumerate(shape.parent[1:], start=1):
        if right[node - 1] and above in depth:
            depth[node] = depth[above] + 1
    return max(depth.values())


def independent(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction:
    """E[tau] under meaning (1)."""
    return 1 + sum((w * longest(shape, right) for right, w in coins(shape.rates(s, t))), Fraction(0))


def committed(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction:
    """E[tau] under meaning (2)."""
    return 1 + sum((w * walked(shape, right) for right, w in coins(shape.rates(s, t))), Fraction(0))


def exclusive(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction | None:
    """E[tau] under meaning (3) with marginal rates, over every greedy target.

    Every token has its own rate, p_s or p_t, whatever its siblings are; None where the siblings' rates exceed 1.
    """
    return _mutual(shape, s, t, t)


def exclusive_given_failure(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction | None:
    """E[tau] under meaning (3), where p_t is the rate of a branch given that the spine's token beside it is wrong.

    The rate of a branch by itself is p_t, and (1 - p_s) p_t beside a spine token; None where these rates exceed 1.
    """
    return _mutual(shape, s, t, (1 - s) * t)


def _mutual(shape: TwoSourceTree, s: Fraction, t: Fraction, beside: Fraction) -> Fraction | None:
    """E[tau] with exclusive siblings: the rate of a branch is t, or `beside` next to a spine token."""
    choices = []
    for below in shape.children:
        branch = beside if any(shape.spine[child] for child in below) else t
        law = [(child, s if shape.spine[child] else branch) for child in below]
        law.append((0, 1 - sum((chance for _, chance in law), Fraction(0))))
        if law[-1][1] < 0:
            return None
        choices.append(law)
    total = Fraction(1)
    for target in product(*choices):
        weight = prod((chance for _, chance in target), start=Fraction(1))
        node, accepted = 0, 0
        while node := target[node][0]:
            accepted += 1
        total += weight * accepted
    return total


def reached(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction:
    """E[tau] under meaning (2) as the sum of the probabilities that nodes are reached: the fast way."""
    rate, reach = [Fraction(1), *shape.rates(s, t)], [Fraction(1)] * len(shape.parent)
    for node, below in enumerate(shape.children):
        left = reach[node]
        for child in below:
            reach[child] = left * rate[child]
            left -= reach[child]
    return total(reach)


def height(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction:
    """E[tau] under meaning (1) by products: a path goes on below a node unless every child fails to continue it."""
    rate = [Fraction(1), *shape.rates(s, t)]

    def chance(node: int, tokens: int) -> Fraction:
        if tokens == 0:
            return Fraction(1)
        return 1 - prod(
            (1 - rate[child] * chance(child, tokens - 1) for child in shape.children[node]), start=Fraction(1)
        )

    return sum((chance(0, tokens) for tokens in range(len(shape.parent))), Fraction(0))


def depths(shape: TwoSourceTree) -> list[int]:
    """The depth of each node, 0 for the root."""
    found = [0]
    for above in shape.parent[1:]:
        found.append(found[above] + 1)
    return found


def trees(n: int) -> list[TwoSourceTree]:
    """Every tree of n nodes of one source, the order of siblings included."""
    return [flat(forest) for forest in forests(n)]
