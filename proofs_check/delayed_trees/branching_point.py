"""What delaying the branching point gains and loses, Section 5."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

import spectheory as st
from proofs_check.delayed_trees.expansion import NAIVE, NSS, SPECINFER, tokens_emitted, trees
from proofs_check.delayed_trees.walks import Draft, Shape, World, parents, worlds
from proofs_check.plays import ONE
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, second, smallest


def rollouts(nodes: int) -> list[Shape]:
    """Root-node i.i.d. rollouts of at most that many drafted nodes."""
    return [(k, 0, n) for k in range(1, nodes + 1) for n in range(1, nodes // k + 1)]


@claim("D-IMPROVES", source="Delayed tree expansion, abstract and Section 5")
def improves(effort: int) -> Verdict:
    """Delayed expansion improves on root-node i.i.d. rollouts: more tokens per target call.

    Read at equal depth, a (K, L1, L2)-delayed tree with K >= 2, L1 >= 1, L2 >= 1 against K rollouts of L1 + L2 tokens;
    and at equal size, against every K' rollouts of L' tokens with K' L' <= L1 + K L2, single paths left out on both
    sides. The branching point is fixed, not chosen in hindsight.
    """
    solvers = {"NSS": NSS, "NaiveTree": NAIVE, "SpecInfer": SPECINFER}
    delayed, same_depth, same_size = (2, 1, 1), (2, 0, 2), [shape for shape in rollouts(3) if shape[0] > 1]

    def loses(world: World, others: Sequence[Shape]) -> bool:
        return all(
            tokens_emitted(world, delayed, solver) < max(tokens_emitted(world, shape, solver) for shape in others)
            for solver in solvers.values()
        )

    def same_trees(case: tuple[World, int, int]) -> bool:
        world, paths, length = case
        apart: dict[Draft, Fraction] = {}
        for tokens in product(product(range(world.size), repeat=length), repeat=paths):
            apart[tokens] = prod((world.chance(path, 1) for path in tokens), start=ONE)
        return {draft: x for draft, x in apart.items() if x} == trees(world, (paths, 0, length))

    world = smallest(worlds(2, 2, 2), lambda world: loses(world, [same_depth]) and loses(world, same_size))
    found = {
        name: {str(shape): tokens_emitted(world, shape, solver) for shape in (delayed, same_depth, *same_size)}
        for name, solver in solvers.items()
    }
    better = smallest(worlds(2, 2, 3), lambda w: gains(w, delayed, [*rollouts(3), same_depth]))
    count = every([(w, k, n) for w in worlds(2, 2, 2) for k in (1, 2) for n in (1, effort)], same_trees)
    return Verdict(
        "corrected",
        "Where target and draft differ at the root, one drafted token there throws away what two would have caught: "
        "fewer tokens than rollouts of the same depth and than rollouts of no more nodes, for "
        f"NSS, NaiveTree and SpecInfer. With L1 = 0 the delayed tree is the root-node draft ({count:,} laws of trees "
        "compared), so choosing L1 never loses; and it can win: see `delaying_wins`, where (2, 1, 1) has more tokens "
        "than every root-node draft of at most 3 nodes, single paths and two rollouts of two tokens.",
        "every run of drafting and walk, worlds of a grid in order of size",
        {
            "shape": {"K": 2, "L1": 1, "L2": 1},
            "parent": parents(((0, 0), (0, 1))),
            "laws": world.shown(2),
            "tokens_per_call": found,
            "delaying_wins": better.shown(2),
        },
        "The best delayed tree is never worse than the best root-node rollouts, whatever the solver and the cost, "
        "since L1 = 0 gives exactly those; it is strictly better in some worlds at no more nodes. No fixed L1 >= 1 "
        "is better in all: it pays where p and q agree at the root and part later.",
    )


def gains(world: World, shape: Shape, others: Sequence[Shape]) -> bool:
    """Whether a shape has more tokens than all others under NaiveTree and SpecInfer."""
    return all(
        tokens_emitted(world, shape, solver) > max(tokens_emitted(world, other, solver) for other in others)
        for solver in (NAIVE, SPECINFER)
    )


def _world(shown: dict[str, tuple[Law, Law]]) -> World:
    return World(tuple(shown.values()))


@second("D-IMPROVES")
def _(verdict: Verdict) -> str:
    case = verdict.counterexample or {}
    solvers = {"NSS": st.otlp.NSS(), "NaiveTree": st.otlp.Naive(), "SpecInfer": st.otlp.SpecInfer()}
    world, wins = _world(case["laws"]).library(), _world(case["delaying_wins"]).library()
    for name, solver in solvers.items():
        found = {s: _value(solver, world, *s) for s in ((2, 1, 1), (2, 0, 2), (2, 0, 1), (3, 0, 1))}
        assert {str(shape): value for shape, value in found.items()} == case["tokens_per_call"][name]
        delayed = found.pop((2, 1, 1))
        assert delayed < found[2, 0, 2]
        assert delayed < max(found[2, 0, 1], found[3, 0, 1])
    for solver in list(solvers.values())[1:]:
        assert _value(solver, wins, 2, 1, 1) > max(_value(solver, wins, *s) for s in [*rollouts(3), (2, 0, 2)])
    return "the walk through every outcome; spectheory's sum of Eq. (3) over all delayed trees."


def _value(solver: st.otlp.Solver, world: st.World, paths: int, trunk: int, length: int) -> Fraction:
    return st.delayed_block_efficiency(solver, world, paths, length, trunk).value
