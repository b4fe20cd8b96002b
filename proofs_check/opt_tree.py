"""OPT-Tree (arXiv 2406.17276), Section 3, against every draft of small grids.

A tree of n nodes is no deeper than n, so a full tree of depth n stands for the infinite one. Children are the draft's
most probable tokens; a verifier emits the target's own token, greedy or sampled, and follows it down the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import nlargest
from itertools import chain, combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np

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
    same_law,
    select,
    selections,
    shown,
    trees,
    worth,
)
from proofs_check.verdict import Finding, claim, every, smallest

GRIDS = ((1, 2, 4), (2, 2, 4), (2, 3, 4), (3, 2, 3))
"""Depth, tokens and largest denominator of the drafts that are checked one by one."""


def cases() -> Iterator[tuple[int, Hat]]:
    """(n, draft) over `GRIDS`; n nodes, and the full tree n deep."""
    return ((depth, hat) for depth, tokens, largest in GRIDS for hat in drafts(depth, tokens, largest))


def steps(n: int, hat: Hat, *, later_first: bool = False) -> list[Nodes]:
    """T of Algorithm 1 after drafting step 1, ..., n; equal p-hat in a layer go by path, or against it."""
    layer: list[Path] = [()]
    kept: list[Nodes] = [frozenset()]
    for depth in range(1, n + 1):
        candidates = sorted((node for node in hat if len(node) == depth and node[:-1] in layer), reverse=later_first)
        layer = nlargest(n, candidates, key=hat.__getitem__)
        kept.append(kept[-1] | set(layer))
    return kept[1:]


def gains(drafted: list[Nodes], n: int, hat: Hat) -> list[Fraction]:
    """E_sub(T, n) - E after each drafting step of Algorithm 1, E starting at 0."""
    worths = [best_worth(nodes, n, hat) for nodes in drafted]
    return [after - before for before, after in pairwise([Fraction(0), *worths])]


def stop(gained: Sequence[Fraction], delta: Fraction) -> int:
    """Drafting steps that Algorithm 1 takes: until one gains no more than delta, or the depth is n."""
    return next((step for step, gain in enumerate(gained, 1) if gain <= delta), len(gained))


def grown(n: int, hat: Hat, delta: Fraction, *, later_first: bool = False) -> Nodes:
    """T when Algorithm 1 leaves its loop."""
    drafted = steps(n, hat, later_first=later_first)
    return drafted[stop(gains(drafted, n, hat), delta) - 1]


@claim(
    "O-3.1", "OPT-Tree, Theorem 3.1", "If v_i is in the subtree of v_j, then p-hat of v_i is less than p-hat of v_j."
)
def theorem_3_1() -> Finding:
    """Equality at a draft probability of 1."""

    def descents() -> Iterator[tuple[Hat, Path, Path]]:
        for _, hat in cases():
            yield from ((hat, below[:length], below) for below in hat for length in range(1, len(below)))

    def repaired(case: tuple[Hat, Path, Path]) -> bool:
        hat, above, below = case
        way = [hat[below[:length]] for length in range(len(above), len(below) + 1)]
        strict = way[0] > 0 and any(child / parent < 1 for parent, child in pairwise(way) if parent)
        return hat[below] < hat[above] if strict else hat[below] == hat[above]

    hat, above, below = smallest(descents(), lambda case: case[0][case[2]] >= case[0][case[1]] > 0)
    pairs = every(descents(), repaired)
    one = np.float32(1)
    gap = smallest(range(1, 100), lambda gap: one / (one + np.exp(np.float32(-gap))) == one)
    return Finding(
        "corrected",
        f"A draft probability of 1 leaves p-hat as it is, and a float32 softmax gives 1 from a logit gap of {gap} on. "
        f"The repaired statement held for {pairs:,} pairs of nodes: every further factor is at most 1.",
        "p-hat of v_i is at most that of v_j; less if that is above 0 and a draft probability on the way is not 1.",
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
    )


@claim("O-SUB", "OPT-Tree, Section 3", "The n nodes with the largest p-hat are a subtree of T that contains the root.")
def largest_nodes() -> Finding:
    """Ties can orphan a node."""

    def sizes() -> Iterator[tuple[int, Hat]]:
        return ((n, hat) for depth, hat in cases() for n in range(1, depth + 1))

    def choices() -> Iterator[tuple[Hat, Nodes]]:
        return ((hat, chosen) for n, hat in sizes() for chosen in selections(frozenset(hat), n, hat))

    def repaired(case: tuple[int, Hat]) -> bool:
        n, hat = case
        chosen = select(frozenset(hat), n, hat)
        return is_tree(chosen) and worth(chosen, hat) == best_worth(frozenset(hat), n, hat)

    hat, chosen = smallest(choices(), lambda case: not is_tree(case[1]) and all(case[0][node] > 0 for node in case[1]))
    selected = every(sizes(), repaired)
    return Finding(
        "corrected",
        "The printed proof needs Theorem 3.1 to be strict. With the tie rule all of "
        f"{selected:,} selections were trees, and no tree of their size was worth more.",
        "With ties going to the node of smaller depth they are, and no subtree of n nodes has a larger sum of p-hat.",
        shown(hat, chosen, n=len(chosen)),
    )


@claim("O-ALG1", "OPT-Tree, Algorithm 1", "Algorithm 1 (layers cut to n, depth <= n) finds the optimal n-node tree.")
def algorithm_1() -> Finding:
    """Right for delta = 0 and a tie rule; the layer cut loses nothing."""
    zero = Fraction(0)

    def tied() -> Iterator[tuple[int, Hat, Nodes]]:
        return ((n, hat, chosen) for n, hat in cases() for chosen in selections(grown(n, hat, zero), n, hat))

    def early() -> Iterator[tuple[int, Hat, Nodes, Fraction]]:
        deltas = [Fraction(quarter, 4) for quarter in range(1, 5)]
        return ((n, hat, select(grown(n, hat, d), n, hat), d) for n, hat in cases() for d in deltas)

    def repaired(case: tuple[int, Hat]) -> bool:
        n, hat = case
        best = best_worth(frozenset(hat), n, hat)
        found = [select(grown(n, hat, zero, later_first=later), n, hat) for later in (False, True)]
        return all(is_tree(tree) and worth(tree, hat) == best for tree in found)

    n, hat, orphaned = smallest(tied(), lambda case: not is_tree(case[2]))
    early_n, early_hat, short, delta = smallest(
        early(), lambda case: worth(case[2], case[1]) < best_worth(frozenset(case[1]), case[0], case[1])
    )
    count = every(cases(), repaired)
    return Finding(
        "corrected",
        f"Repaired, it was right on {count:,} drafts against every tree, ties in the cut of a layer going either way: "
        "a node is cut only when n others in its layer are worth as much, and after a step without gain none gains. "
        "As printed, ties in the last selection can orphan a node, and a delta above 0 can stop before the optimum.",
        "With delta = 0, and ties in the last selection going to the node of smaller depth, it finds an n-node tree "
        "with the largest sum of p-hat.",
        {
            "ties": shown(hat, orphaned, n=n, delta=zero),
            "delta": shown(early_hat, short, n=early_n, delta=delta),
        },
    )


@claim("O-3.2", "OPT-Tree, Theorem 3.2", "As the drafting step increases, E_sub(T, n) is monotonic non-decreasing.")
def theorem_3_2() -> Finding:
    """T only grows."""
    count = every(cases(), lambda case: min(gains(steps(*case), *case)) >= 0)
    return Finding(
        "holds",
        "T only gains nodes, so E_sub is the largest of more sums; so it was at every step on "
        f"{count:,} drafts. Where a layer has fewer than n tokens, E_sub is read as the best of at most n nodes.",
    )


def fastest(
    gained: Iterable[Fraction], mu: Fraction, speed: Callable[[Fraction], Fraction]
) -> tuple[Fraction, Fraction]:
    """The highest speed of a delta in [mu, 1], and of any: it changes only where delta passes one of the gains."""
    deltas = {Fraction(-1), mu, *gained}
    return max((speed(delta) for delta in deltas if mu <= delta <= 1), default=Fraction(0)), max(map(speed, deltas))


def fastest_greedy(n: int, law: Law, mu: Fraction) -> tuple[Fraction, Fraction]:
    """`fastest` where greedy decoding always emits the draft's first choice, whatever its probability."""
    hat = same_law(law, n)
    sure = same_law((Fraction(1), *[Fraction(0)] * (len(law) - 1)), n)
    drafted = steps(n, hat)
    gained = gains(drafted, n, hat)

    def speed(delta: Fraction) -> Fraction:
        step = stop(gained, delta)
        return (1 + accepted(select(drafted[step - 1], n, hat), sure)) / (1 + mu * step)

    return fastest(gained, mu, speed)


