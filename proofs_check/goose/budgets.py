"""The largest yield of a budget under a committed walk, meaning (2): accepted tokens without the bonus token.

Entry n of each list is for n nodes. A forest is its first tree and, if the root of that tree is rejected, the other
trees; so the best of all forests follows from a recursion over the size of the first tree, without a heuristic.

The gap between two sources and one, Proposition 3, is their difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import accumulate, pairwise, product
from math import ceil, comb

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.walks import TwoSourceTree, committed, pairs, rates, reached, shapes


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


Rates = tuple[Fraction, Fraction]

SAME_SPINE = (12, Fraction(1, 4), Fraction(2, 13), Fraction(3, 20))
"""The smallest budget, p_s and two p_t, found by search over denominators of p_s up to 6 and of p_t up to 24."""


def gap(n: int, s: Fraction, t: Fraction) -> Fraction:
    """The best yield of two sources minus the best yield of one source with rate p_t."""
    return two_sources(s, t, n)[n] - one_source(t, n)[n]


def _falls(n: int, low: Rates, high: Rates) -> bool:
    (s, t), (more_s, more_t) = low, high
    return more_s / more_t > s / t and gap(n, more_s, more_t) < gap(n, s, t)


def _rising(n: int, t: Fraction) -> Iterator[dict[str, Fraction]]:
    spines = sorted(s for s in rates(6) if s >= t)
    for a, b in pairwise(spines):
        yield {"ratio": a / t, "larger_ratio": b / t, "gap": gap(n, a, t), "gap_at_larger_ratio": gap(n, b, t)}


@claim("G-P3-GAP")
def monotone(effort: int) -> Finding:
    n, low, high = smallest(product((2, 3), pairs(4), pairs(4)), _falls)
    budget, s, nearer, farther = SAME_SPINE
    if not (nearer > farther and gap(budget, s, nearer) > gap(budget, s, farther)):
        raise ArithmeticError("the gap falls with p_t")

    most = 10 * effort
    same = [*product(range(1, most + 1), rates(6))]
    compared = {"ratio": low[0] / low[1], "larger_ratio": high[0] / high[1]}
    return Finding(
        {"budget": budget, "s": s, "nearer": nearer, "farther": farther, "count": len(same), "most": most},
        {
            "budget": n,
            "rates": low,
            "gap": gap(n, *low),
            "rates_of_larger_ratio": high,
            "smaller_gap": gap(n, *high),
            "same_p_s": {
                "budget": budget,
                "p_s": s,
                "p_t": [nearer, farther],
                "gaps": [gap(budget, s, nearer), gap(budget, s, farther)],
            },
        },
        cases={
            "rates": [compared | {"gap": gap(n, *low), "gap_at_larger_ratio": gap(n, *high)}],
            "rates_with_the_same_p_t": (step for one in same for step in _rising(*one)),
        },
    )


@second("G-P3-GAP")
def monotone_again(case: Case) -> None:
    """Second check: add up the outcomes of all trees; where there are too many trees, use the library's best ones."""

    def by_trees(n: int, s: Fraction, t: Fraction) -> Fraction:
        both, one = (max(committed(shape, rate, t) for shape in shapes(n)) for rate in (s, t))
        return both - one

    def by_library(n: int, s: Fraction, t: Fraction) -> Fraction:
        return reached(TwoSourceTree.best(s, t, n), s, t) - reached(TwoSourceTree.best(0, t, n), t, t)

    assert by_trees(case["budget"], *case["rates"]) == case["gap"]
    assert by_trees(case["budget"], *case["rates_of_larger_ratio"]) == case["smaller_gap"] < case["gap"]
    other = case["same_p_s"]
    gaps = [by_library(other["budget"], other["p_s"], t) for t in other["p_t"]]
    assert gaps == other["gaps"]
    assert gaps[0] > gaps[1]
