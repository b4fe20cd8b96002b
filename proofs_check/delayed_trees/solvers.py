"""The five node solvers (Section B): what they emit, in general, for a single draft and on a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_printed import (
    KSeq,
    Pair,
    Tokens,
    drafted,
    emission,
    naive,
    nss,
    output,
    over,
    pairs,
    settings,
    spec_infer,
    tournaments,
)
from proofs_check.delayed_trees.walks import excess, normalised, words
from proofs_check.plays import ONE, Pick, flip, runs
from proofs_check.small_drafts import Law

Path = list[tuple[Pair, int]]
"""At each node the distributions (p, q) and the token drafted from q."""
Stop = tuple[int, int]
"""How many drafted tokens are kept, and the token after them."""


@claim("D-OTLP")
def otlp_solvers(effort: int) -> Finding:
    def plays(p: Law, q: Law, k: int) -> Iterator[dict[str, Law]]:
        rules = [nss, naive, spec_infer, KSeq(bracket(p, q, k, 4)[1]), *tournaments(len(p))]
        yield from ({"p": p, "emitted": output(rule, p, q, k)} for rule in rules)

    every_one = [*settings(effort)]
    return Finding(
        {"count": len(every_one), "over": over(effort)},
        cases={"play": (play for setting in every_one for play in plays(*setting))},
    )


@claim("D-K1")
def one_draft(effort: int) -> Finding:
    def plays(p: Law, q: Law, drafts: Tokens) -> Iterator[dict[str, Law]]:
        others = {"emitted_by_Naive": emission(naive, p, q, drafts), "emitted_by_NSS": emission(nss, p, q, drafts)}
        for rule in (KSeq(ONE), spec_infer, *tournaments(len(p))):
            yield {"emitted": emission(rule, p, q, drafts), **others}

    single = [(p, q, drafts) for p, q, k in settings(effort) if k == 1 for drafts, _ in drafted(q, k)]
    p, q, drafts = smallest(single, lambda *case: emission(nss, *case) != emission(naive, *case))
    emitted, token = emission(nss, p, q, drafts), drafts[0]
    return Finding(
        {
            "count": len(single),
            "over": over(effort),
            "p": words(p),
            "q": words(q),
            "token": token,
            "nss_probability": emitted[token],
            "naive_probability": emission(naive, p, q, drafts)[token],
        },
        cases={"play": (play for case in single for play in plays(*case))},
    )


@claim("D-FIRST")
def what_is_looked_at(effort: int) -> Finding:
    def plays(p: Law, q: Law, k: int) -> Iterator[dict[str, Law]]:
        for drafts, _ in drafted(q, k):
            by_naive, by_first = emission(naive, p, q, drafts), emission(naive, p, q, drafts[:1])
            yield {"NSS": emission(nss, p, q, drafts), "p": p, "Naive": by_naive, "Naive_given_X_1_alone": by_first}

    every_one = [*settings(effort)]
    return Finding(
        {"count": len(every_one), "over": over(effort)},
        cases={"draft": (play for setting in every_one for play in plays(*setting))},
    )


def independent_coins(pick: Pick, path: Path, end: Law) -> Stop:
    """Section 3.1: a coin for each node, then the deepest one whose ancestors are all accepted, then the residual."""
    accepted = [flip(pick, p[token] / q[token]) for (p, q), token in path]
    kept = accepted.index(False) if False in accepted else len(path)
    if kept == len(path):
        return kept, pick(end)
    return kept, pick(normalised(excess(*path[kept][0])))


def top_down(pick: Pick, path: Path, end: Law) -> Stop:
    """Section 3.2: Algorithm 2 at each node, on to the child that it emits, until there is none."""
    for depth, ((p, q), child) in enumerate(path):
        token = naive(pick, p, q, (child,))
        if token != child:
            return depth, token
    return len(path), pick(end)


def stops(rule: Callable[[Pick, Path, Law], Stop], path: Path) -> dict[Stop, Fraction]:
    """The distribution of (kept tokens, next token) given the drafted path, by playing every coin."""
    tokens = len(path[0][0][0])
    end = tuple(Fraction(2 * t + 1, tokens**2) for t in range(tokens))
    return runs(lambda pick: rule(pick, path, end))


@claim("D-NAIVE-OT")
def independent_acceptance(effort: int) -> Finding:
    shapes = ((1, 2, 5), (1, 3, 3), (2, 2, 3), (3, 2, 2))
    if effort > 1:
        shapes = ((1, 4, 3), (2, 2, 4), (2, 3, 2), (3, 2, 3))

    def paths() -> Iterator[Path]:
        for length, tokens, largest in shapes:
            nodes = [((p, q), t) for p, q in pairs(tokens, largest) for t in range(tokens) if q[t]]
            yield from map(list, product(nodes, repeat=length))

    every_one = [*paths()]
    covered = ", ".join(f"{length} of {tokens} tokens up to {largest}" for length, tokens, largest in shapes)
    return Finding(
        {"count": len(every_one), "covered": covered},
        cases={"path": ({"by_coins": stops(independent_coins, x), "top_down": stops(top_down, x)} for x in every_one)},
    )
