"""Theorem 1 of SALF & TALF: whether the sums S_i of line 13 fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, pairwise, permutations, product
from random import Random
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.salf_talf import algorithm2
from proofs_check.small_drafts import Law, laws, letters, positive_laws

Pair = tuple[algorithm2.Iteration, algorithm2.Iteration]
STEEP: list[Law] = [(Fraction(w, 37), 1 - Fraction(w, 37)) for w in (34, 33, 32, 19, 31, 29, 28, 26, 25)]
"""Distributions on two tokens whose products are rarely equal."""


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
    falling = len(found)
    strict = sum(one["support"] > one["B"] and one["S_i"] > 0 for one in found)
    return Finding(
        {"falling": falling, "strict": strict, "grids": algorithm2.shown_grids(effort)},
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


def needed(batch: int) -> dict[str, Any]:
    """The first draft on two tokens, without zeros or ties, for which a sum stays the same with B = `batch` >= 2."""

    def stalls_without_ties(n: int, draft: algorithm2.ByDepth) -> bool:
        states = algorithm2.drafted(draft, n, batch)
        seen = {child for state in states for node in state.chosen for child in algorithm2.children(draft, node)}
        return stalls(states) is not None and len({node[0] for node in seen}) == len(seen)

    steep = [algorithm2.ByDepth((*order, *STEEP[4:])) for order in permutations(STEEP[:4])]
    n, draft = smallest(product(range(batch + 2, 11), steep), stalls_without_ties)
    run = algorithm2.drafted(draft, n, batch)
    i = stalls(run)
    assert i is not None
    deepest = max(node[1] for state in run for node in state.chosen)
    return {
        "tokens": 2,
        "batch": batch,
        "n": n,
        "laws_by_depth": list(draft.layers[: deepest + 1]),
        "i": i,
        "sums": [state.sum for state in run],
        **algorithm2.as_tree(run[i].tree),
    }


@claim("S-T1-B")
def condition(effort: int) -> Finding:
    law, n, batch = smallest_stall(lambda tokens: [law for law in laws(tokens, 3) if not law[-1]])
    states = algorithm2.drafted(algorithm2.Markov(law), n, batch)
    return Finding(
        {"size": 2 + effort},
        {
            "not_sufficient": {
                "law": law,
                "n": n,
                "batch": batch,
                "sums": [state.sum for state in states],
                **algorithm2.as_tree(states[-1].tree),
            },
            "not_to_be_weakened": [needed(b) for b in range(2, 3 + effort)],
        },
        cases={"step": steps(effort)},
    )


@second("S-T1-B")
def _(cases: Case) -> dict[str, Any]:
    case, weaker = cases["not_sufficient"], cases["not_to_be_weakened"]
    first = (algorithm2.Markov(case["law"]), case["n"], case["batch"], case["sums"])
    assert case["batch"] < len(case["law"])
    assert sum(p > 0 for p in case["law"]) <= case["batch"]
    others = [(algorithm2.ByDepth(tuple(e["laws_by_depth"])), e["n"], e["batch"], e["sums"]) for e in weaker]
    for draft, n, batch, sums in (first, *others):
        assert algorithm2.replayed(draft, n, batch, len(sums)) == sums, "the flat replay gives other sums"
        assert any(0 < a == b for a, b in pairwise(sums[1:])), "no sum stays"
    assert all(p > 0 for draft, *_ in others for p in chain(*draft.layers))
    return {"alternatives": 1 + len(others)}
