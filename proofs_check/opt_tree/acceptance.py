"""Whether p-hat counts accepted tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.opt_tree.algorithm import cases
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
    shown,
    trees,
    worth,
)
from proofs_check.verdict import Verdict, claim, every, smallest


def maximisers(n: int, hat: Hat, value: Callable[[Nodes, Hat], Fraction]) -> list[Nodes]:
    """The trees of n nodes that are worth most."""
    worths = {tree: value(tree, hat) for tree in trees(frozenset(hat), n)}
    return [tree for tree, one in worths.items() if one == max(worths.values())]


def misled(case: tuple[int, Law, Law]) -> bool:
    """Whether no tree that is best by p-hat is best under the target; (n, draft, target), one law at every node."""
    n, draft, target = case
    best = maximisers(n, same_law(target, n), accepted)
    return not any(tree in best for tree in maximisers(n, same_law(draft, n), worth))


def shown_misled(n: int, draft: Law, target: Law) -> dict[str, Any]:
    """That case as data."""
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


@claim("O-EA", source="OPT-Tree, abstract, Section 1 and Eq. (3)")
def expected_acceptance(effort: int) -> Verdict:
    """OPT-Tree "searches the optimal tree structure that maximizes the mathematical expectation of the acceptance
    length in each decoding step" (abstract; Section 1 alike): the tree of the largest sum of p-hat, Eq. (3).

    Read: of the trees of n nodes with the largest Eq. (3), one has the most accepted drafted tokens expected. Section 3
    hedges: p-hat is "positively related" to the probability of being accepted "when using an effective draft model",
    so that E(A) can be "approximately calculated". The repair says what of the relation is needed.
    """

    def alike(case: tuple[Hat, Hat]) -> bool:
        hat, target = case
        return all((hat[u] < hat[v]) == (target[u] < target[v]) for u, v in product(hat, repeat=2))

    def same_trees(case: tuple[Hat, Hat]) -> bool:
        return maximisers(2, case[0], worth) == maximisers(2, case[1], accepted)

    two = [order for law in laws(2, 5) for order in dict.fromkeys((law, law[::-1]))]
    simplest = sorted(product(two, two), key=lambda pair: pair[0][0].denominator + pair[1][0].denominator)
    models = [(n, draft, target) for n in (1, 2) for draft, target in simplest]
    greedy = [(n, draft, target) for n, draft, target in models if draft[0] > draft[1] and target[0] == 1]
    largest = 4 if effort == 1 else 6
    grid = list(drafts(2, 2, largest))
    ordered = every(filter(alike, product(grid, grid)), same_trees)
    counted = ((tree, hat) for hat in grid for tree in trees(frozenset(hat), 2))
    exact = every(counted, lambda case: worth(*case) == accepted(*case))
    return Verdict(
        "corrected",
        "p-hat is the draft's probability, not the target's. One node suffices where they disagree; two under greedy "
        "decoding that takes the draft's first choice at every node: an unsure draft spreads where a chain is right. "
        "Accepted tokens are the nodes of the tree on the target's text, so that their mean is the sum of the target's "
        f"probabilities of the paths; so it was on {exact:,} trees, and the same trees were best for {ordered:,} pairs "
        f"of models that order nodes alike: all with n = 2, two tokens, depth 2, denominators up to {largest}.",
        "a search in order of size for the counterexample; linearity of expectation and enumeration in Fractions for "
        "the statement in its place",
        {
            "any": shown_misled(*smallest(models, misled)),
            "greedy": shown_misled(*smallest(greedy, misled)),
        },
        "The expected number of accepted drafted tokens is the sum of the target's probabilities of the paths in the "
        "tree. Where p-hat orders all nodes as these probabilities do, which is more than a positive relation, the "
        "trees of largest Eq. (3) are those that maximise it.",
    )


@claim("O-OFF1", source="OPT-Tree, Algorithm 2 and Eq. (3)")
def off_by_one(effort: int) -> Verdict:
    """A, the tokens that Algorithm 2 appends in one decoding step, is the quantity whose expectation is Eq. (3).

    Judged where nothing else is in the way: the target is as the draft. Eq. (3) leaves out the root, as the paper says.
    """
    grid = [(n, hat) for n, hat in cases(effort) if n < 3]

    def planted() -> Iterator[tuple[Nodes, Hat]]:
        return ((tree, hat) for n, hat in grid for tree in trees(frozenset(hat), n))

    tree, hat = smallest(planted(), lambda case: accepted(*case) + 1 != worth(*case))
    count = every(planted(), lambda case: accepted(*case) == worth(*case))
    return Verdict(
        "corrected",
        "A counts the target's own token after the accepted ones as well (`if a sequence of length A - 1 successfully "
        "hits, its next word will also be accepted`). Over every text of a target equal to the draft, the accepted "
        f"drafted tokens average to Eq. (3), on {count:,} trees: all with n up to 2 over the grids of O-ALG1.",
        "linearity of expectation, and enumeration in Fractions of every tree and text",
        shown(hat, tree, eq_3=worth(tree, hat), expected_a=accepted(tree, hat) + 1),
        "E[A] = 1 + Eq. (3) where the target is as the draft: Eq. (3) is the expectation of A - 1.",
    )