def fastest_calibrated(contexts: Sequence[Sequence[Fraction]], mu: Fraction) -> tuple[Fraction, Fraction]:
    """`fastest` where contexts come in equal parts, each given by its gains, and accept tokens at the rate of p-hat."""

    def speed(delta: Fraction) -> Fraction:
        taken = [stop(gained, delta) for gained in contexts]
        tokens = sum((1 + sum(gained[:step]) for gained, step in zip(contexts, taken, strict=True)), Fraction(0))
        return tokens / sum((1 + mu * step for step in taken), Fraction(0))

    return fastest(chain(*contexts), mu, speed)


@claim(
    "O-DELTA",
    "OPT-Tree, Section 3, after Algorithm 2",
    "delta should be controlled between mu and 1, mu being the time of one drafting step over that of a decoding step.",
)
def threshold() -> Finding:
    """Right where p-hat is calibrated and drafting pays."""

    def falling(case: tuple[int, Hat]) -> bool:
        gained = gains(steps(*case), *case)
        return gained[0] <= 1 and gained == sorted(gained, reverse=True)

    def outside(case: tuple[int, Law, Fraction]) -> bool:
        inside, overall = fastest_greedy(*case)
        return inside < overall > 1

    def repaired(case: tuple[Sequence[Sequence[Fraction]], Fraction]) -> bool:
        inside, overall = fastest_calibrated(*case)
        return inside == overall or overall <= 1

    fifths = [Fraction(fifth, 5) for fifth in range(6)]
    sizes = ((1, 2), (1, 3), (2, 2), (2, 3))
    n, law, mu = smallest(((n, law, mu) for n, v in sizes for law in laws(v, 5) for mu in fifths[1:]), outside)
    inside, overall = fastest_greedy(n, law, mu)
    count = every(cases(), falling)
    mixed = combinations_with_replacement(combinations_with_replacement(reversed(fifths), 3), 2)
    mixtures = every(product(mixed, (*fifths[1:], Fraction(6, 5))), repaired)
    return Finding(
        "corrected",
        f"It needs p-hat to be the acceptance rate. Gains never rise from step to step and are at most 1 ({count:,} "
        "drafts): a delta below mu adds only steps that gain no more than they cost, one above 1 stops where 1 does. "
        f"In {mixtures:,} mixtures of contexts a best delta was between mu and 1 wherever any delta paid.",
        "If drafted tokens are accepted at the rate of p-hat, both times are constant, and some delta beats plain "
        "decoding, then a best delta lies between mu and 1.",
        {"n": n, "law": law, "mu": mu, "speed_inside": inside, "speed_best": overall},
    )


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
        "n": n,
        "draft": draft,
        "target": target,
        "chosen": named(chosen),
        "chosen_accepted": accepted(chosen, truth),
        "better": named(better),
        "better_accepted": accepted(better, truth),
    }


