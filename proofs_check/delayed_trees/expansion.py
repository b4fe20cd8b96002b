"""Delayed trees, Section 5: losslessness, Eq. (1)-(3), the estimator, and what delaying the branching point gains.

`RULES` many solvers stand for all of them: rule r takes any function from the drafted list to a token and follows it
as often as the target's distribution allows, so that what it emits depends on the drafts in an arbitrary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import spectheory as st
from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees.solver_printed import emission
from proofs_check.delayed_trees.walks import (
    Branching,
    ContextTable,
    DelayedShape,
    DraftedPaths,
    Emitted,
    completed,
    depth_kept,
    distance,
    drawn,
    listed,
    walked,
    words,
    worlds,
)
from proofs_check.plays import ONE, ZERO, Pick, gathered, runs
from proofs_check.small_drafts import Law, Path

RULES = 16
"""Number of functions from two drafted tokens, on a vocabulary of two, to a token."""
SHAPES: tuple[DelayedShape, ...] = ((2, 0, 1), (2, 1, 1), (2, 0, 2), (1, 1, 1), (1, 0, 2))


@cache
def arbitrary(rule: int, p: Law, q: Law, tokens: Path) -> Law:
    """A + B: token A(tokens) of rule r as often as p allows, the rest of p else. Lossless for i.i.d. drafts."""
    size, k = len(p), len(tokens)

    def chosen(drafts: Path) -> int:
        place = sum(token * size**i for i, token in enumerate(drafts))
        return rule // size ** (place % size**2) % size

    mean = [ZERO] * size
    for drafts in product(range(size), repeat=k):
        mean[chosen(drafts)] += prod((q[token] for token in drafts), start=ONE)
    share = min([ONE, *(p[y] / x for y, x in enumerate(mean) if x)])
    rest = [p[y] - share * x for y, x in enumerate(mean)]
    return tuple(x + share * int(y == chosen(tokens)) for y, x in enumerate(rest))


def rule(number: int) -> Branching:
    """The rule of this number, `arbitrary`, as a solver."""
    return lambda p, q, tokens: arbitrary(number, p, q, tokens)


def published(solver: st.otlp.Solver) -> Branching:
    """A solver of spectheory."""
    return lambda p, q, tokens: emission(solver, p, q, tokens)


NSS, NAIVE, SPECINFER = published(st.otlp.NSS()), published(st.otlp.Naive()), published(st.otlp.SpecInfer())
SPECTR, KHISTI = published(st.otlp.SpecTr()), published(st.otlp.Khisti())


def walk_law(
    world: ContextTable, shape: DelayedShape, solver: Branching, trunk: int | None = None
) -> dict[tuple[int, Path], Fraction]:
    """The joint distribution of tau and of the emitted tokens, by running every outcome of drafting and walk."""

    def program(pick: Pick) -> tuple[int, Path]:
        draft = drawn(pick, world, shape)
        emitted = walked(pick, world, draft, shape[1] if trunk is None else trunk, solver)
        return depth_kept(draft, emitted), emitted

    return runs(program)


def texts(world: ContextTable, shape: DelayedShape, solver: Branching, trunk: int | None = None) -> Emitted:
    """The distribution of the first L1 + L2 tokens of the text."""
    outcomes = walk_law(world, shape, solver, trunk)
    return completed(world, gathered((tokens, x) for (_, tokens), x in outcomes.items()), shape[1] + shape[2])


def tokens_emitted(world: ContextTable, shape: DelayedShape, solver: Branching) -> Fraction:
    """Mean number of tokens of a cycle, by the walk."""
    return 1 + sum((tau * chance for (tau, _), chance in walk_law(world, shape, solver).items()), ZERO)


def trees(world: ContextTable, shape: DelayedShape) -> dict[DraftedPaths, Fraction]:
    """The distribution of the delayed tree."""
    return runs(lambda pick: drawn(pick, world, shape))


def inner_sum(world: ContextTable, draft: DraftedPaths, trunk: int, solver: Branching) -> Fraction:
    """Eq. (3) given the tree: a sum over the distinct nodes and the root, of products of branching probabilities."""
    total = ZERO
    for node in {path[:depth] for path in draft for depth in range(len(path) + 1)}:
        product_ = ONE
        for j, token in enumerate(node):
            product_ *= solver(*world.pair(node[:j]), listed(draft, node[:j], trunk))[token]
        total += product_
    return total


def eq_3(world: ContextTable, shape: DelayedShape, solver: Branching) -> Fraction:
    """Eq. (3): the mean of `inner_sum` over drafted trees."""
    return sum((x * inner_sum(world, draft, shape[1], solver) for draft, x in trees(world, shape).items()), ZERO)


def grid(effort: int, shapes: Sequence[DelayedShape] = SHAPES) -> list[tuple[ContextTable, DelayedShape, Branching]]:
    """Worlds of two tokens with probabilities 0, 1/2 or 1 in three contexts, each with one of the shapes and rules."""
    cases = worlds(2, 2, 3)
    turns = [(world, shapes[i % len(shapes)], rule(i % RULES)) for i, world in enumerate(cases)]
    if effort == 1:
        return turns
    return turns + [
        (world, shape, rule(i % RULES)) for i, world in enumerate(worlds(2, 3, 3)[::20]) for shape in shapes
    ]


def five(effort: int) -> list[tuple[ContextTable, DelayedShape, Branching]]:
    """The paper's solvers on trees with K = 3 and on three tokens."""
    solvers = (NSS, NAIVE, SPECINFER, SPECTR, KHISTI)
    some = [(w, (3, 1, 1)) for w in worlds(2, 3)[:: 3 - effort]] + [(w, (2, 1, 1)) for w in worlds(3, 2)[:: 6 - effort]]
    return [(world, shape, solver) for world, shape in some for solver in solvers]


