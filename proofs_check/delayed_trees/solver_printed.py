"""Algorithms 1 to 5 as the paper prints them. All their random outcomes are enumerated in rational arithmetic.

To compare a uniform number with a ratio is to draw an event of that probability, since U = 0 has probability 0. Where a
printed step divides 0 by 0, the branch has probability 0, and the quotient is set to 0. Tokens are numbered from 0 in
descending order of q, without loss of generality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, permutations, product
from math import prod

from proofs_check.delayed_trees.library import array
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ONE, ZERO, Pick, flip, runs
from proofs_check.small_drafts import Law, laws, total
from spectheory.otlp import Solver

Tokens = tuple[int, ...]
Pair = tuple[Law, Law]
Setting = tuple[Law, Law, int]
Procedure = Callable[[Pick, Law, Law, Tokens], int]
"""Draws the emitted token from (pick, p, q, drafts)."""
Rule = Procedure | Solver
"""A printed algorithm, or a solver of spectheory."""


def parts(*weights: int) -> Law:
    """The distribution with these weights."""
    return normalised([Fraction(weight) for weight in weights])


THIRDS: Pair = parts(1, 2), parts(2, 1)
GRIDS = (((1, 1, 3), (2, 4, 3), (3, 3, 2)), ((1, 1, 4), (2, 6, 3), (2, 3, 4), (3, 4, 2), (3, 3, 3), (4, 2, 2)))
"""By effort: tokens, largest common denominator of a distribution, and maximum number of drafts."""


def over(effort: int) -> str:
    """What `settings(effort)` covers, in words."""
    return "; ".join(
        f"V = {tokens}, denominators up to {largest}, k up to {most}" for tokens, largest, most in GRIDS[effort - 1]
    )


def pairs(tokens: int, largest: int) -> Iterator[Pair]:
    """Every (p, q) on `tokens` tokens with denominators up to `largest`; q is non-increasing, p is in every order."""
    for p, q in product(laws(tokens, largest), repeat=2):
        yield from ((order, q) for order in dict.fromkeys(permutations(p)))


def settings(effort: int) -> Iterator[Setting]:
    """(p, q, k), small ones first."""
    for tokens, largest, most in GRIDS[effort - 1]:
        yield from ((p, q, k) for k in range(1, most + 1) for p, q in pairs(tokens, largest))


def drafted(q: Law, k: int) -> Iterator[tuple[Tokens, Fraction]]:
    """All possible k independent draws from q, each with its probability."""
    for drafts in product([token for token, chance in enumerate(q) if chance], repeat=k):
        yield drafts, prod((q[token] for token in drafts), start=ONE)


def smaller(p: Sequence[Fraction], q: Sequence[Fraction], rho: Fraction = ONE) -> Law:
    """min(p / rho, q)."""
    return tuple(min(a / rho, b) for a, b in zip(p, q, strict=True))


def nss(pick: Pick, p: Law, q: Law, drafts: Tokens) -> int:
    """Algorithm 1."""
    return pick(p)


def naive(pick: Pick, p: Law, q: Law, drafts: Tokens) -> int:
    """Algorithm 2."""
    if flip(pick, p[drafts[0]] / q[drafts[0]]):
        return drafts[0]
    return pick(normalised(excess(p, q)))


@dataclass(frozen=True)
class KSeq:
    """Algorithm 3 with `rho` in place of the root."""

    rho: Fraction

    def __call__(self, pick: Pick, p: Law, q: Law, drafts: Tokens) -> int:
        """The emitted token."""
        for token in drafts:
            if flip(pick, p[token] / q[token] / self.rho):
                return token
        return pick(normalised(excess(p, self.placed(p, q, len(drafts)))))

    def placed(self, p: Law, q: Law, k: int) -> Law:
        """The probability that a try emits each token: gamma min(p / rho, q)."""
        beta = sum(smaller(p, q, self.rho), ZERO)
        gamma = (1 - (1 - beta) ** k) / beta if beta else ZERO
        return tuple(gamma * mass for mass in smaller(p, q, self.rho))


def spec_infer(pick: Pick, p: Law, q: Law, drafts: Tokens) -> int:
    """Algorithm 4."""
    left = list(drafts)
    while left:
        token = left.pop(pick([Fraction(1, len(left))] * len(left)))
        if flip(pick, p[token] / q[token]):
            return token
        p = normalised(excess(p, q))
    return pick(p)


@dataclass(frozen=True)
class Tournament:
    """Algorithm 5 with the tournament given: the first two drafts meet, then the winner and the next one, and so on.

    `wins[i][j]` is the chance that token i beats token j, the other has the rest; r is the distribution of the last
    winner. The paper takes the chances from a linear program, which nothing below needs.
    """

    wins: tuple[Law, ...]

    def __call__(self, pick: Pick, p: Law, q: Law, drafts: Tokens) -> int:
        """The emitted token."""
        winner = drafts[0]
        for token in drafts[1:]:
            winner = winner if flip(pick, self.wins[winner][token]) else token
        return naive(pick, p, self.winner_law(q, len(drafts)), (winner,))

    def winner_law(self, q: Law, k: int) -> Law:
        """The distribution r of the last winner of k drafts."""
        return _winners(self, q, k)

    def selected(self, drafts: Tokens, tokens: int) -> Law:
        """The chance of each token to be the last winner, pi of Algorithm 15."""
        winner = [ZERO] * tokens
        winner[drafts[0]] = ONE
        for token in drafts[1:]:
            kept = [won * self.wins[held][token] for held, won in enumerate(winner)]
            kept[token] += 1 - sum(kept, ZERO)
            winner = kept
        return tuple(winner)


@cache
def _winners(rule: Tournament, q: Law, k: int) -> Law:
    found = [[chance * won for won in rule.selected(drafts, len(q))] for drafts, chance in drafted(q, k)]
    return tuple(sum(column, ZERO) for column in zip(*found, strict=True))


RULES = {"NSS": nss, "NaiveTree": naive, "SpecInfer": spec_infer}
"""The printed algorithms that have no parameter."""


def by_order(order: Sequence[int]) -> Tournament:
    """The tournament that the earlier token in `order` always wins."""
    place = {token: at for at, token in enumerate(order)}
    return Tournament(tuple(tuple(Fraction(place[i] <= place[j]) for j in sorted(place)) for i in sorted(place)))


def untuned(p: Law, q: Law) -> Tournament:
    """The tournament of two drafts with every weight fixed, truncation 1: the highest p - q^2 wins, ties to the first.

    Source: arXiv 2410.18234, Section 4: weights are 1 but within the truncated set, which has no pair of one token.
    """
    return by_order(sorted(range(len(p)), key=lambda token: (q[token] ** 2 - p[token], token)))


def tournaments(tokens: int) -> list[Tournament]:
    """One tournament for each order of the tokens, and one that fair coins decide."""
    coins = tuple(tuple(ONE if i == j else Fraction(1, 2) for j in range(tokens)) for i in range(tokens))
    return [*map(by_order, permutations(range(tokens))), Tournament(coins)]


@cache
def emission(rule: Rule, p: Law, q: Law, drafts: Tokens) -> Law:
    """The distribution of the emitted token given the drafts: by playing every coin, or by spectheory."""
    if isinstance(rule, Solver):
        return tuple(rule.distribution(array(p), array(q), drafts))
    emitted = runs(lambda pick: rule(pick, p, q, drafts))
    return tuple(emitted.get(token, ZERO) for token in range(len(p)))


@cache
def plays(rule: Rule, p: Law, q: Law, k: int) -> list[tuple[Tokens, Fraction, Law]]:
    """All possible k drafts, each with its probability and the distribution of the token emitted given it."""
    return [(drafts, chance, emission(rule, p, q, drafts)) for drafts, chance in drafted(q, k)]


def output(rule: Rule, p: Law, q: Law, k: int) -> Law:
    """The distribution of the emitted token over all drafts: p where the rule is an OTLP solver (Definition 3.2)."""
    found = [[chance * mass for mass in emitted] for _, chance, emitted in plays(rule, p, q, k)]
    return tuple(sum(column, ZERO) for column in zip(*found, strict=True))


def acceptance(rule: Rule, p: Law, q: Law, k: int) -> Fraction:
    """Definition 5.1, over all drafts and coins."""
    found = plays(rule, p, q, k)
    return total(chance * total(emitted[token] for token in set(drafts)) for drafts, chance, emitted in found)


def profile(rule: Rule, p: Law, q: Law, k: int, most: int) -> dict[tuple[int, int], Fraction]:
    """By (t, m) the probability that t is emitted and at least m of the k drafts are t, for m up to `most`."""
    found = dict.fromkeys(product(range(len(p)), range(1, most + 1)), ZERO)
    for drafts, chance, emitted in plays(rule, p, q, k):
        for token in set(drafts):
            both = chance * emitted[token]
            for count in range(1, drafts.count(token) + 1):
                found[token, count] += both
    return found


def factors(p: Law, q: Law, k: int) -> list[Fraction]:
    """Factors in [1, k] to try: the ends, where min(p / rho, q) bends, and half way between these."""
    bends = {Fraction(1), Fraction(k), *(a / b for a, b in zip(p, q, strict=True) if b and 1 < a / b < k)}
    return sorted(bends | {(low + high) / 2 for low, high in pairwise(sorted(bends))})
