"""Whether Algorithm 1 finds the best tree."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, falling, gains, grown, shown_grids, steps, stop
from proofs_check.small_drafts import (
    Hat,
    Nodes,
    best_worth,
    is_tree,
    same_law,
    select,
    selections,
    shown,
    worth,
)


@claim("O-SIZE")
def drafted_nodes(effort: int) -> Finding:
    most = 4 if effort == 1 else 6

    def drafted() -> Iterator[tuple[int, int, int, int]]:
        """n, tokens, step, and the nodes after it; larger trees have smaller vocabularies."""
        for n in range(1, most + 1):
            for tokens in range(1, min(n, 3 if n < 5 else 2) + 1):
                kept = steps(n, same_law((Fraction(1, tokens),) * tokens, n))
                yield from ((n, tokens, step, len(nodes)) for step, nodes in enumerate(kept, 1))

    def repaired(case: tuple[int, int, int, int]) -> bool:
        n, tokens, step, nodes = case
        return nodes == sum(min(n, tokens**depth) for depth in range(1, step + 1))

    n, tokens, step, nodes = smallest(drafted(), lambda case: case[1] > 1 and case[3] != case[0] * case[2])
    count = every(drafted(), repaired)
    hat = same_law((Fraction(1, tokens),) * tokens, n)
    return Finding(
        "corrected",
        {"count": count, "most": most},
        shown(hat, steps(n, hat)[step - 1], n=n, d=step, claimed=n * step, drafted=nodes),
    )


@claim("O-ALG1")
def algorithm_1(effort: int) -> Finding:
    zero = Fraction(0)

    def tied() -> Iterator[tuple[int, Hat, Nodes]]:
        return ((n, hat, chosen) for n, hat in cases(effort) for chosen in selections(grown(n, hat, zero), n, hat))

    def early() -> Iterator[tuple[int, Hat, Nodes, Fraction]]:
        deltas = [Fraction(quarter, 4) for quarter in range(1, 5)]
        return ((n, hat, select(grown(n, hat, d), n, hat), d) for n, hat in cases(effort) for d in deltas)

    def repaired(case: tuple[int, Hat]) -> bool:
        n, hat = case
        best = best_worth(frozenset(hat), n, hat)
        found = [select(grown(n, hat, zero, later_first=later), n, hat) for later in (False, True)]
        return all(is_tree(tree) and worth(tree, hat) == best for tree in found)

    n, hat, orphaned = smallest(tied(), lambda case: not is_tree(case[2]))
    early_n, early_hat, short, delta = smallest(
        early(), lambda case: worth(case[2], case[1]) < best_worth(frozenset(case[1]), case[0], case[1])
    )
    count = every(cases(effort), repaired)
    return Finding(
        "corrected",
        {"count": count, "grids": shown_grids(effort)},
        {
            "ties": shown(hat, orphaned, n=n, delta=zero),
            "delta": shown(early_hat, short, n=early_n, delta=delta),
        },
    )


@claim("O-3.2")
def theorem_3_2(effort: int) -> Finding:
    count = every(cases(effort), lambda case: min(gains(steps(*case), *case)) >= 0)
    return Finding("holds", {"count": count, "grids": shown_grids(effort)})


@claim("O-STOP")
def no_later_gain(effort: int) -> Finding:
    def stopped(case: tuple[int, Hat]) -> bool:
        gained = gains(steps(*case), *case)
        return falling(gained) and sum(gained[: stop(gained, Fraction(0))]) == best_worth(frozenset(case[1]), *case)

    count = every(cases(effort), stopped)

    return Finding("holds", {"count": count, "grids": shown_grids(effort)})
