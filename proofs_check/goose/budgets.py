"""The largest yield of a budget under a committed walk, meaning (2): accepted tokens without the bonus token.

Entry n of each list is for n nodes. A forest is its first tree and, if the root of that tree is rejected, the other
trees; so the best of all forests follows from a recursion over the size of the first tree, without a heuristic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import accumulate, product
from math import ceil, comb

from proofs_check.goose.walks import TwoSourceTree


@cache
def one_source(t: Fraction, n: int) -> tuple[Fraction, ...]:
    """The best trees with rate t everywhere."""
    if n == 0:
        return (Fraction(0),)
    best = one_source(t, n - 1)
    return (*best, max(t * (1 + best[first]) + (1 - t) * best[n - 1 - first] for first in range(n)))


@cache
def two_sources(s: Fraction, t: Fraction, n: int) -> tuple[Fraction, ...]:
    """The best trees of a spine with rate s, of any length, none included, and branches with rate t of any shape."""
    return _with_spine(s, one_source(t, n))


@cache
def _with_spine(s: Fraction, off: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The best trees of a spine with rate s, where the branches below one node yield `off` by their size."""
    size = len(off) - 1
    if size == 0:
        return (Fraction(0),)
    best = _with_spine(s, off[:-1])
    forked = (s * (1 + best[first]) + (1 - s) * off[size - 1 - first] for first in range(size))
    return (*best, max(off[size], *forked))


@cache
def spine_with_chains(s: Fraction, t: Fraction, n: int) -> tuple[Fraction, ...]:
    """The best trees whose branches are chains, of any numbers and lengths, also below the last spine token.

    These are the trees of Eq. (1), and more; every one of their nodes is charged.
    """
    return _with_spine(s, _fans_of_chains(t, n))


@cache
def _fans_of_chains(t: Fraction, n: int) -> tuple[Fraction, ...]:
    """The best chains with rate t below one node, by the number of their nodes."""
    if n == 0:
        return (Fraction(0),)
    fan, chain = _fans_of_chains(t, n - 1), accumulate(t**tokens for tokens in range(1, n + 1))
    return (*fan, max(one + (1 - t) * fan[n - first] for first, one in enumerate(chain, 1)))


def ceiling(s: Fraction, t: Fraction) -> Fraction:
    """No spine with chains accepts as many tokens, whatever its budget: p_s/(1 - p_s) + 1/(1 - p_t)."""
    return s / (1 - s) + 1 / (1 - t)


def nodes_to_reach(accepted: Fraction, t: Fraction, limit: int) -> int | None:
    """The fewest nodes with which one source accepts `accepted` tokens on average; None if `limit` nodes are too few.

    A node at depth a with b earlier siblings on its path is worth t^a (1 - t)^b, and there are comb(a + b - 1, b) such
    nodes; the n largest values form a best tree.
    """
    offers, nodes, reached = [(-t, 1, 0)], 0, Fraction(0)
    while nodes <= limit:
        negated, depth, passed = heappop(offers)
        many = comb(depth + passed - 1, passed)
        if reached - many * negated >= accepted:
            return nodes + ceil((accepted - reached) / -negated)
        nodes, reached = nodes + many, reached - many * negated
        heappush(offers, (negated * (1 - t), depth, passed + 1))
        if passed == 0:
            heappush(offers, (negated * t, depth + 1, 0))
    return None


@cache
def free_extensions(s: Fraction, t: Fraction, depth: int, n: int) -> tuple[Fraction, ...]:
    """The largest value of Eq. (1) within its printed budget L + sum b_k, which charges one token per branch."""
    chain = sum((t**j for j in range(depth)), Fraction(0))
    best = [Fraction(0)]
    for size in range(1, n + 1):
        found = ((1 - (1 - t) ** width) * chain for width in range(size))
        best.append(max(s * (1 + best[size - 1 - b]) + (1 - s) * q for b, q in enumerate(found)))
    return tuple(best)


@dataclass(frozen=True)
class Best:
    """A best tree: its spine's tokens, the depth of its deepest node, its accepted tokens."""

    spine: int
    depth: int
    accepted: Fraction


def best_first(s: Fraction, t: Fraction, n: int) -> Best:
    """The n nodes with the largest value; among equal nodes the spine's first, then the shallower."""
    offers = [(-s, False, 1), (-(1 - s) * t, True, 1)]  # -value, off the spine, depth
    taken = []
    for _ in range(n):
        negated, off, depth = offer = heappop(offers)
        taken.append(offer)
        if off:
            heappush(offers, (negated * t, True, depth + 1))
            heappush(offers, (negated * (1 - t), True, depth))
        else:
            heappush(offers, (negated * s, False, depth + 1))
            heappush(offers, (negated * (1 - s) * t, True, depth + 1))
    return Best(
        sum(not off for _, off, _ in taken), max(one[2] for one in taken), -sum((one[0] for one in taken), Fraction(0))
    )


def pld(s: Fraction, n: int) -> Fraction:
    """A chain of n spine tokens."""
    return sum((s**k for k in range(1, n + 1)), Fraction(0))


def budgets(end: int, rates: Iterable[tuple[Fraction, Fraction]]) -> Iterator[tuple[int, Fraction, Fraction]]:
    """(budget, p_s, p_t) with budgets 1, ..., `end` - 1 and these rates, smallest budget first."""
    return ((n, s, t) for n, (s, t) in product(range(1, end), rates))


@cache
def best_one_source_tree(t: Fraction, n: int) -> TwoSourceTree:
    """A tree of `one_source` with its nodes; of equal sizes of the first tree the largest."""
    best, parent = one_source(t, n), [-1]

    def hang(above: int, size: int) -> None:
        while size:
            value = [t * (1 + best[first]) + (1 - t) * best[size - 1 - first] for first in range(size)]
            first = max(range(size), key=lambda m: (value[m], m))
            parent.append(above)
            hang(len(parent) - 1, first)
            size -= 1 + first

    hang(0, n)
    return TwoSourceTree(tuple(parent), (True,) + (False,) * n)


def chain_trees(n: int) -> Iterator[list[list[int]]]:
    """Every tree of n nodes whose branches are chains: the lengths of the chains below each spine node, longest first.

    Longest first is the best order for a committed walk. Entry 0 is the root; one entry more than spine tokens.
    """

    def parts(total: int, most: int) -> Iterator[list[int]]:
        if total == 0:
            yield []
        for first in range(min(total, most), 0, -1):
            yield from ([first, *rest] for rest in parts(total - first, first))

    def below(left: int) -> Iterator[list[list[int]]]:
        for here in range(left + 1):
            for fan in parts(here, here):
                if here == left:
                    yield [fan]
                else:
                    yield from ([fan, *rest] for rest in below(left - here - 1))

    return below(n)
