"""One rate for every token: Sequoia's optimum."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.budgets import best_first, one_source
from proofs_check.goose.walks import TwoSourceTree, committed, flat, forests, rates, reached


def depths(shape: TwoSourceTree) -> list[int]:
    """The depth of each node, 0 for the root."""
    found = [0]
    for above in shape.parent[1:]:
        found.append(found[above] + 1)
    return found


def balanced(shape: TwoSourceTree) -> bool:
    """Whether all nodes have k children for some k; nodes of the last two layers may have fewer."""
    layer = depths(shape)
    inner = [len(below) for below, depth in zip(shape.children, layer, strict=True) if depth < max(layer) - 1]
    return len(set(inner)) <= 1 and (not inner or max(map(len, shape.children)) <= inner[0])


def trees(n: int) -> list[TwoSourceTree]:
    """Every tree of n nodes of one source, the order of siblings included."""
    return [flat(forest) for forest in forests(n)]


@claim("G-SEQ-BAL")
def sequoia(effort: int) -> Finding:
    def best_balanced(n: int, t: Fraction) -> Fraction:
        return max(reached(shape, t, t) for shape in trees(n) if balanced(shape))

    n, t = smallest(product(range(1, 8), rates(5)), lambda n, t: best_balanced(n, t) < 1 + one_source(t, n)[n])
    best = max(trees(n), key=lambda shape: reached(shape, t, t))

    def greedy(n: int, t: Fraction) -> dict[str, Fraction]:
        best = max(reached(shape, t, t) for shape in trees(n))
        return {
            "n_largest_values": 1 + best_first(t, t, n).accepted,
            "best": best,
            "best_balanced": best_balanced(n, t),
        }

    def full(n: int, k: int, t: Fraction) -> dict[str, Any]:
        """Filling layer after layer if all of at most k siblings have the rate t."""
        fits = [shape for shape in trees(n) if max(map(len, shape.children)) <= k]
        value = {shape: sum(t**depth for depth in depths(shape)) for shape in fits}
        filled = [shape for shape in fits if sum(depths(shape)) == min(sum(depths(one)) for one in fits)]
        told = {"best_balanced": min(value[shape] for shape in filled), "best": max(value.values())}
        return told | {"balanced": all(map(balanced, filled))}

    each = [*product(range(1, 6 + effort), rates(4 + effort))]
    legal = [(n, k, t) for n, k, t in product(range(1, 6 + effort), range(1, 5), rates(5)) if k * t <= 1]
    return Finding(
        {"count": len(each), "filled": len(legal), "size": 5 + effort},
        {"p_t": t, "n": n, "best": reached(best, t, t), "best_balanced": best_balanced(n, t), **best.shown()},
        cases={
            "tree": (greedy(*one) for one in (*each, (n, t))),
            "tree_of_exclusive_siblings": (full(*one) for one in legal),
        },
    )


@second("G-SEQ-BAL")
def sequoia_again(case: Case) -> None:
    """Second check: add up every outcome of the library's best tree, and of all balanced trees."""
    n, t = case["n"], case["p_t"]
    tree = TwoSourceTree.best(0, t, n)
    assert committed(tree, t, t) == case["best"] > case["best_balanced"]
    assert not balanced(tree)
    assert case["best_balanced"] == max(committed(shape, t, t) for shape in trees(n) if balanced(shape))
