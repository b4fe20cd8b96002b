"""When drafting one layer more pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, combinations_with_replacement, pairwise, product

from proofs_check.opt_tree.algorithm import cases, falling, gains, over, steps, stop
from proofs_check.small_drafts import Hat, Law, accepted, laws, same_law, select
from proofs_check.verdict import Verdict, claim, every, smallest

Contexts = Sequence[Sequence[Fraction]]
"""The gains of each step in contexts that come in equal parts."""
SIZES = ((1, 2), (1, 3), (2, 2), (2, 3))
"""n and tokens of the drafts that are timed under greedy decoding."""


def fastest(
    gained: Iterable[Fraction], mu: Fraction, speed: Callable[[Fraction], Fraction]
) -> tuple[Fraction, Fraction]:
    """The highest speed of a delta in [mu, 1], and of any: it changes only where delta passes one of the gains."""
    deltas = {Fraction(-1), mu, *gained}
    return max((speed(delta) for delta in deltas if mu <= delta <= 1), default=Fraction(0)), max(map(speed, deltas))


def greedy_drafts(n: int, law: Law) -> tuple[list[Fraction], list[Fraction]]:
    """Gains by p-hat, and tokens after each step where greedy decoding emits the draft's first choice every time."""
    hat = same_law(law, n)
    sure = same_law((Fraction(1), *[Fraction(0)] * (len(law) - 1)), n)
    drafted = steps(n, hat)
    return gains(drafted, n, hat), [1 + accepted(select(nodes, n, hat), sure) for nodes in drafted]


def fastest_greedy(n: int, law: Law, mu: Fraction) -> tuple[Fraction, Fraction]:
    """`fastest` under that target."""
    gained, tokens = greedy_drafts(n, law)

    def speed(delta: Fraction) -> Fraction:
        step = stop(gained, delta)
        return tokens[step - 1] / (1 + mu * step)

    return fastest(gained, mu, speed)


def rate(contexts: Contexts, taken: Sequence[int], mu: Fraction) -> Fraction:
    """Tokens in the time of one decoding step, tokens being accepted at the rate of p-hat."""
    tokens = sum((1 + sum(gained[:step]) for gained, step in zip(contexts, taken, strict=True)), Fraction(0))
    return tokens / sum((1 + mu * step for step in taken), Fraction(0))


def speed_of(contexts: Contexts, mu: Fraction) -> Callable[[Fraction], Fraction]:
    """That rate by delta."""
    return lambda delta: rate(contexts, [stop(gained, delta) for gained in contexts], mu)


def mixtures(parts: int = 5) -> Iterable[tuple[Contexts, Fraction]]:
    """Every pair of contexts with three steps and gains in equal parts that do not rise, and mu in fifths to 6/5."""
    gained = [Fraction(part, parts) for part in range(parts, -1, -1)]
    mixed = combinations_with_replacement(combinations_with_replacement(gained, 3), 2)
    return product(mixed, [Fraction(fifth, 5) for fifth in range(1, 7)])


def timed() -> Iterable[tuple[int, Law, Fraction]]:
    """(n, law, mu) under greedy decoding, in order of size."""
    fifths = [Fraction(fifth, 5) for fifth in range(1, 6)]
    return ((n, law, mu) for n, tokens in SIZES for law in laws(tokens, 5) for mu in fifths)


@claim("O-DELTA", source="OPT-Tree, Section 3, after Algorithm 2")
def threshold(effort: int) -> Verdict:
    """The threshold delta should be controlled between mu and 1.

    Here mu is the time of one drafting step divided by the time of one decoding step. Read: if any delta is faster than
    plain decoding, one between mu and 1 is as fast as any. Speed is tokens, accepted and the target's own, over 1 + mu
    for each drafting step; the target is any, greedy ones included.
    """

    def outside(case: tuple[int, Law, Fraction]) -> bool:
        inside, overall = fastest_greedy(*case)
        return inside < overall > 1

    def repaired(case: tuple[Contexts, Fraction]) -> bool:
        contexts, mu = case
        inside, overall = fastest(chain(*contexts), mu, speed_of(contexts, mu))
        return inside == overall or overall <= 1

    n, law, mu = smallest(timed(), outside)
    inside, overall = fastest_greedy(n, law, mu)
    count = every(cases(effort), lambda case: falling(gains(steps(*case), *case)))
    pairs = every(mixtures(), repaired)
    return Verdict(
        "corrected",
        "It needs p-hat to be the acceptance rate. Gains never rise from step to step and are at most 1 (proved at "
        f"O-STOP; on {count:,} drafts: {over(effort)}). So a delta below mu adds only steps that gain no more than mu, "
        "which cost mu decoding steps and slow a decoding above speed 1; one above 1 stops where 1 does. In "
        f"{pairs:,} mixtures (two contexts, three steps, all gains in fifths, mu up to 6/5) a best delta was between "
        "mu and 1 wherever any delta paid.",
        "a derivation, and enumeration in Fractions",
        {"n": n, "law": law, "mu": mu, "speed_inside": inside, "speed_best": overall},
        "If drafted tokens are accepted at the rate of p-hat, both times are constant, and some delta beats plain "
        "decoding, then a best delta lies between mu and 1.",
    )


