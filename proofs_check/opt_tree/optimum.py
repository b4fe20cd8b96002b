"""Algorithm 1, one drafting step at a time: p-hat and E_sub on the way, the tree it finds, and what is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from proofs_check.claims import Finding, claim, smallest
from proofs_check.small_drafts import (
    Hat,
    Law,
    Nodes,
    Path,
    accepted,
    best_worth,
    drafts,
    is_tree,
    laws,
    named,
    parents,
    same_law,
    select,
    selections,
    shown,
    trees,
    worth,
)

FEW = ((1, 2, 4), (2, 2, 4), (2, 3, 4), (3, 2, 3))
GRIDS = {1: FEW, 2: (*FEW, (2, 2, 9), (2, 3, 5), (3, 2, 4))}
"""By effort: depth, tokens and largest denominator of the drafts that are checked one by one."""


def cases(effort: int) -> Iterator[tuple[int, Hat]]:
    """(n, draft) over the grids; n nodes, and the full tree n deep."""
    return ((depth, hat) for depth, tokens, largest in GRIDS[effort] for hat in drafts(depth, tokens, largest))


def shown_grids(effort: int) -> str:
    """The grids of `cases` as (n, tokens, largest denominator)."""
    return ", ".join(map(str, GRIDS[effort]))


def steps(n: int, hat: Hat, *, later_first: bool = False) -> list[Nodes]:
    """T of Algorithm 1 after drafting steps 1, ..., n; equal p-hat in a layer are ordered by path, or in reverse."""
    layer: list[Path] = [()]
    kept: list[Nodes] = [frozenset()]
    for depth in range(1, n + 1):
        candidates = sorted((node for node in hat if len(node) == depth and node[:-1] in layer), reverse=later_first)
        layer = sorted(candidates, key=hat.__getitem__, reverse=True)[:n]
        kept.append(kept[-1] | set(layer))
    return kept[1:]


def gains(drafted: list[Nodes], n: int, hat: Hat) -> list[Fraction]:
    """E_sub(T, n) - E after each drafting step of Algorithm 1, E starting at 0."""
    worths = [best_worth(nodes, n, hat) for nodes in drafted]
    return [after - before for before, after in pairwise([Fraction(0), *worths])]


def stop(gained: Sequence[Fraction], delta: Fraction) -> int:
    """Drafting steps that Algorithm 1 takes: until one gains no more than delta, or the depth is n."""
    return next((step for step, gain in enumerate(gained, 1) if gain <= delta), len(gained))


@claim("O-3.1")
def theorem_3_1(effort: int) -> Finding:
    pairs = [(hat, below[:at], below) for _, hat in cases(effort) for below in hat for at in range(1, len(below))]

    def values(hat: Hat, above: Path, below: Path) -> dict[str, Fraction]:
        way = [hat[below[:length]] for length in range(len(above), len(below) + 1)]
        least = min((child / parent for parent, child in pairwise(way) if parent), default=Fraction(1))
        return {"p_hat_i": hat[below], "p_hat_j": hat[above], "least_probability": least}

    hat, above, below = smallest(pairs, lambda hat, above, below: hat[below] >= hat[above] > 0)
    one = np.float32(1)
    gap = smallest(range(1, 100), lambda gap: one / (one + np.exp(np.float32(-gap))) == one)
    return Finding(
        {"gap": gap, "pairs": len(pairs), "grids": shown_grids(effort)},
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
        cases={"pair": (values(*one) for one in pairs)},
    )


@claim("O-SUB")
def largest_nodes(effort: int) -> Finding:
    sizes = [(n, hat) for depth, hat in cases(effort) for n in range(1, depth + 1)]
    choices = ((hat, chosen) for n, hat in sizes for chosen in selections(frozenset(hat), n, hat))

    def orphaned(hat: Hat, chosen: Nodes) -> bool:
        return not is_tree(chosen) and all(hat[node] > 0 for node in chosen)

    def values(n: int, hat: Hat) -> dict[str, Any]:
        chosen = select(frozenset(hat), n, hat)
        return {"is_a_tree": is_tree(chosen), "worth": worth(chosen, hat), "best": best_worth(frozenset(hat), n, hat)}

    hat, chosen = smallest(choices, orphaned)
    ties = ((hat, one) for n, hat in sizes for one in selections(frozenset(hat), n, hat))
    return Finding(
        {"selected": len(sizes), "grids": shown_grids(effort)},
        shown(hat, chosen, n=len(chosen)),
        cases={
            "choice": ({"is_a_tree": is_tree(one)} for _, one in ties),
            "choice_by_depth": (values(*one) for one in sizes),
        },
    )


@claim("O-ALG1")
def algorithm_1(effort: int) -> Finding:
    deltas = [Fraction(quarter, 4) for quarter in range(5)]
    tied = tied_again(effort)

    n, hat, orphaned = smallest(tied, lambda n, hat, tree: not is_tree(tree))
    every_one = [*cases(effort)]
    runs = ((n, hat, later) for n, hat in every_one for later in (False, True))
    return Finding(
        {"count": len(every_one), "grids": shown_grids(effort)},
        shown(hat, orphaned, n=n, delta=deltas[0]),
        cases={
            "selection": ({"is_a_tree": is_tree(tree)} for _, _, tree in tied_again(effort)),
            "run": (one for n, hat, later in runs for one in _runs(n, hat, deltas, later_first=later)),
        },
    )


def tied_again(effort: int) -> Iterator[tuple[int, Hat, Nodes]]:
    """Every choice of the n most probable nodes of every draft at a threshold of 0, small ones first."""
    for n, hat in cases(effort):
        drafted = steps(n, hat)
        grown = drafted[stop(gains(drafted, n, hat), Fraction(0)) - 1]
        yield from ((n, hat, chosen) for chosen in selections(grown, n, hat))


def _runs(n: int, hat: Hat, deltas: list[Fraction], *, later_first: bool) -> Iterator[dict[str, Any]]:
    """The trees that are selected for each delta, where ties go to the smaller depth."""
    best, drafted = best_worth(frozenset(hat), n, hat), steps(n, hat, later_first=later_first)
    gained = gains(drafted, n, hat)
    taken = {delta: stop(gained, delta) for delta in deltas}
    trees = {step: select(drafted[step - 1], n, hat) for step in set(taken.values())}
    found = {step: worth(tree, hat) for step, tree in trees.items()}
    for delta, step in taken.items():
        told = {"n": n, "d": step, "delta": delta, "is_a_tree": is_tree(trees[step]), "worth": found[step]}
        yield told | {"best_of_drafted": sum(gained[:step], Fraction(0)), "best_of_all": best}


@claim("O-3.2")
def theorem_3_2(effort: int) -> Finding:
    found = [{"least_gain": min(gains(steps(n, hat), n, hat))} for n, hat in cases(effort)]
    return Finding({"count": len(found), "grids": shown_grids(effort)}, cases={"draft": found})


@claim("O-STOP")
def no_later_gain(effort: int) -> Finding:
    def values(n: int, hat: Hat) -> dict[str, Any]:
        gained = gains(steps(n, hat), n, hat)
        stopped = sum(gained[: stop(gained, Fraction(0))], Fraction(0))
        return {"gains": gained, "E_sub_at_the_stop": stopped, "best": best_worth(frozenset(hat), n, hat)}

    every_one = [*cases(effort)]
    return Finding(
        {"count": len(every_one), "grids": shown_grids(effort)},
        cases={"draft": (values(*one) for one in every_one)},
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
