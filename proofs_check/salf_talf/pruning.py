"""What Algorithm 2 can prune without loss, and what beam search loses."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import isclose

from proofs_check.claims import Case, Finding, claim, every, second, smallest
from proofs_check.salf_talf import algorithm2
from proofs_check.salf_talf.threshold import library_draft
from proofs_check.small_drafts import laws
from spectheory.search import SpecExec


def bounded(draft: algorithm2.Markov, n: int) -> bool:
    """Whether what is left to gain below depth i is at most N - 1 - i, and falls with i until it is 0."""
    nodes = [algorithm2.ROOT]
    gains = []
    layer = [algorithm2.ROOT]
    for i in range(n):
        gains.append(algorithm2.worth(algorithm2.top(draft, n)) - algorithm2.worth(sorted(nodes)[:n]))
        if gains[-1] > max(0, n - 1 - i):
            return False
        layer = [child for node in layer for child in algorithm2.children(draft, node)]
        nodes = sorted(nodes + layer)[: 4 * n]
    return all(later < gain or gain == later == 0 for gain, later in pairwise(gains))


@claim("S-GAIN")
def potential(effort: int) -> Finding:
    grids = ((2, 4, 6), (3, 3, 4)) if effort == 1 else ((2, 5, 8), (3, 4, 5))
    models = {(draft, n) for draft, _, n, _ in algorithm2.cases(effort)}
    count = every(models, bounded)
    sure = algorithm2.Markov((Fraction(1), Fraction(0)))
    for n in range(2, grids[0][2] + 1):
        assert algorithm2.worth(algorithm2.top(sure, n)) - 1 == n - 1  # i = 0: attained
    return Finding({"count": count, "grids": algorithm2.shown_grids(effort)})


@claim("S-A2-CAP")
def capacity(effort: int) -> Finding:
    def same(draft: algorithm2.Markov, tokens: int, n: int, batch: int) -> bool:
        states = algorithm2.drafted(draft, n, batch)
        free = algorithm2.flat(draft, n, batch, len(states))
        enough = tokens <= batch or all(len(state.popped) == batch for state in states[1:])
        return enough and all(
            (state.chosen, state.tree) == (chosen, tree) for state, (chosen, tree) in zip(states, free, strict=True)
        )

    count = every(algorithm2.cases(effort), same)
    return Finding({"count": count, "grids": algorithm2.shown_grids(effort)})


@claim("S-BEAM")
def beam_search(effort: int) -> Finding:
    def finds_best(draft: algorithm2.Markov, k: int, n: int) -> bool:
        return algorithm2.worth(algorithm2.beam(draft, k, n - 1, n)) == algorithm2.worth(algorithm2.top(draft, n))

    beams = ((algorithm2.Markov(law), k, n) for n in range(3, 7) for k in range(1, n) for law in laws(2, 3))
    draft, k, n = smallest(beams, lambda draft, k, n: not finds_best(draft, k, n))
    wide = {(model, size) for model, _, size, _ in algorithm2.cases(effort)}
    count = every(wide, lambda draft, n: finds_best(draft, n - 1, n))
    law = ", ".join(map(str, draft.start))
    return Finding(
        {
            "law": law,
            "n": n,
            "k": k,
            "depth": n - 1,
            "beam_worth": algorithm2.worth(algorithm2.beam(draft, k, n - 1, n)),
            "best_worth": algorithm2.worth(algorithm2.top(draft, n)),
            "count": count,
            "grids": algorithm2.shown_grids(effort),
        },
    )


@second("S-BEAM")
def beam_search_again(case: Case) -> None:
    """Second check: with even chances and one node a layer, A then AA are worth 3/4; A and B are worth 1."""
    half = Fraction(1, 2)
    assert 1 + half + half * half < 1 + half + half
    even = algorithm2.Markov((half, half))
    assert isclose(SpecExec(2).grow(library_draft(even)).expected, 1 + half + half)
