"""Whether Algorithm 1 finds the best tree."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, falling, gains, grown, shown_grids, steps, stop
from proofs_check.small_drafts import Hat, Nodes, best_worth, is_tree, same_law, select, selections, shown, worth


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
        "corrected",
        {"count": count, "most": most},
        shown(hat, steps(n, hat)[step - 1], n=n, d=step, claimed=n * step, drafted=nodes),
    )


@claim("O-ALG1")
def algorithm_1(effort: int) -> Finding:
    zero = Fraction(0)

    deltas = [Fraction(quarter, 4) for quarter in range(1, 5)]
    tied = ((n, hat, chosen) for n, hat in cases(effort) for chosen in selections(grown(n, hat, zero), n, hat))
    early = ((n, hat, select(grown(n, hat, d), n, hat), d) for n, hat in cases(effort) for d in deltas)

    def is_best(n: int, hat: Hat, tree: Nodes) -> bool:
        return worth(tree, hat) == best_worth(frozenset(hat), n, hat)

    def repaired(n: int, hat: Hat) -> bool:
        found = [select(grown(n, hat, zero, later_first=later), n, hat) for later in (False, True)]
        return all(is_tree(tree) and is_best(n, hat, tree) for tree in found)

    n, hat, orphaned = smallest(tied, lambda n, hat, tree: not is_tree(tree))
    early_n, early_hat, short, delta = smallest(early, lambda n, hat, tree, delta: not is_best(n, hat, tree))
    count = every(cases(effort), repaired)
    return Finding(
        "corrected",
        {"count": count, "grids": shown_grids(effort)},
        {"ties": shown(hat, orphaned, n=n, delta=zero), "delta": shown(early_hat, short, n=early_n, delta=delta)},
    )


@claim("O-3.2")
def theorem_3_2(effort: int) -> Finding:
    count = every(cases(effort), lambda n, hat: min(gains(steps(n, hat), n, hat)) >= 0)
    return Finding("holds", {"count": count, "grids": shown_grids(effort)})


@claim("O-STOP")
def no_later_gain(effort: int) -> Finding:
    def stopped(n: int, hat: Hat) -> bool:
        gained = gains(steps(n, hat), n, hat)
        return falling(gained) and sum(gained[: stop(gained, Fraction(0))]) == best_worth(frozenset(hat), n, hat)

    count = every(cases(effort), stopped)
    return Finding("holds", {"count": count, "grids": shown_grids(effort)})
