"""What delaying the branching point gains and loses, Section 5."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees.expansion import NAIVE, NSS, SPECINFER, tokens_emitted, trees
from proofs_check.delayed_trees.library import SOLVERS, tokens_per_call
from proofs_check.delayed_trees.walks import Branching, ContextTable, DelayedShape, DraftedPaths, worlds
from proofs_check.plays import ONE


def rollouts(nodes: int) -> list[DelayedShape]:
    """Shapes of i.i.d. rollouts from the root with at most `nodes` drafted nodes."""
    return [(k, 0, n) for k in range(1, nodes + 1) for n in range(1, nodes // k + 1)]


@claim("D-IMPROVES")
def improves(effort: int) -> Finding:
    solvers = {"NSS": NSS, "NaiveTree": NAIVE, "SpecInfer": SPECINFER}
    delayed, same_depth, same_size = (2, 1, 1), (2, 0, 2), [shape for shape in rollouts(3) if shape[0] > 1]

    def loses(world: ContextTable, others: Sequence[DelayedShape]) -> bool:
        return all(
            tokens_emitted(world, delayed, solver) < max(tokens_emitted(world, shape, solver) for shape in others)
            for solver in solvers.values()
        )

    def same_trees(world: ContextTable, paths: int, length: int) -> bool:
        apart: dict[DraftedPaths, Fraction] = {}
        for tokens in product(product(range(world.size), repeat=length), repeat=paths):
            apart[tokens] = prod((world.chance(path, 1) for path in tokens), start=ONE)
        return {draft: x for draft, x in apart.items() if x} == trees(world, (paths, 0, length))

    world = smallest(worlds(2, 2, 2), lambda world: loses(world, [same_depth]) and loses(world, same_size))
    found = {
        name: {str(shape): tokens_emitted(world, shape, solver) for shape in (delayed, same_depth, *same_size)}
        for name, solver in solvers.items()
    }
    better = smallest(worlds(2, 2, 3), lambda w: gains(w, delayed, [*rollouts(3), same_depth]))
    compared = [(w, k, n) for w in worlds(2, 2, 2) for k in (1, 2) for n in (1, effort)]

    def values(world: ContextTable, solver: Branching) -> dict[str, Fraction]:
        by_shape = {shape: tokens_emitted(world, shape, solver) for shape in (delayed, same_depth, *rollouts(3))}
        best = max(by_shape[shape] for shape in (same_depth, *rollouts(3)))
        chosen = max(by_shape[delayed], by_shape[same_depth])
        return {
            "delayed": by_shape[delayed],
            "best_L1": chosen,
            "rollouts": by_shape[same_depth],
            "best_rollouts": best,
        }

    tried = ((one, solver) for one in [world, *worlds(2, 2, 2), better] for solver in solvers.values())
    return Finding(
        {"count": len(compared)}
        | {"delayed": tokens_emitted(world, delayed, NAIVE), "rollouts": tokens_emitted(world, same_depth, NAIVE)},
        {
            "shape": {"K": 2, "L1": 1, "L2": 1},
            "parent": [-1, 0, 1, 1],
            "distributions": world.shown(2),
            "tokens_per_call": found,
            "delaying_wins": better.shown(2),
        },
        cases={
            "world": (values(*one) for one in tried),
            "draft": ({"same_trees": same_trees(*one)} for one in compared),
        },
    )


def gains(world: ContextTable, shape: DelayedShape, others: Sequence[DelayedShape]) -> bool:
    """Whether a shape emits more tokens than every other shape under NaiveTree and under SpecInfer."""
    return all(
        tokens_emitted(world, shape, solver) > max(tokens_emitted(world, other, solver) for other in others)
        for solver in (NAIVE, SPECINFER)
    )


@second("D-IMPROVES")
def _(case: Case) -> None:
    world, wins = (ContextTable(tuple(case[name].values())).library() for name in ("distributions", "delaying_wins"))
    for name, solver in SOLVERS.items():
        found = {s: tokens_per_call(solver, world, *s) for s in ((2, 1, 1), (2, 0, 2), (2, 0, 1), (3, 0, 1))}
        assert {str(shape): value for shape, value in found.items()} == case["tokens_per_call"][name]
        delayed = found.pop((2, 1, 1))
        assert delayed < found[2, 0, 2]
        assert delayed < max(found[2, 0, 1], found[3, 0, 1])
    for solver in list(SOLVERS.values())[1:]:
        others = [tokens_per_call(solver, wins, *shape) for shape in [*rollouts(3), (2, 0, 2)]]
        assert tokens_per_call(solver, wins, 2, 1, 1) > max(others)
