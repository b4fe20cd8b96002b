"""Theorem 1 of SALF & TALF: whether the sums S_i of line 13 fall."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, pairwise, permutations, product
from random import Random
from typing import Any

from proofs_check.claims import Finding, claim, every, second, smallest
from proofs_check.salf_talf.algorithm2 import (
    ByDepth,
    Iteration,
    Markov,
    NextToken,
    as_tree,
    children,
    drafted,
    flat,
    recorded,
    shown_grids,
    support,
    worth,
)
from proofs_check.small_drafts import Law, laws, letters

Pair = tuple[Iteration, Iteration]
STEEP: list[Law] = [(Fraction(w, 37), 1 - Fraction(w, 37)) for w in (34, 33, 32, 19, 31, 29, 28, 26, 25)]
"""Distributions on two tokens whose products are rarely equal."""


def positive(tokens: int, largest: int) -> list[Law]:
    """The distributions of `laws` without a zero."""
    return [law for law in laws(tokens, largest) if min(law) > 0]


def stalls(states: list[Iteration], first: int = 2) -> int | None:
    """The first i >= `first` with 0 < S_i <= S_{i+1}, or None."""
    sums = [state.sum for state in states]
    return next((i for i in range(first, len(sums)) if 0 < sums[i - 1] <= sums[i]), None)


def tied(pair: Pair) -> bool:
    """Whether the nodes of D_i and D_{i+1} all have one probability, and are equally many."""
    one, two = pair
    return len(one.chosen) == len(two.chosen) and len({node[0] for node in one.chosen + two.chosen}) == 1


def pairs(effort: int) -> Iterator[tuple[int, int, Pair]]:
    """(support, B, two states in a row) of every run."""
    for (draft, _, _, batch), states in recorded(effort):
        yield from ((support(draft), batch, pair) for pair in pairwise(states))


@claim("S-T1")
def theorem_1(effort: int) -> Finding:
    def all_cases() -> Iterator[tuple[Law, int, int]]:
        for n in range(2, 7):
            yield from ((law, n, b) for v in (2, 3) for law in positive(v, 4) for b in range(1, min(v, n)))

    law, n, batch = smallest(all_cases(), lambda case: stalls(drafted(Markov(case[0]), *case[1:])) is not None)
    states = drafted(Markov(law), n, batch)
    i = stalls(states)
    assert i is not None
    falling = every(pairs(effort), lambda case: case[2][0].sum >= case[2][1].sum)
    enough = [case for case in pairs(effort) if case[0] > case[1] and case[2][0].sum > 0]
    strict = every(enough, lambda case: case[2][0].sum > case[2][1].sum or tied(case[2]))
    return Finding(
        "corrected",
        {"falling": falling, "strict": strict, "grids": shown_grids(effort)},
        {
            "law": law,
            "n": n,
            "batch": batch,
            "i": i,
            "expanded_i": [letters(node[2]) for node in states[i - 1].chosen],
            "expanded_next": [letters(node[2]) for node in states[i].chosen],
            "sums": [state.sum for state in states],
            **as_tree(states[i].tree),
        },
    )


@second("S-T1")
def _(finding: Finding) -> dict[str, Any]:
    case = finding.case
    replayed = [worth(chosen) for chosen, _ in flat(Markov(case["law"]), case["n"], case["batch"], len(case["sums"]))]
    assert replayed == case["sums"], "the flat replay gives other sums"
    assert replayed[case["i"] - 1] == replayed[case["i"]] > 0 < min(case["law"])
    assert case["batch"] < len(case["law"])
    random, count = Random(7), 0
    for _ in range(60):
        n, batch = random.randint(5, 14), random.randint(1, 3)
        weights = [sorted(random.sample(range(1, 9999), 4), reverse=True) for _ in range(n)]
        draft = ByDepth(tuple(tuple(Fraction(w, sum(row)) for w in row) for row in weights))
        sums = [worth(chosen) for chosen, _ in flat(draft, n, batch, 2 * n)]
        alive = sums[: sums.index(Fraction(0)) + 1]
        assert all(before > after for before, after in pairwise(alive)), "sums of a draft without ties do not fall"
        count += len(alive) - 1
    return {"count": count}


def parts(draft: NextToken, pair: Pair) -> tuple[int, int]:
    """|W_{i+1}| and |Y_i|."""
    before, after = ({node[2] for node in state.chosen} for state in pair)
    parents = {path[:-1] for path in after}
    return sum(path[:-1] not in before for path in after), sum(path not in parents for path in before)


@claim("S-T1-W")
def leftover(effort: int) -> Finding:
    count = every(
        ((draft, pair) for (draft, *_), states in recorded(effort) for pair in pairwise(states)),
        lambda case: (lambda both: both[0] <= both[1])(parts(*case)),
    )
    return Finding("holds", {"count": count, "grids": shown_grids(effort)})


def unties(draft: ByDepth, n: int, batch: int) -> bool:
    """Whether no two nodes that the run saw have the same probability."""
    states = drafted(draft, n, batch)
    seen = {child for state in states for node in state.chosen for child in children(draft, node)}
    return len({node[0] for node in seen}) == len(seen)


def needed(batch: int) -> dict[str, Any]:
    """The first draft on two tokens, without zeros or ties, for which a sum stays the same with B = `batch` >= 2."""
    layers = ((*order, *STEEP[4:]) for order in permutations(STEEP[:4]))
    sizes = product(range(batch + 2, 11), list(layers))
    n, laws_by_depth = smallest(
        sizes,
        lambda case: (
            stalls(drafted(ByDepth(case[1]), case[0], batch)) is not None and unties(ByDepth(case[1]), case[0], batch)
        ),
    )
    run = drafted(ByDepth(laws_by_depth), n, batch)
    i = stalls(run)
    assert i is not None
    deepest = max(node[1] for state in run for node in state.chosen)
    return {
        "tokens": 2,
        "batch": batch,
        "n": n,
        "laws_by_depth": list(laws_by_depth[: deepest + 1]),
        "i": i,
        "sums": [state.sum for state in run],
        **as_tree(run[i].tree),
    }


@claim("S-T1-B")
def condition(effort: int) -> Finding:
    def zeros() -> Iterator[tuple[Law, int, int]]:
        for n in range(2, 7):
            yield from ((law, n, b) for v in (2, 3) for law in laws(v, 3) if not law[-1] for b in range(1, min(v, n)))

    law, n, batch = smallest(zeros(), lambda case: stalls(drafted(Markov(case[0]), *case[1:])) is not None)
    states = drafted(Markov(law), n, batch)
    return Finding(
        "corrected",
        {"size": 2 + effort},
        {
            "not_sufficient": {
                "law": law,
                "n": n,
                "batch": batch,
                "sums": [state.sum for state in states],
                **as_tree(states[-1].tree),
            },
            "not_to_be_weakened": [needed(b) for b in range(2, 3 + effort)],
        },
    )


@second("S-T1-B")
def _(finding: Finding) -> dict[str, Any]:
    case = finding.case["not_sufficient"]
    first = (Markov(case["law"]), case["n"], case["batch"], case["sums"])
    assert case["batch"] < len(case["law"])
    assert sum(p > 0 for p in case["law"]) <= case["batch"]
    weaker = finding.case["not_to_be_weakened"]
    others = [(ByDepth(tuple(e["laws_by_depth"])), e["n"], e["batch"], e["sums"]) for e in weaker]
    for draft, n, batch, sums in (first, *others):
        replayed = [worth(chosen) for chosen, _ in flat(draft, n, batch, len(sums))]
        assert replayed == sums, "the flat replay gives other sums"
        assert any(0 < a == b for a, b in pairwise(replayed[1:])), "no sum stays"
    assert all(p > 0 for draft, *_ in others for p in chain(*draft.layers))
    return {"alternatives": 1 + len(others)}
