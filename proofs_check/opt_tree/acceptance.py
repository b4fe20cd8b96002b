"""Whether the sum of p-hat is the expected number of accepted tokens."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.small_drafts import (
    Hat,
    Law,
    Nodes,
    accepted,
    drafts,
    laws,
    named,
    parents,
    same_law,
    trees,
    worth,
)


def maximisers(n: int, hat: Hat, value: Callable[[Nodes, Hat], Fraction]) -> list[Nodes]:
    """The trees of n nodes with the largest value."""
    worths = {tree: value(tree, hat) for tree in trees(frozenset(hat), n)}
    return [tree for tree, one in worths.items() if one == max(worths.values())]


def misled(n: int, draft: Law, target: Law) -> bool:
    """Whether no tree that is best by p-hat is best under the target; each has one distribution at every node."""
    best = maximisers(n, same_law(target, n), accepted)
    return not any(tree in best for tree in maximisers(n, same_law(draft, n), worth))


def shown_misled(n: int, draft: Law, target: Law) -> dict[str, Any]:
    """A case of `misled` as data for a counterexample."""
    truth = same_law(target, n)
    chosen, better = maximisers(n, same_law(draft, n), worth)[0], maximisers(n, truth, accepted)[0]
    return {
        **parents(truth),
        "n": n,
        "draft": draft,
        "target": target,
        "chosen": named(chosen),
        "chosen_accepted": accepted(chosen, truth),
        "better": named(better),
        "better_accepted": accepted(better, truth),
    }


@claim("O-EA")
def expected_acceptance(effort: int) -> Finding:
    def alike(hat: Hat, target: Hat) -> bool:
        return all((hat[u] < hat[v]) == (target[u] < target[v]) for u, v in product(hat, repeat=2))

    def trees_of(hat: Hat, target: Hat) -> dict[str, Any]:
        by_p_hat, best = maximisers(2, hat, worth), maximisers(2, target, accepted)
        shared = any(tree in best for tree in by_p_hat)
        return {"best_by_p_hat": by_p_hat, "best": best, "some_best_by_p_hat_is_best": shared}

    two = [order for law in laws(2, 5) for order in dict.fromkeys((law, law[::-1]))]
    simplest = sorted(product(two, two), key=lambda pair: pair[0][0].denominator + pair[1][0].denominator)
    models = [(n, draft, target) for n in (1, 2) for draft, target in simplest]
    greedy = [model for model in models if model[1][0] > model[1][1] and model[2][0] == 1]
    largest = 4 if effort == 1 else 6
    grid = list(drafts(2, 2, largest))
    ordered = [pair for pair in product(grid, repeat=2) if alike(*pair)]
    planted = [(tree, hat) for hat in grid for tree in trees(frozenset(hat), 2)]
    return Finding(
        {"exact": len(planted), "ordered": len(ordered), "largest": largest},
        {"any": shown_misled(*smallest(models, misled)), "greedy": shown_misled(*smallest(greedy, misled))},
        cases={
            "pair": ({"some_best_by_p_hat_is_best": not misled(*model)} for model in models),
            "pair_in_one_order": (trees_of(*pair) for pair in ordered),
            "tree": ({"sum_of_target": worth(tree, hat), "accepted": accepted(tree, hat)} for tree, hat in planted),
        },
    )
