"""When drafting one more layer makes decoding faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, combinations_with_replacement, pairwise, product
from typing import Any

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.optimum import cases, gains, shown_grids, steps, stop
from proofs_check.sentences import falling
from proofs_check.small_drafts import Hat, Law, accepted, laws, same_law, select

Contexts = Sequence[Sequence[Fraction]]
"""The gains of each step in contexts that come in equal parts."""
SIZES = ((1, 2), (1, 3), (2, 2), (2, 3))
"""n and tokens of the drafts that are timed under greedy decoding."""


def fastest(
    gained: Iterable[Fraction], mu: Fraction, speed: Callable[[Fraction], Fraction]
) -> tuple[Fraction, Fraction]:
    """The highest speed over delta in [mu, 1], and over every delta: speed changes only where delta passes a gain."""
    speeds = {delta: speed(delta) for delta in {Fraction(-1), mu, *gained}}
    return max((one for delta, one in speeds.items() if mu <= delta <= 1), default=Fraction(0)), max(speeds.values())


def greedy_drafts(n: int, law: Law) -> tuple[list[Fraction], list[Fraction]]:
    """Gains by p-hat, and tokens per cycle after each step if greedy decoding always emits the draft's first choice."""
    hat = same_law(law, n)
    sure = same_law((Fraction(1), *[Fraction(0)] * (len(law) - 1)), n)
    drafted = steps(n, hat)
    return gains(drafted, n, hat), [1 + accepted(select(nodes, n, hat), sure) for nodes in drafted]


def fastest_greedy(n: int, law: Law, mu: Fraction) -> tuple[Fraction, Fraction]:
    """`fastest` under the greedy target of `greedy_drafts`."""
    gained, tokens = greedy_drafts(n, law)

    def speed(delta: Fraction) -> Fraction:
        step = stop(gained, delta)
        return tokens[step - 1] / (1 + mu * step)

    return fastest(gained, mu, speed)


def rate(contexts: Contexts, taken: Sequence[int], mu: Fraction) -> Fraction:
    """Tokens in the time of one decoding step, tokens being accepted at the rate of p-hat."""
    tokens = sum((_tokens(gained, step) for gained, step in zip(contexts, taken, strict=True)), Fraction(0))
    return tokens / (len(taken) + mu * sum(taken))


@cache
def _tokens(gained: Sequence[Fraction], steps: int) -> Fraction:
    return 1 + sum(gained[:steps], Fraction(0))


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
    def outside(n: int, law: Law, mu: Fraction) -> bool:
        inside, overall = fastest_greedy(n, law, mu)
        return inside < overall > 1

    def values(contexts: Contexts, mu: Fraction) -> dict[str, Fraction]:
        def speed(delta: Fraction) -> Fraction:
            return rate(contexts, [stop(gained, delta) for gained in contexts], mu)

        inside, overall = fastest(chain(*contexts), mu, speed)
        return {"best_from_mu_to_1": inside, "best": overall}

    def greedy(n: int, law: Law, mu: Fraction) -> dict[str, Fraction]:
        return dict(zip(("best_from_mu_to_1", "best"), fastest_greedy(n, law, mu), strict=True))

    n, law, mu = smallest(timed(), outside)
    inside, overall = fastest_greedy(n, law, mu)
    count = every(cases(effort), lambda n, hat: falling([Fraction(1), *gains(steps(n, hat), n, hat)]))
    mixed = [*mixtures()]
    return Finding(
        {"count": count, "grids": shown_grids(effort), "pairs": len(mixed)},
        {"n": n, "law": law, "mu": mu, "speed_inside": inside, "speed_best": overall},
        cases={
            "greedy_target": (greedy(*one) for one in timed()),
            "mixture": (values(*one) for one in mixed),
        },
    )


