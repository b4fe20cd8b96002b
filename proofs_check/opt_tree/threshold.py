"""When one more drafted layer pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, combinations_with_replacement, pairwise, product

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, falling, gains, shown_grids, steps, stop
from proofs_check.small_drafts import Hat, Law, accepted, laws, same_law, select

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


@claim("O-DELTA")
def threshold(effort: int) -> Finding:
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
    return Finding(
        "corrected",
        {"count": count, "grids": shown_grids(effort), "pairs": pairs},
        {"n": n, "law": law, "mu": mu, "speed_inside": inside, "speed_best": overall},
    )


def shallower(case: tuple[int, Law, Law, Fraction, Fraction]) -> bool:
    """Whether the larger threshold accepts more tokens; (n, draft, target, thresholds), one distribution."""
    n, law, target, low, high = case
    few, many = (accepted_at(n, law, target, delta) for delta in (high, low))
    return few > many


def accepted_at(n: int, law: Law, target: Law, delta: Fraction) -> Fraction:
    """Drafted tokens accepted at a threshold."""
    hat = same_law(law, n)
    drafted = steps(n, hat)
    return accepted(select(drafted[stop(gains(drafted, n, hat), delta) - 1], n, hat), same_law(target, n))


@claim("O-DEPTH")
def larger_threshold(effort: int) -> Finding:
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
    return Finding(
        "corrected",
        {"count": count, "grids": shown_grids(effort)},
        {
            "n": n,
            "draft": law,
            "target": target,
            "thresholds": [low, high],
            "accepted": [accepted_at(n, law, target, delta) for delta in (low, high)],
        },
    )


@claim("O-MU")
def not_worth(effort: int) -> Finding:
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
    return Finding("corrected", {"count": count}, {"n": n, "law": law, "mu": mu, "gains": gained, "tokens": tokens})
