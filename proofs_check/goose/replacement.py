"""E.3, Steps 1 and 2: the yield of a tree by depths, and tokens of one source exchanged for spine tokens."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.walks import (
    TwoSourceTree,
    committed,
    depths,
    exclusive,
    height,
    independent,
    rates,
    reached,
    trees,
)


def as_printed(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Fraction:
    """1 + sum_h prod_{d <= h} P_d, P_d = 1 - prod over all candidates at depth d of (1 - rate)."""
    layer, rate = depths(shape), [Fraction(0), *shape.rates(s, t)]
    nodes = [[node for node, depth in enumerate(layer) if depth == d] for d in range(1, max(layer) + 1)]
    advance = [1 - prod((1 - rate[node] for node in level), start=Fraction(1)) for level in nodes]
    return 1 + sum((prod(advance[:h], start=Fraction(1)) for h in range(1, len(advance) + 1)), Fraction(0))


def replaced(shape: TwoSourceTree) -> Iterator[TwoSourceTree]:
    """The trees in which one token is taken from the spine's source."""
    for node in range(1, len(shape.parent)):
        yield TwoSourceTree(shape.parent, tuple(spine or one == node for one, spine in enumerate(shape.spine)))


def _wrong(shape: TwoSourceTree, t: Fraction) -> bool:
    values = (independent(shape, t, t), committed(shape, t, t), exclusive(shape, t, t))
    return as_printed(shape, t, t) not in values and values[-1] is not None


def _exchanges(before: TwoSourceTree, rates: tuple[Fraction, Fraction]) -> Iterator[dict[str, Any]]:
    """Under the longest path, every exchange."""
    for after in replaced(before):
        yield {"before": independent(before, *rates), "after": independent(after, *rates)}


def _first_exchanges(before: TwoSourceTree, rates: tuple[Fraction, Fraction]) -> Iterator[dict[str, Any]]:
    """Under a committed walk, every exchange of the first child of a node."""
    first = [below[0] for below in before.children if below]
    for after in (after for after in replaced(before) if after.spine.index(True, 1) in first):
        yield {"before": reached(before, *rates), "after": reached(after, *rates)}


@claim("G-P3-STEP1")
def step_1(effort: int) -> Finding:
    shape, t = smallest(((shape, t) for n in range(1, 5) for t in rates(4) for shape in trees(n)), _wrong)
    higher = [(s, t) for t in rates(4) for s in rates(5) if s > t]
    exchanges = (
        (shape, better, s, t)
        for n in range(1, 7)
        for s, t in higher
        for shape in trees(n)
        for better in replaced(shape)
    )
    worse = smallest(exchanges, lambda before, after, s, t: reached(after, s, t) < reached(before, s, t))
    points = [(Fraction(a, 4), Fraction(b, 4)) for a, b in ((2, 1), (3, 1), (3, 2))]

    small = [shape for n in range(1, 5) for shape in trees(n)]
    large = [shape for n in range(1, 6 + effort) for shape in trees(n)]
    ordered = [(shape, (s, t)) for shape, (s, t) in product(large, points) if sorted_by_worth(shape, t)]
    independent_trees = [*product(small, points)]
    formula = {"by_formula": as_printed(shape, t, t), "by_outcomes": independent(shape, t, t)}
    return Finding(
        {"count": len(independent_trees) + len(ordered), "size": 5 + effort},
        {"p_t": t, "yield by the printed formula": as_printed(shape, t, t), **shape.shown()}
        | {"yield under meaning (1)": independent(shape, t, t), "yield under meaning (2)": committed(shape, t, t)}
        | {"yield under meaning (3)": exclusive(shape, t, t)}
        | {"exchange": {"p_s": worse[2], "p_t": worse[3], **worse[1].shown(), "before": reached(worse[0], *worse[2:])}}
        | {"exchange_after": reached(worse[1], *worse[2:])},
        cases={
            "tree": [formula],
            "exchange": [{"before": reached(worse[0], *worse[2:]), "after": reached(worse[1], *worse[2:])}],
            "exchange_under_longest_path": (one for case in independent_trees for one in _exchanges(*case)),
            "exchange_of_a_first_child": (one for case in ordered for one in _first_exchanges(*case)),
        },
    )


def sorted_by_worth(shape: TwoSourceTree, t: Fraction) -> bool:
    """Whether siblings are in non-increasing order of the yield below them."""

    def below(node: int) -> Fraction:
        left, total = Fraction(1), Fraction(0)
        for child in shape.children[node]:
            total += left * t * (1 + below(child))
            left *= 1 - t
        return total

    return all(below(a) >= below(b) for children in shape.children for a, b in pairwise(children))


@second("G-P3-STEP1")
def step_1_again(case: Case) -> None:
    """Second check: products over children for (1), sums over nodes for the others, all outcomes for the exchange."""
    t, other = case["p_t"], case["exchange"]
    shape = TwoSourceTree.of_case(case, spine=False)
    values = [case[f"yield under meaning ({number})"] for number in (1, 2, 3)]
    by_node = reached(shape, t, t), height(shape, t, t), 1 + sum(t**depth for depth in depths(shape)[1:])
    assert case["yield by the printed formula"] not in values
    assert sorted(values) == sorted(by_node)
    after, before = (TwoSourceTree.of_case(other, spine=spine) for spine in (True, False))
    assert committed(before, other["p_s"], other["p_t"]) == other["before"] > case["exchange_after"]
    assert committed(after, other["p_s"], other["p_t"]) == case["exchange_after"]
