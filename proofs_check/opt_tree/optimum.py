"""Whether Algorithm 1 finds the best tree."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.opt_tree.algorithm import cases, gains, grown, shown_grids, steps, stop
from proofs_check.small_drafts import Hat, Nodes, best_worth, is_tree, select, selections, shown, worth


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
    tied = tied_again(effort, deltas[0])

    n, hat, orphaned = smallest(tied, lambda n, hat, tree: not is_tree(tree))
    every_one = [*cases(effort)]
    runs = ((n, hat, later) for n, hat in every_one for later in (False, True))
    return Finding(
        {"count": len(every_one), "grids": shown_grids(effort)},
        shown(hat, orphaned, n=n, delta=deltas[0]),
        cases={
            "selection": ({"is_a_tree": is_tree(tree)} for _, _, tree in tied_again(effort, deltas[0])),
            "run": (one for n, hat, later in runs for one in _runs(n, hat, deltas, later_first=later)),
        },
    )


def tied_again(effort: int, delta: Fraction) -> Iterator[tuple[int, Hat, Nodes]]:
    """Every choice of the n most probable nodes of every draft, small ones first."""
    return ((n, hat, chosen) for n, hat in cases(effort) for chosen in selections(grown(n, hat, delta), n, hat))


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