@claim("D-LOSS")
def lossless(effort: int) -> Finding:
    def lost_by(world: ContextTable, shape: DelayedShape, solver: Branching) -> Fraction:
        return distance(texts(world, shape, solver), world.texts(shape[1] + shape[2]))

    arbitrary_rules, paper = grid(effort), five(effort)
    world = smallest(worlds(3, 3), lambda w: texts(w, (2, 1, 0), SPECINFER, trunk=0) != w.texts(1))
    p, q = world.pair(())
    lost = distance(texts(world, (2, 1, 0), SPECINFER, trunk=0), world.texts(1))
    return Finding(
        {"count": len(arbitrary_rules), "rules": RULES, "paper": len(paper)}
        | {"lost": lost, "p": words(p), "q": words(q)},
        cases={
            "tree": ({"lost": lost_by(*case)} for case in (*arbitrary_rules, *paper)),
            "miscounted": [{"lost": lost}],
        },
    )


@claim("D-EQ13")
def sum_over_nodes(effort: int) -> Finding:
    def last(p: Law, q: Law, tokens: Path) -> Law:
        return tuple(Fraction(int(t == tokens[-1])) for t in range(len(p)))

    lossy = [(world, shape, last) for world, shape, _ in grid(1)[::9]]
    every_one = [*grid(effort), *five(effort), *lossy]
    return Finding(
        {"count": len(every_one)},
        cases={"tree": ({"Eq_3": eq_3(*case), "mean_tokens": tokens_emitted(*case)} for case in every_one)},
    )


def spread(values: dict[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    """Mean and variance of a distribution of numbers."""
    mean = sum((x * chance for x, chance in values.items()), ZERO)
    return mean, sum((chance * (x - mean) ** 2 for x, chance in values.items()), ZERO)


def averaged(values: dict[Fraction, Fraction], s: int) -> dict[Fraction, Fraction]:
    """The distribution of the average of s independent ones."""
    sums = {ZERO: ONE}
    for _ in range(s):
        sums = gathered((x + y / s, a * b) for (x, a), (y, b) in product(sums.items(), values.items()))
    return sums


@claim("D-UNB")
def estimator(effort: int) -> Finding:
    def values(world: ContextTable, shape: DelayedShape, solver: Branching) -> dict[str, Fraction]:
        drafts = trees(world, shape).items()
        given = gathered((inner_sum(world, draft, shape[1], solver), chance) for draft, chance in drafts)
        within = ZERO
        for draft, chance in drafts:
            coins = runs(lambda pick, d=draft: depth_kept(d, walked(pick, world, d, shape[1], solver)))
            within += chance * spread({Fraction(tau): x for tau, x in coins.items()})[1]
        outcomes = walk_law(world, shape, solver).items()
        mean, variance = spread(gathered((Fraction(tau + 1), chance) for (tau, _), chance in outcomes))
        average, its_variance = spread(averaged(given, 4))
        return {"mean": average, "variance": its_variance, "mean_tokens": mean, "Var_tau": variance, "within": within}

    every_one = grid(effort)[:: 4 // effort]
    return Finding({"count": len(every_one)}, cases={"tree": (values(*case) for case in every_one)})
