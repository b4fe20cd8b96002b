"""Theorem 1 of SALF & TALF: whether the sums S_i of line 13 fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.salf_talf import algorithm2
from proofs_check.small_drafts import Law, letters, positive_laws


def stalls(states: list[algorithm2.Iteration], first: int = 2) -> int | None:
    """The first i >= `first` with 0 < S_i <= S_{i+1}, or None."""
    sums = [state.sum for state in states]
    return next((i for i in range(first, len(sums)) if 0 < sums[i - 1] <= sums[i]), None)


def tied(one: algorithm2.Iteration, two: algorithm2.Iteration) -> bool:
    """Whether the nodes of D_i and D_{i+1} all have one probability, and are equally many."""
    return len(one.chosen) == len(two.chosen) and len({node[0] for node in one.chosen + two.chosen}) == 1


def steps(effort: int) -> Iterator[dict[str, Any]]:
    """What the formulas of Theorem 1 name, for each two states in a row of every run."""
    for (draft, tokens, _, batch), states in algorithm2.recorded(effort):
        for i, (one, two) in enumerate(pairwise(states), 1):
            yield {
                "i": i,
                "B": batch,
                "V": tokens,
                "support": draft.support,
                "S_i": one.sum,
                "S_next": two.sum,
                "tied": tied(one, two),
            }


def pairs(effort: int) -> Iterator[tuple[algorithm2.Markov, int, algorithm2.Iteration, algorithm2.Iteration]]:
    """(draft, B, two states in a row) of every run."""
    for (draft, _, _, batch), states in algorithm2.recorded(effort):
        yield from ((draft, batch, *pair) for pair in pairwise(states))


def smallest_stall(laws: Callable[[int], list[Law]]) -> tuple[Law, int, int]:
    """The first (law, N, B) whose sums stall, with two or three tokens; B is below the number of tokens."""
    cases = ((law, n, b) for n in range(2, 7) for v in (2, 3) for law in laws(v) for b in range(1, min(v, n)))
    return smallest(
        cases, lambda law, n, batch: stalls(algorithm2.drafted(algorithm2.Markov(law), n, batch)) is not None
    )


@claim("S-T1")
def theorem_1(effort: int) -> Finding:
    law, n, batch = smallest_stall(lambda tokens: positive_laws(tokens, 4))
    states = algorithm2.drafted(algorithm2.Markov(law), n, batch)
    i = stalls(states)
    assert i is not None
    found = [*steps(effort)]
    strict = sum(one["support"] > one["B"] and one["S_i"] > 0 for one in found)
    return Finding(
        {"falling": len(found), "strict": strict, "grids": algorithm2.shown_grids(effort)},
        {
            "law": law,
            "n": n,
            "batch": batch,
            "i": i,
            "expanded_i": [letters(node[2]) for node in states[i - 1].chosen],
            "expanded_next": [letters(node[2]) for node in states[i].chosen],
            "sums": [state.sum for state in states],
            **algorithm2.as_tree(states[i].tree),
        },
        cases={"step": found},
    )


@second("S-T1")
def _(case: Case) -> dict[str, Any]:
    sums = algorithm2.replayed(algorithm2.Markov(case["law"]), case["n"], case["batch"], len(case["sums"]))
    assert sums == case["sums"], "the flat replay gives other sums"
    assert sums[case["i"] - 1] == sums[case["i"]] > 0 < min(case["law"])
    assert case["batch"] < len(case["law"])
    random, count = Random(7), 0
    for _ in range(60):
        n, batch = random.randint(5, 14), random.randint(1, 3)
        weights = [sorted(random.sample(range(1, 9999), 4), reverse=True) for _ in range(n)]
        draft = algorithm2.ByDepth(tuple(tuple(Fraction(w, sum(row)) for w in row) for row in weights))
        sums = algorithm2.replayed(draft, n, batch, 2 * n)
        alive = sums[: sums.index(Fraction(0)) + 1]
        assert all(before > after for before, after in pairwise(alive)), "sums of a draft without ties do not fall"
        count += len(alive) - 1
    return {"count": count}


@claim("S-T1-W")
def leftover(effort: int) -> Finding:
    def values(one: algorithm2.Iteration, two: algorithm2.Iteration) -> dict[str, int]:
        before, after = ({node[2] for node in state.chosen} for state in (one, two))
        parents = {path[:-1] for path in after}
        return {
            "W": sum(path[:-1] not in before for path in after),
            "Y": sum(path not in parents for path in before),
        }

    found = [values(one, two) for _, _, one, two in pairs(effort)]
    return Finding({"count": len(found), "grids": algorithm2.shown_grids(effort)}, cases={"step": found})
