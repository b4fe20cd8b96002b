"""What an action costs and what a mixture of actions is worth: Eq. (11) and Eq. (4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees.expansion import NAIVE, tokens_emitted
from proofs_check.delayed_trees.library import tokens_per_call
from proofs_check.delayed_trees.walks import ContextTable, DelayedShape, all_laws
from proofs_check.plays import ONE, ZERO, runs
from proofs_check.small_drafts import Law

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


def per_second(weights: Law, actions: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """Eq. (4): tokens per second of a mixture of actions."""
    tokens = sum((w * n for w, (n, _) in zip(weights, actions, strict=True)), ZERO)
    return tokens / sum((w * t for w, (_, t) in zip(weights, actions, strict=True)), ZERO)


@claim("D-EQ4")
def ratio_of_sums(effort: int) -> Finding:
    actions = [(1 + Fraction(n, 2), 1 + Fraction(t, 2)) for n in range(3) for t in range(3)]
    cases = [(w, pair) for w in all_laws(2, 3) for pair in product(actions, repeat=2)]

    def most_probable(weights: Law, given: tuple) -> Fraction:
        n, t = given[weights.index(max(weights))]
        return n / t

    def slower(weights: Law, given: tuple) -> bool:
        return weights[0] != weights[1] and most_probable(weights, given) < per_second(weights, given)

    def values(weights: Law, given: tuple) -> dict[str, Fraction]:
        best, found = max(n / t for n, t in given), per_second(weights, given)
        return {"Eq_4": found, "best_action": best, "most_probable_action": most_probable(weights, given)}

    weights, given = smallest(cases, slower)
    triples = product(all_laws(3, 2 + effort), product(actions[:: 3 - effort], repeat=3))
    policies = [*cases, *triples]
    shapes = {
        shape if shape[0] > 1 and shape[2] else (1, 0, shape[1] + shape[2])
        for shape in product(range(1, 5), range(9), range(9))
    }
    return Finding(
        {
            "count": len(policies),
            "shapes": len(shapes),
            "pi": ", ".join(map(str, weights)),
            "actions": "; ".join(f"{n} in {t}" for n, t in given),
            "mixture": per_second(weights, given),
            "slow": most_probable(weights, given),
        },
        cases={"policy": (values(*one) for one in policies)},
    )


@second("D-EQ4")
def _(case: Case) -> None:
    weights, actions = (Fraction(2, 3), Fraction(1, 3)), ((ONE, ONE), (Fraction(3, 2), ONE))
    cycles = range(9)
    picks = runs(lambda pick: tuple(pick(weights) for _ in cycles))
    tokens = sum((chance * actions[a][0] for c, chance in picks.items() for a in c), ZERO)
    seconds = sum((chance * actions[a][1] for c, chance in picks.items() for a in c), ZERO)
    assert tokens / seconds == Fraction(7, 6) == per_second(weights, actions) > actions[0][0] / actions[0][1]
    best = max((k / Fraction(12) for k in range(13)), key=lambda one: per_second((one, 1 - one), actions))
    assert per_second((best, 1 - best), actions) == actions[1][0] / actions[1][1]
    assert best == 0  # the maximum is at the policy that always takes the second action
    trees = {
        tuple(sorted(st.Tree(_parent(k, a, b)).parent.tolist())) for k in (1, 2) for a in range(3) for b in range(3)
    }
    assert len(trees) == 5 + 6


def _parent(paths: int, trunk: int, length: int) -> list[int]:
    parent = list(range(-1, trunk))
    for _ in range(paths if length else 0):
        parent += [trunk, *range(len(parent), len(parent) + length - 1)]
    return parent