@claim("O-EA", "OPT-Tree, Eq. (3)", "E(A) is approximately the sum of p-hat; maximising it maximises the acceptance.")
def expected_acceptance() -> Finding:
    """p-hat is the draft's opinion of the target."""

    def alike(case: tuple[Hat, Hat]) -> bool:
        hat, target = case
        return all((hat[u] < hat[v]) == (target[u] < target[v]) for u, v in product(hat, repeat=2))

    def same_trees(case: tuple[Hat, Hat]) -> bool:
        return maximisers(2, case[0], worth) == maximisers(2, case[1], accepted)

    two = [order for law in laws(2, 5) for order in dict.fromkeys((law, law[::-1]))]
    simplest = sorted(product(two, two), key=lambda pair: pair[0][0].denominator + pair[1][0].denominator)
    models = [(n, draft, target) for n in (1, 2) for draft, target in simplest]
    greedy = [(n, draft, target) for n, draft, target in models if draft[0] > draft[1] and target[0] == 1]
    grid = list(drafts(2, 2, 4))
    ordered = every(filter(alike, product(grid, grid)), same_trees)
    counted = ((tree, hat) for hat in grid for tree in trees(frozenset(hat), 2))
    exact = every(counted, lambda case: worth(*case) == accepted(*case))
    return Finding(
        "false",
        "p-hat is the draft's probability, not the target's. One node suffices where they disagree; two under greedy "
        "decoding that takes the draft's first choice at every node: an unsure draft spreads where a chain is right. "
        f"The statement in its place held on {exact:,} trees and {ordered:,} pairs of models that order nodes alike.",
        "The expected number of accepted drafted tokens is the sum of the target's probabilities of the paths in the "
        "tree. Where p-hat orders all nodes as these probabilities do, the same trees maximise both sums.",
        {
            "any": shown_misled(*smallest(models, misled)),
            "greedy": shown_misled(*smallest(greedy, misled)),
        },
    )


@claim("O-OFF1", "OPT-Tree, Algorithm 2 and Eq. (3)", "A of Algorithm 2 is the quantity whose expectation is Eq. (3).")
def off_by_one() -> Finding:
    """Eq. (3) leaves out the root, and with it the target's token after the accepted ones, which A counts."""

    def planted() -> Iterator[tuple[Nodes, Hat]]:
        return ((tree, hat) for n, hat in cases() if n < 3 for tree in trees(frozenset(hat), n))

    tree, hat = smallest(planted(), lambda case: accepted(*case) + 1 != worth(*case))
    count = every(planted(), lambda case: accepted(*case) == worth(*case))
    return Finding(
        "corrected",
        "Over every text of a target equal to the draft, the accepted drafted tokens average to Eq. (3), on "
        f"{count:,} trees; A counts the target's own next token as well.",
        "E[A] = 1 + Eq. (3) where the target is as the draft: Eq. (3) is the expectation of A - 1.",
        shown(hat, tree, eq_3=worth(tree, hat), expected_a=accepted(tree, hat) + 1),
    )
