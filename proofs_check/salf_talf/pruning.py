"""What Algorithm 2 may leave out without loss, and what beam search loses."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import isclose

from proofs_check.salf_talf.algorithm2 import ROOT, Markov, Node, cases, drafted, flat, looked_at, top, worth
from proofs_check.salf_talf.optimal import APPENDIX
from proofs_check.salf_talf.threshold import library_draft
from proofs_check.small_drafts import laws
from proofs_check.verdict import Verdict, claim, every, smallest
from spectheory.search import SpecExec


def bounded(case: tuple[Markov, int]) -> bool:
    """Whether what is left to gain below depth i is at most N - 1 - i, and falls with i until it is 0."""
    draft, n = case
    nodes = [ROOT]
    gains = []
    layer = [ROOT]
    for i in range(n):
        gains.append(worth(top(draft, n)) - worth(sorted(nodes)[:n]))
        if gains[-1] > max(0, n - 1 - i):
            return False
        layer = [(v * p, d + 1, (*u, t)) for v, d, u in layer for t, p in enumerate(draft(u))]
        nodes = sorted(nodes + layer)[: 4 * n]
    return all(later < gain or gain == later == 0 for gain, later in pairwise(gains))


@claim("S-GAIN", source=f"{APPENDIX}, after Definition B.3")
def potential(effort: int) -> Verdict:
    """The potential maximum gain "decreases as the depth i increases, bounded by N - i".

    The gain is what Top_N of the whole tree is worth above Top_N(U_i). Decreases is read as strictly while there is
    anything to gain; once it is 0 it stays 0, which the paper does not mean to deny. Proof. While it is above 0, either
    U_i has fewer than N nodes of positive probability and one is deeper, or a deeper node is above the least of
    Top_N(U_i); its ancestor at depth i + 1 is no less probable, so Top_N(U_(i+1)) is worth more. If a
    node deeper than i is in Top_N, which ties to the smaller depth make a tree, then i + 1 nodes above it are, and at
    most N - i - 1 places, each worth at most 1, are left for deeper ones; taking these away leaves a subset of U_i. So
    even N - 1 - i bounds it, N counting the root; a chain of sure tokens attains that.
    """
    grids = ((2, 4, 6), (3, 3, 4)) if effort == 1 else ((2, 5, 8), (3, 4, 5))
    models = {(draft, n) for draft, _, n, _ in cases(effort)}
    count = every(models, bounded)
    sure = Markov((Fraction(1), Fraction(0)))
    for n in range(2, grids[0][2] + 1):
        assert worth(top(sure, n)) - 1 == n - 1  # i = 0: attained
    return Verdict(
        "holds",
        f"Proved in the statement; seen at every depth below N for {count:,} pairs of a draft and N, from "
        f"{looked_at(effort)}.",
        "a proof in words; exact enumeration",
    )


@claim("S-A2-CAP", source="SALF & TALF, Algorithm 2, line 20, and Appendix C")
def capacity(effort: int) -> Verdict:
    """A queue of capacity N, and pushing only the N best children, do not affect D and G; and |Q| >= B if B < |Vocab|.

    Proof. A node that is discarded had N better ones before it in Q. When it would be popped these were, so G is full
    with N better nodes and line 12 drops it; nothing below it was ever pushed. After a draft call Q holds the children
    of at least one node, more than B of them.
    """

    def same(case: tuple[Markov, int, int, int]) -> bool:
        draft, tokens, n, batch = case
        states = drafted(draft, n, batch)
        free = flat(draft, n, batch, len(states))
        enough = tokens <= batch or all(len(state.popped) == batch for state in states[1:])
        return enough and all(
            (state.chosen, state.tree) == (chosen, tree) for state, (chosen, tree) in zip(states, free, strict=True)
        )

    count = every(cases(effort), same)
    return Verdict(
        "holds",
        f"Proved in the statement; D and G of every iteration were those of a search that discards nothing, in "
        f"{count:,} runs: {looked_at(effort)}.",
        "a proof in words; exact enumeration",
    )


def beam(draft: Markov, k: int, depth: int, n: int) -> list[Node]:
    """EAGLE-2: expand the k best of each depth, k children each; then the n best of all, the root with them."""
    layer, pool = [ROOT], [ROOT]
    for _ in range(depth):
        found = [(v * p, d + 1, (*u, t)) for v, d, u in layer for t, p in enumerate(draft(u)) if t < k]
        pool += found
        layer = sorted(found)[:k]
    return sorted(pool)[:n]


@claim("S-BEAM", source=f"{APPENDIX}, beam search, and Figure 3")
def beam_search(effort: int) -> Verdict:
    """Beam search as in EAGLE-2 is suboptimal: it may overlook nodes of higher probability outside its k best a layer.

    A statement that something exists, proved by a case: the smallest one found, checked against the full tree. With k
    of N - 1 and depth N - 1 nothing is overlooked, for then a layer is cut only below N - 1 nodes that are as good.
    """

    def beams() -> Iterator[tuple[Markov, int, int, int]]:
        for n in range(3, 7):
            for k in range(1, n):
                yield from ((Markov(law), k, n - 1, n) for law in laws(2, 3))

    draft, k, depth, n = smallest(beams(), lambda case: worth(beam(*case)) < worth(top(case[0], case[3])))
    wide = {(model, size) for model, _, size, _ in cases(effort)}
    count = every(wide, lambda case: worth(beam(case[0], case[1] - 1, case[1] - 1, case[1])) == worth(top(*case)))
    law = ", ".join(map(str, draft.start))
    grown = SpecExec(n - 1).grow(library_draft(draft)).expected
    assert isclose(grown, worth(top(draft, n)))
    return Verdict(
        "holds",
        f"With the law ({law}) at every node, N = {n} with the root, k = {k} and depth {depth}, its tree is worth "
        f"{worth(beam(draft, k, depth, n))}, the best {worth(top(draft, n))} (spectheory.SpecExec agrees). With "
        f"k = depth = N - 1 it was optimal for {count:,} pairs of a draft and N, from {looked_at(effort)}.",
        "the smallest case by search, in exact arithmetic",
    )
