"""One rate for every token: Sequoia's optimum."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product

from proofs_check.goose.budgets import one_source
from proofs_check.goose.walks import Shape, committed, flat, forests, rates, reached
from proofs_check.verdict import Verdict, claim, every, second, smallest
from spectheory import goose


def depths(shape: Shape) -> list[int]:
    """Of each node, the root's 0 included."""
    found = [0]
    for above in shape.parent[1:]:
        found.append(found[above] + 1)
    return found


def balanced(shape: Shape) -> bool:
    """Whether all nodes have k children for some k, but those of the last two layers, which may have fewer."""
    layer = depths(shape)
    inner = [len(below) for below, depth in zip(shape.children, layer, strict=True) if depth < max(layer) - 1]
    return len(set(inner)) <= 1 and (not inner or max(map(len, shape.children)) <= inner[0])


def trees(n: int) -> list[Shape]:
    """Every tree of n nodes of one source, the order of siblings included."""
    return [flat(forest) for forest in forests(n)]


def largest_values(t: Fraction, n: int) -> Fraction:
    """1 and the n largest node values of the infinite tree: child j of a node is worth t (1 - t)^j of it."""
    total, offers = Fraction(1), [(-t, 0)]
    for serial in range(1, n + 1):
        negated, _ = heappop(offers)
        total -= negated
        heappush(offers, (negated * t, 2 * serial))
        heappush(offers, (negated * (1 - t), 2 * serial + 1))
    return total


@claim("G-SEQ-BAL", source="Goose, Section 2, tree topology optimization")
def sequoia(effort: int) -> Verdict:
    """With a single uniform acceptance rate p_t Sequoia's dynamic program, which finds the best tree of n nodes,
    reduces to a balanced k-ary tree.

    Uniform is taken as in Goose's Q(b): each sibling is right with rate p_t once the earlier ones have failed, meaning
    (2). Balanced is taken generously: the last two layers may have too few children.
    """

    def cases() -> Iterator[tuple[int, Fraction]]:
        return ((n, t) for n in range(1, 8) for t in rates(5))

    def best_balanced(n: int, t: Fraction) -> Fraction:
        return max(reached(shape, t, t) for shape in trees(n) if balanced(shape))

    n, t = smallest(cases(), lambda c: best_balanced(*c) < 1 + one_source(c[1], c[0])[c[0]])
    best = max(trees(n), key=lambda shape: reached(shape, t, t))

    def greedy(case: tuple[int, Fraction]) -> bool:
        n, t = case
        return max(reached(shape, t, t) for shape in trees(n)) == largest_values(t, n) == 1 + one_source(t, n)[n]

    def full(case: tuple[int, int, Fraction]) -> bool:
        """Layers filled one after the other are best where siblings are worth the same, k at most."""
        n, k, t = case
        fits = [shape for shape in trees(n) if max(map(len, shape.children)) <= k]
        value = {shape: sum(t**depth for depth in depths(shape)) for shape in fits}
        filled = [shape for shape in fits if sum(depths(shape)) == min(sum(depths(one)) for one in fits)]
        return all(balanced(shape) and value[shape] == max(value.values()) for shape in filled)

    count = every(product(range(1, 6 + effort), rates(4 + effort)), greedy)
    legal = ((n, k, t) for n, k, t in product(range(1, 6 + effort), range(1, 5), rates(5)) if k * t <= 1)
    filled = every(legal, full)
    return Verdict(
        "corrected",
        "The second sibling is reached only if the first fails, so it is worth (1 - p_t) of the first, and the best "
        "tree leans. A node never is worth more than its parent or earlier sibling, so the n largest values form a "
        f"tree: equal to the best of all trees in {count} cases. Exclusive siblings are worth the same each, a layer "
        f"no more than the one above, so layers fill up one after the other ({filled} cases).",
        f"counterexample by enumeration of all trees; enumeration of all trees of up to {5 + effort} nodes",
        {"p_t": t, "n": n, "best": reached(best, t, t), "best_balanced": best_balanced(n, t), **best.shown()},
        "With one conditional rate the best tree has the n largest of the values p_t^a (1 - p_t)^b, a its depth and b "
        "the earlier siblings on its path. A balanced k-ary tree is best where siblings exclude each other and at "
        "most k of them, k p_t <= 1, can be drafted at a node.",
    )


@second("G-SEQ-BAL")
def sequoia_again(verdict: Verdict) -> str:
    """The library's best tree, and every outcome of it."""
    case = verdict.counterexample or {}
    n, t = case["n"], case["p_t"]
    found = goose.optimal_tree(0.0, float(t), n)
    tree = Shape(tuple(found.tree.parent.tolist()), tuple(found.is_spine.tolist()))
    assert committed(tree, t, t) == case["best"] > case["best_balanced"]
    assert not balanced(tree)
    assert case["best_balanced"] == max(committed(shape, t, t) for shape in trees(n) if balanced(shape))
    return "spectheory's optimal_tree, and all balanced trees, both outcome by outcome."
