"""Pruning a draft once its tokens are known, and verifying the rest as if it had been drawn like that."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees import walks
from proofs_check.delayed_trees.library import array
from proofs_check.plays import ONE, ZERO, Pick, runs
from proofs_check.small_drafts import Law

HALF = Fraction(1, 2)
LEANING = (Fraction(3, 4), Fraction(1, 4))
"""A draft whose second token is below a threshold of 1/2."""


def pruned(rule: printed.Procedure, p: Law, q: Law, cut: Fraction, *, after: bool) -> Law:
    """The distribution of the token at a node with one draft, which is dropped where its probability is below `cut`.

    With `after` the probability of the drawn token decides, else the largest probability of q, before the draw.
    """

    def program(pick: Pick) -> int:
        token = pick(q)
        keep = (q[token] if after else max(q)) >= cut
        return rule(pick, p, q, (token,)) if keep else pick(p)

    found = runs(program)
    return tuple(found.get(token, ZERO) for token in range(len(p)))


def settings(largest: int) -> Iterator[tuple[Law, Law, Fraction]]:
    """(p, q, threshold): two and three tokens, thresholds at and between the probabilities of q, simplest first."""
    for size in (2, 3):
        for p, q in product(walks.all_laws(size, largest), repeat=2):
            levels = sorted({*q, ONE})
            yield from ((p, q, (low + high) / 2) for low, high in zip([ZERO, *levels], levels, strict=False))


@claim("D-PRUNE")
def pruned_drafts(effort: int) -> Finding:
    """Proof: a decision made before the draw selects between two lossless rules. A decision made after the draw mixes
    f(p, q, x) for the tokens x that stay with p for the others, and p is not what f emits given those others.
    """
    cases = [*settings(2 + effort)]
    p, q, cut = smallest(cases, lambda p, q, cut: pruned(printed.naive, p, q, cut, after=True) != p)

    def values(p: Law, q: Law, cut: Fraction) -> Iterator[dict[str, Any]]:
        for name, rule in (("Naive", printed.naive), ("SpecInfer", printed.spec_infer), ("NSS", printed.nss)):
            seen, unseen = (pruned(rule, p, q, cut, after=after) for after in (True, False))
            yield {
                "rule": name,
                "p": p,
                "emitted_if_the_drawn_token_decides": seen,
                "emitted_if_q_alone_decides": unseen,
            }

    even = (HALF, HALF)
    return Finding(
        {"count": len(cases), "lossy": walks.words(pruned(printed.naive, even, LEANING, HALF, after=True))},
        {"p": p, "q": q, "threshold": cut, "emitted": pruned(printed.naive, p, q, cut, after=True)}
        | {"leaning": {"p": even, "q": LEANING, "threshold": HALF}}
        | {"leaning_emitted": pruned(printed.naive, even, LEANING, HALF, after=True)},
        cases={"setting": (play for case in cases for play in values(*case))},
    )


@second("D-PRUNE")
def pruned_drafts_again(case: Case) -> None:
    """Second check: average the distributions of the library's solvers over the drafts."""
    for one, emitted in ((case, case["emitted"]), (case["leaning"], case["leaning_emitted"])):
        p, q, cut = one["p"], one["q"], one["threshold"]
        for solver in (st.otlp.Naive(), st.otlp.SpecInfer(), st.otlp.SpecTr()):
            mixed = [ZERO] * len(p)
            for token, chance in enumerate(q):
                kept = solver.distribution(array(p), array(q), [token]) if chance >= cut else p
                mixed = [so_far + chance * x for so_far, x in zip(mixed, kept, strict=True)]
            assert tuple(mixed) == emitted != p
    assert case["leaning_emitted"] == (Fraction(5, 8), Fraction(3, 8))