def shallower(case: tuple[int, Law, Law, Fraction, Fraction]) -> bool:
    """Whether the larger threshold accepts more tokens; (n, draft, target, thresholds), one law at each node."""
    n, law, target, low, high = case
    few, many = (accepted_at(n, law, target, delta) for delta in (high, low))
    return few > many


def accepted_at(n: int, law: Law, target: Law, delta: Fraction) -> Fraction:
    """Drafted tokens accepted at a threshold."""
    hat = same_law(law, n)
    drafted = steps(n, hat)
    return accepted(select(drafted[stop(gains(drafted, n, hat), delta) - 1], n, hat), same_law(target, n))


@claim("O-DEPTH", source="OPT-Tree, Section 4.4")
def larger_threshold(effort: int) -> Verdict:
    """A threshold that is too large "will reduce the tree's depth, thus reducing the value of A".

    Read for any two thresholds: the larger one never drafts more layers, has no larger E(A), Eq. (3), and no more
    accepted tokens, whatever the target. The paper sees "a slight fluctuation", as "E(A) and A are not completely
    equivalent".
    """
    deltas = [Fraction(quarter, 4) for quarter in range(5)]

    def targets() -> Iterable[tuple[int, Law, Law, Fraction, Fraction]]:
        for n, law in product((1, 2, 3), laws(2, 4)):
            for target in (order for one in laws(2, 4) for order in dict.fromkeys((one, one[::-1]))):
                yield from ((n, law, target, low, high) for low, high in pairwise(deltas))

    def falls(case: tuple[int, Hat]) -> bool:
        gained = gains(steps(*case), *case)
        taken = [stop(gained, delta) for delta in deltas]
        return taken == sorted(taken, reverse=True) and min(gained) >= 0

    n, law, target, low, high = smallest(targets(), shallower)
    count = every(cases(effort), falls)
    return Verdict(
        "corrected",
        "The loop ends at the first gain of at most delta, so a larger delta ends it no later, and E_sub never falls "
        f"with a step (O-3.2): so for thresholds in quarters on {count:,} drafts, {over(effort)}. But the n nodes of a "
        "deeper tree are other ones, and where the target differs from the draft they may be accepted less.",
        "a derivation; counterexample by search; enumeration in Fractions",
        {
            "n": n,
            "draft": law,
            "target": target,
            "thresholds": [low, high],
            "accepted": [accepted_at(n, law, target, delta) for delta in (low, high)],
        },
        "A larger threshold never drafts more layers and never has a larger E(A); so where the target is as the draft "
        "it has no more accepted tokens.",
    )


@claim("O-MU", source="OPT-Tree, Section 4.4")
def not_worth(effort: int) -> Verdict:
    """When a deeper tree raises E(A) by no more than mu, it is not worth increasing the depth.

    Read: a further drafting step whose gain in Eq. (3) is at most mu does not make a draft that beats plain decoding
    faster; speed and target as in O-DELTA.
    """

    def pays(case: tuple[int, Law, Fraction]) -> bool:
        gained, tokens = greedy_drafts(case[0], case[1])
        speeds = [one / (1 + case[2] * step) for step, one in enumerate(tokens, 1)]
        return any(gained[i] <= case[2] and speeds[i] > speeds[i - 1] > 1 for i in range(1, len(gained)))

    def repaired(case: tuple[Contexts, Fraction]) -> bool:
        contexts, mu = case
        best = max(rate(contexts, taken, mu) for taken in product(range(4), repeat=len(contexts)))
        foreseen = [sum(gain > mu * best for gain in gained) for gained in contexts]
        return rate(contexts, foreseen, mu) == best

    n, law, mu = smallest(timed(), pays)
    gained, tokens = greedy_drafts(n, law)
    count = every(mixtures(4 if effort == 1 else 6), repaired)
    return Verdict(
        "corrected",
        "An unsure draft that greedy decoding follows accepts more than p-hat says. Where p-hat is the rate, tokens "
        "a + g over times t + mu exceed a / t exactly if g > mu * a / t. At the largest speed s, tokens - s * times "
        "sum to 0 and to nothing larger for any steps, so that each context by itself takes the steps that gain more "
        f"than s * mu, which come first as gains never rise. So it was against every choice of steps in {count:,} "
        "mixtures (two contexts, up to three steps, gains in equal parts of 1, mu up to 6/5).",
        "a derivation, and enumeration in Fractions of every choice of steps",
        {"n": n, "law": law, "mu": mu, "gains": gained, "tokens": tokens},
        "If drafted tokens are accepted at the rate of p-hat, a further step pays exactly if it gains more than mu "
        "times the speedup s without it, so at s of at least 1 a gain of mu is never enough. The fastest choice of "
        "depths takes in every context the steps that gain more than mu * s, s being the speedup it reaches; Algorithm "
        "1, which sees a gain only after the step, takes one step more.",
    )
