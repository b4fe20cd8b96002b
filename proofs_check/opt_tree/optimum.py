"""Whether Algorithm 1 finds the best tree."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, falling, gains, grown, shown_grids, steps, stop
from proofs_check.small_drafts import Hat, best_worth, is_tree, same_law, select, selections, shown, worth


@claim("O-SIZE")
def drafted_nodes(effort: int) -> Finding:
    most = 4 if effort == 1 else 6

    drafted = [  # larger trees have smaller vocabularies
        (n, tokens, step, len(nodes))
        for n in range(1, most + 1)
        for tokens in range(1, min(n, 3 if n < 5 else 2) + 1)
        for step, nodes in enumerate(steps(n, same_law((Fraction(1, tokens),) * tokens, n)), 1)
    ]

    def repaired(n: int, tokens: int, step: int, nodes: int) -> bool:
        return nodes == sum(min(n, tokens**depth) for depth in range(1, step + 1))

    n, tokens, step, nodes = smallest(drafted, lambda n, tokens, step, nodes: tokens > 1 and nodes != n * step)
    count = every(drafted, repaired)
    hat = same_law((Fraction(1, tokens),) * tokens, n)
    return Finding(
        {"count": count, "most": most},
        shown(hat, steps(n, hat)[step - 1], n=n, d=step, claimed=n * step, drafted=nodes),
        kept=count,
    )


@claim("O-ALG1")
def algorithm_1(effort: int) -> Finding:
    deltas = [Fraction(quarter, 4) for quarter in range(5)]
    tied = ((n, hat, chosen) for n, hat in cases(effort) for chosen in selections(grown(n, hat, deltas[0]), n, hat))

    def repaired(n: int, hat: Hat) -> bool:
        return all(_best_of_drafted(n, hat, deltas, later_first=later) for later in (False, True))

    n, hat, orphaned = smallest(tied, lambda n, hat, tree: not is_tree(tree))
    count = every(cases(effort), repaired)
    return Finding(
        {"count": count, "grids": shown_grids(effort)}, shown(hat, orphaned, n=n, delta=deltas[0]), kept=count
    )


def _best_of_drafted(n: int, hat: Hat, deltas: list[Fraction], *, later_first: bool) -> bool:
    """Whether, for each delta, the selection is a tree, the best of what was drafted, and short of the best of all by
    at most delta for each step left.
    """
    best, drafted = best_worth(frozenset(hat), n, hat), steps(n, hat, later_first=later_first)
    gained = gains(drafted, n, hat)
    taken = {delta: stop(gained, delta) for delta in deltas}
    trees = {step: select(drafted[step - 1], n, hat) for step in set(taken.values())}
    found = {step: worth(tree, hat) for step, tree in trees.items()}
    right = all(is_tree(trees[step]) and found[step] == sum(gained[:step]) for step in trees)
    return right and all(0 <= best - found[step] <= (n - step) * delta for delta, step in taken.items())


@claim("O-3.2")
def theorem_3_2(effort: int) -> Finding:
    count = every(cases(effort), lambda n, hat: min(gains(steps(n, hat), n, hat)) >= 0)
    return Finding({"count": count, "grids": shown_grids(effort)})


@claim("O-STOP")
def no_later_gain(effort: int) -> Finding:
    def stopped(n: int, hat: Hat) -> bool:
        gained = gains(steps(n, hat), n, hat)
        return falling(gained) and sum(gained[: stop(gained, Fraction(0))]) == best_worth(frozenset(hat), n, hat)

    count = every(cases(effort), stopped)
    return Finding({"count": count, "grids": shown_grids(effort)})