def accepted_at(n: int, law: Law, target: Law, delta: Fraction) -> Fraction:
    """Drafted tokens accepted at a threshold."""
    hat = same_law(law, n)
    drafted = steps(n, hat)
    return accepted(select(drafted[stop(gains(drafted, n, hat), delta) - 1], n, hat), same_law(target, n))


@claim("O-DEPTH")
def larger_threshold(effort: int) -> Finding:
    deltas = [Fraction(quarter, 4) for quarter in range(5)]

    orders = [order for one in laws(2, 4) for order in dict.fromkeys((one, one[::-1]))]
    targets = [(*case, *both) for case, both in product(product((1, 2, 3), laws(2, 4), orders), pairwise(deltas))]

    def shallower(n: int, law: Law, target: Law, low: Fraction, high: Fraction) -> bool:
        return accepted_at(n, law, target, high) > accepted_at(n, law, target, low)

    def values(n: int, hat: Hat) -> dict[str, Any]:
        gained = gains(steps(n, hat), n, hat)
        taken = [stop(gained, delta) for delta in deltas]
        return {"layers": taken, "E_A": [sum(gained[:step], Fraction(0)) for step in taken]}

    def compared(n: int, law: Law, target: Law, low: Fraction, high: Fraction) -> dict[str, Any]:
        accepted_by = {name: accepted_at(n, law, target, delta) for name, delta in (("low", low), ("high", high))}
        return {f"accepted_with_{name}_delta": one for name, one in accepted_by.items()} | {
            "draft": law,
            "target": target,
        }

    n, law, target, low, high = smallest(targets, shallower)
    every_one = [*cases(effort)]
    own = ((n, law, law, *both) for n, law, both in product((1, 2, 3), laws(2, 4), pairwise(deltas)))
    return Finding(
        {"count": len(every_one), "grids": shown_grids(effort)},
        {
            "n": n,
            "draft": law,
            "target": target,
            "thresholds": [low, high],
            "accepted": [accepted_at(n, law, target, delta) for delta in (low, high)],
        },
        cases={
            "draft": (values(*one) for one in every_one),
            "target": (compared(*one) for one in targets),
            "target_equal_to_the_draft": (compared(*one) for one in own),
        },
    )


@claim("O-MU")
def not_worth(effort: int) -> Finding:
    def pays(n: int, law: Law, mu: Fraction) -> bool:
        gained, tokens = greedy_drafts(n, law)
        speeds = [one / (1 + mu * step) for step, one in enumerate(tokens, 1)]
        return any(gained[i] <= mu and speeds[i] > speeds[i - 1] > 1 for i in range(1, len(gained)))

    def values(contexts: Contexts, mu: Fraction) -> dict[str, Any]:
        best = max(rate(contexts, taken, mu) for taken in product(range(4), repeat=len(contexts)))
        foreseen = [sum(gain > mu * best for gain in gained) for gained in contexts]
        return {"by_rule": rate(contexts, foreseen, mu), "best": best}

    def further(n: int, law: Law, mu: Fraction, own: bool) -> Iterator[dict[str, Any]]:
        gained, tokens = greedy_drafts(n, law)
        if own:
            tokens = [1 + sum(gained[: step + 1], Fraction(0)) for step in range(len(gained))]
        speeds = [one / (1 + mu * step) for step, one in enumerate(tokens, 1)]
        for i in range(1, len(gained)):
            yield {"gain": gained[i], "mu": mu, "speed": speeds[i - 1], "speed_with_the_step": speeds[i]}

    n, law, mu = smallest(timed(), pays)
    gained, tokens = greedy_drafts(n, law)
    mixed = [*mixtures(4 if effort == 1 else 6)]
    return Finding(
        {"count": len(mixed)},
        {"n": n, "law": law, "mu": mu, "gains": gained, "tokens": tokens},
        cases={
            "step": (step for one in timed() for step in further(*one, own=False)),
            "step_where_target_is_draft": (step for one in timed() for step in further(*one, own=True)),
            "mixture": (values(*one) for one in mixed),
        },
    )
