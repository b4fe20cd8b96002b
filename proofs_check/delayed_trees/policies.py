"""What delaying the branching point gains, Section 5; what an action costs and a mixture is worth: Eq. (11) and (4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees.expansion import NAIVE, NSS, SPECINFER, tokens_emitted, trees
from proofs_check.delayed_trees.library import SOLVERS, tokens_per_call
from proofs_check.delayed_trees.walks import Branching, ContextTable, DelayedShape, DraftedPaths, worlds
from proofs_check.plays import ONE, ZERO

Forward = tuple[str, int, int]
"""(model, new tokens, length of the context with them)."""


def forwards(shape: DelayedShape, context: int) -> list[Forward]:
    """The forwards of one cycle with a KV cache, `context` tokens with the root; the paths part at once."""
    paths, trunk, length = shape
    done: list[Forward] = []
    cached, frontier = context - 1, 1
    for level in range(trunk + length):
        done.append(("draft", frontier, cached + frontier))
        cached += frontier
        frontier = paths if level >= trunk else 1
    drafted = trunk + paths * length
    return [*done, ("target", 1 + drafted, context + drafted)]


def printed_lengths(shape: DelayedShape, context: int) -> list[tuple[str, int]]:
    """The times that Eq. (11) adds, by model and context length."""
    paths, trunk, length = shape
    drafts = [context + j for j in range(trunk)] + [context + trunk + j * paths for j in range(length)]
    return [*(("draft", at) for at in drafts), ("target", context + trunk + paths * length)]


@dataclass(frozen=True)
class Machine:
    """Seconds of a forward: 1 for the target, `draft` for the draft; each further token adds the share `slope`."""

    draft: Fraction
    slope: Fraction

    def seconds(self, model: str, new: int) -> Fraction:
        """Seconds of one forward of `new` tokens; the context costs nothing."""
        return (ONE if model == "target" else self.draft) * (1 + self.slope * (new - 1))

    def cycle(self, shape: DelayedShape) -> Fraction:
        """Seconds of one cycle."""
        alike = Counter((model, new) for model, new, _ in forwards(shape, 1))
        return sum((times * self.seconds(*one) for one, times in alike.items()), ZERO)

    def eq_11(self, shape: DelayedShape) -> Fraction:
        """Seconds of one cycle by Eq. (11), with t_p and t_q measured on single tokens."""
        alike = Counter(model for model, _ in printed_lengths(shape, 1))
        return sum((times * self.seconds(model, 1) for model, times in alike.items()), ZERO)


COIN = ContextTable((((ONE, ZERO), (Fraction(1, 2), Fraction(1, 2))),))
"""A world where the target always emits token 0 and the draft gives it probability 1/2."""
ACTIONS: tuple[DelayedShape, ...] = ((1, 0, 0), (1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1))


def chosen(machine: Machine) -> DelayedShape:
    """The action with the highest throughput by Eq. (11), in `COIN`."""
    return max(ACTIONS, key=lambda shape: tokens_emitted(COIN, shape, NAIVE) / machine.eq_11(shape))


def rate(machine: Machine, shape: DelayedShape) -> Fraction:
    """Tokens per second where every token of every forward costs time."""
    return tokens_emitted(COIN, shape, NAIVE) / machine.cycle(shape)


@claim("D-EQ11")
def latency(effort: int) -> Finding:
    def counts(shape: DelayedShape, context: int) -> bool:
        paths, trunk, length = shape
        done = forwards(shape, context)
        widths = [1] * (trunk + min(length, 1)) + [paths] * max(length - 1, 0) + [1 + trunk + paths * length]
        return [(m, at) for m, _, at in done] == printed_lengths(shape, context) and [
            new for _, new, _ in done
        ] == widths

    shapes = [(k, a, b) for k in range(1, 5) for a in range(9) for b in range(9)]
    cycles = [*product(shapes, (1, 7, 1000) if effort == 2 else (7,))]
    machines = sorted(
        (Machine(Fraction(1, d), Fraction(1, s)) for d in (2, 4, 8, 16) for s in range(1, 33)),
        key=lambda m: (m.slope, m.draft),
    )
    machine = smallest(machines, lambda m: rate(m, chosen(m)) < 1)
    pick = chosen(machine)
    timed = [*product(machines, shapes[:: 4 // effort])]

    def times(one: Machine, shape: DelayedShape) -> dict[str, Fraction]:
        return {"slope": one.slope, "Eq_11": one.eq_11(shape), "seconds": one.cycle(shape)}

    flat = [(Machine(one.draft, ZERO), shape) for one, shape in timed[::64]]
    return Finding(
        {"count": len(cycles), "under": len(timed), "slope": machine.slope}
        | {"told": machine.eq_11(pick), "true": machine.cycle(pick)},
        {
            "draft_seconds": machine.draft,
            "seconds_more_per_further_token": machine.slope,
            "parent": _parent(*pick),
            "picked": dict(zip(("K", "L1", "L2"), pick, strict=True)),
            "tokens": tokens_emitted(COIN, pick, NAIVE),
            "eq_11_seconds": machine.eq_11(pick),
            "seconds": machine.cycle(pick),
            "tokens_per_second": rate(machine, pick),
            "plain_tokens_per_second": ONE,
        },
        cases={
            "cycle": ({"forwards_as_stated": counts(*one)} for one in cycles),
            "time": (times(*one) for one in (*timed, *flat)),
        },
    )


@second("D-EQ11")
def _(case: Case) -> None:
    draft, slope, shape = case["draft_seconds"], case["seconds_more_per_further_token"], tuple(case["picked"].values())
    tokens = np.arange(1, 18)
    rows = 1 + float(slope) * (tokens - 1)
    flat = st.Latency(tokens, np.array([0]), rows[None, :], float(draft) * rows[None, :])
    paths, trunk, length = shape
    assert abs(st.yields.delayed_seconds(flat, paths, length, trunk) - float(case["seconds"])) < 1e-12
    solver = st.otlp.Naive()
    best = {s: tokens_per_call(solver, COIN.library(), *s) for s in ACTIONS}
    assert best[shape] == case["tokens"]
    assert all(best[shape] / case["eq_11_seconds"] >= best[s] / (1 + draft * (s[1] + s[2])) for s in ACTIONS)
    assert best[shape] / case["seconds"] == case["tokens_per_second"] < 1


def _parent(paths: int, trunk: int, length: int) -> list[int]:
    parent = list(range(-1, trunk))
    for _ in range(paths if length else 0):
        parent += [trunk, *range(len(parent), len(parent) + length - 1)]
    return parent


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
