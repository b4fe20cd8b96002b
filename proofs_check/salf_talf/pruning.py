"""What Algorithm 2 can prune without loss, and what beam search loses."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import isclose
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.salf_talf import algorithm2
from proofs_check.salf_talf.threshold import library_draft
from proofs_check.small_drafts import laws
from spectheory.search import SpecExec


def left_to_gain(draft: algorithm2.Markov, n: int) -> Iterator[dict[str, Any]]:
    """What is left to gain below depth i, for each i."""
    nodes = [algorithm2.ROOT]
    gains = []
    layer = [algorithm2.ROOT]
    for _ in range(n):
        gains.append(algorithm2.worth(algorithm2.top(draft, n)) - algorithm2.worth(sorted(nodes)[:n]))
        layer = [child for node in layer for child in algorithm2.children(draft, node)]
        nodes = sorted(nodes + layer)[: 4 * n]
    for i, (gain, later) in enumerate(pairwise((*gains, Fraction(0)))):
        yield {"i": i, "N": n, "gain": gain, "next_gain": later}


@claim("S-GAIN")
def potential(effort: int) -> Finding:
    grids = ((2, 4, 6), (3, 3, 4)) if effort == 1 else ((2, 5, 8), (3, 4, 5))
    models = {(draft, n) for draft, _, n, _ in algorithm2.cases(effort)}
    sure = algorithm2.Markov((Fraction(1), Fraction(0)))
    for n in range(2, grids[0][2] + 1):
        assert algorithm2.worth(algorithm2.top(sure, n)) - 1 == n - 1  # i = 0: attained
    return Finding(
        {"count": len(models), "grids": algorithm2.shown_grids(effort)},
        cases={"depth": (depth for one in models for depth in left_to_gain(*one))},
    )


@claim("S-A2-CAP")
def capacity(effort: int) -> Finding:
    def values(draft: algorithm2.Markov, tokens: int, n: int, batch: int) -> dict[str, Any]:
        states = algorithm2.drafted(draft, n, batch)
        free = algorithm2.flat(draft, n, batch, len(states))
        popped = min((len(state.popped) for state in states[1:]), default=batch)
        found = [(state.chosen, state.tree) for state in states]
        return {"D_and_G": found, "D_and_G_if_nothing_is_discarded": free, "popped": popped, "B": batch, "V": tokens}

    runs = [*algorithm2.cases(effort)]
    return Finding(
        {"count": len(runs), "grids": algorithm2.shown_grids(effort)}, cases={"run": (values(*one) for one in runs)}
    )


@claim("S-BEAM")
def beam_search(effort: int) -> Finding:
    def values(draft: algorithm2.Markov, k: int, n: int) -> dict[str, Fraction]:
        found = algorithm2.beam(draft, k, n - 1, n), algorithm2.top(draft, n)
        return dict(zip(("worth", "best"), map(algorithm2.worth, found), strict=True))

    def finds_best(*case: Any) -> bool:
        return len(set(values(*case).values())) == 1

    beams = ((algorithm2.Markov(law), k, n) for n in range(3, 7) for k in range(1, n) for law in laws(2, 3))
    draft, k, n = smallest(beams, lambda draft, k, n: not finds_best(draft, k, n))
    wide = {(model, size) for model, _, size, _ in algorithm2.cases(effort)}
    law = ", ".join(map(str, draft.start))
    return Finding(
        {
            "law": law,
            "n": n,
            "k": k,
            "depth": n - 1,
            "beam_worth": algorithm2.worth(algorithm2.beam(draft, k, n - 1, n)),
            "best_worth": algorithm2.worth(algorithm2.top(draft, n)),
            "count": len(wide),
            "grids": algorithm2.shown_grids(effort),
        },
        cases={
            "beam": [values(draft, k, n)],
            "wide_beam": (values(draft, n - 1, n) for draft, n in wide),
        },
    )


@second("S-BEAM")
def beam_search_again(case: Case) -> None:
    """Second check: with even chances and one node a layer, A then AA are worth 3/4; A and B are worth 1."""
    half = Fraction(1, 2)
    assert 1 + half + half * half < 1 + half + half
    even = algorithm2.Markov((half, half))
    assert isclose(SpecExec(2).grow(library_draft(even)).expected, 1 + half + half)
