"""The five node solvers (Section B): what they emit, and what becomes of them for one draft and on a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_printed import (
    KSeq,
    Pair,
    Setting,
    Tokens,
    drafted,
    law,
    naive,
    nss,
    output,
    over,
    pairs,
    settings,
    spec_infer,
    tournaments,
)
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ONE, Pick, flip, runs
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, smallest

Path = list[tuple[Pair, int]]
"""At each node the laws (p, q) and the token drafted from q."""
Stop = tuple[int, int]
"""How many drafted tokens are kept, and the token after them."""


@claim("D-OTLP", source="Delayed tree expansion, Section B, Algorithms 1 to 5")
def otlp_solvers(effort: int) -> Verdict:
    """NSS, Naive, SpecTr, SpecInfer and Khisti (Algorithms 1 to 5) are OTLP solvers (Definition 3.2): for independent
    drafts from q the emitted token has law p, for all p, q and k >= 1.

    SpecTr with a factor between the root and k (D-RHO-VALID). Khisti with any tournament, r being the winner's law: the
    text leaves both to its source.
    """

    def lossless(case: Setting) -> bool:
        p, q, k = case
        rules = [nss, naive, spec_infer, KSeq(bracket(p, q, k, 4)[1]), *tournaments(len(p))]
        return all(output(rule, p, q, k) == p for rule in rules)

    count = every(settings(effort), lossless)
    return Verdict(
        "holds",
        "1: Y does not look at the drafts. 2: min(p, q) is accepted, and the residual has law and mass of (p - q)+. 4: "
        "the same in each round with the p of that round, since the drafts are independent and picked without looking. "
        "5: the winner is a draw from r, so it is 2 with r for q. 3: see D-RHO-VALID. Each was played over every draft "
        f"and coin in {count:,} settings ({over(effort)}), 5 with every order of the tokens and with fair coins.",
        "a derivation, and enumeration in Fractions",
    )


@claim("D-K1", source="Delayed tree expansion, footnote 2, B.3 and B.4")
def one_draft(effort: int) -> Verdict:
    """For one draft (K = 1, or a node with one child) SpecTr, SpecInfer and Khisti emit as Naive does, given the draft;
    NSS does not.

    Read as: the same law of the emitted token given the draft, for all p and q; and for NSS another one for some.
    """

    def same(case: tuple[Pair, Tokens]) -> bool:
        (p, q), drafts = case
        rules = [KSeq(ONE), spec_infer, *tournaments(len(p))]
        return all(law(rule, p, q, drafts) == law(naive, p, q, drafts) for rule in rules)

    def single() -> Iterator[tuple[Pair, Tokens]]:
        return (((p, q), drafts) for p, q, k in settings(effort) if k == 1 for drafts, _ in drafted(q, k))

    count = every(single(), same)
    (p, q), drafts = smallest(single(), lambda case: law(nss, *case[0], case[1]) != law(naive, *case[0], case[1]))
    emitted, token = law(nss, p, q, drafts), drafts[0]
    return Verdict(
        "holds",
        "SpecTr searches [1, 1], so rho* = 1, p_acc = beta, gamma = 1, and p - min(p, q) = (p - q)+. SpecInfer has one "
        "round and then (p - q)+. Khisti has one draft to select, so r = q. All of them were played for "
        f"{count:,} drafts ({over(effort)}). NSS with p = {_shown(p)}, q = {_shown(q)} and the draft {token} emits it "
        f"with probability {emitted[token]}, Naive with {law(naive, p, q, drafts)[token]}.",
        "a derivation, and enumeration in Fractions",
    )


@claim("D-FIRST", source="Delayed tree expansion, B.2")
def what_is_looked_at(effort: int) -> Verdict:
    """The output of NSS is independent of all draft tokens, that of Naive of all but the first.

    Read as: its law given the drafts is the same for all drafts, or for all that begin alike.
    """

    def same(case: Setting) -> bool:
        p, q, k = case
        every_draft = [drafts for drafts, _ in drafted(q, k)]
        return all(
            law(nss, p, q, drafts) == p and law(naive, p, q, drafts) == law(naive, p, q, drafts[:1])
            for drafts in every_draft
        )

    count = every(settings(effort), same)
    return Verdict(
        "holds",
        "Algorithm 1 reads no draft and Algorithm 2 reads X_1 alone; both played over every coin for all drafts of "
        f"{count:,} settings ({over(effort)}).",
        "by inspection, and enumeration in Fractions",
    )


def _shown(law: Law) -> str:
    return f"({', '.join(map(str, law))})"


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
    """The law of (kept tokens, next token) given the drafted path, by playing every coin."""
    tokens = len(path[0][0][0])
    end = tuple(Fraction(2 * t + 1, tokens**2) for t in range(tokens))
    return runs(lambda pick: rule(pick, path, end))


@claim("D-NAIVE-OT", source="Delayed tree expansion, B.2")
def independent_acceptance(effort: int) -> Verdict:
    """On a path, accepting nodes independently and taking the deepest whose ancestors are all accepted, then drawing
    from the residual (p where no node is left), is the same as top-down traversal with the Naive solver.

    Read as: given the path, the same joint law of the number of accepted tokens and the token after them.
    """
    shapes = ((1, 2, 5), (1, 3, 3), (2, 2, 3), (3, 2, 2))
    if effort > 1:
        shapes = ((1, 4, 3), (2, 2, 4), (2, 3, 2), (3, 2, 3))

    def paths() -> Iterator[Path]:
        for length, tokens, largest in shapes:
            nodes = [((p, q), t) for p, q in pairs(tokens, largest) for t in range(tokens) if q[t]]
            yield from map(list, product(nodes, repeat=length))

    count = every(paths(), lambda path: stops(independent_coins, path) == stops(top_down, path))
    covered = ", ".join(f"{length} of {tokens} tokens up to {largest}" for length, tokens, largest in shapes)
    return Verdict(
        "holds",
        "The coins behind the first rejection do not matter, and those before it are the solver's own. The solver "
        "leaves the path exactly at a rejection: its residual never emits the rejected child, since a child is "
        "rejected only where p < q, and there (p - q)+ is 0. Both were played over every coin on "
        f"{count:,} paths: every pair of laws at each node, lengths and denominators {covered}.",
        "a derivation, and enumeration in Fractions",
    )
