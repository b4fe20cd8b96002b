"""What a selector of trees can gain over NSS, on texts and in Tables 2, 6 and 9, and from many unbiased estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import comb, prod
from operator import mul
from typing import Any

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees.library import tokens_per_call
from proofs_check.delayed_trees.tables import BY_DATASET, MODELS, assert_averages, row
from proofs_check.delayed_trees.walks import DelayedShape, worlds
from proofs_check.plays import ONE, ZERO
from proofs_check.printed import ROUNDED, decimals

Text = tuple[Fraction, ...]
"""The draft's probability of each token of the target's text."""
GEMMA = MODELS.index("Gemma")


def holds_next(text: Text, start: int, shape: DelayedShape) -> list[Fraction]:
    """The probabilities that the tree has the next 1, 2, ... tokens of the text from `start`, and so NSS keeps them."""
    paths, trunk, length = shape
    ahead = text[start : start + trunk + length]
    stems: Iterator[Fraction] = accumulate((chance if at < trunk else ONE for at, chance in enumerate(ahead)), mul)
    rests: Iterator[Fraction] = accumulate((ONE if at < trunk else chance for at, chance in enumerate(ahead)), mul)
    return [stem * (1 - (1 - rest) ** paths) for stem, rest in zip(stems, rests, strict=True)]


def after_calls(text: Text, shapes: Sequence[DelayedShape]) -> list[Fraction]:
    """The distribution of tokens emitted after one call with each shape; a call emits one token after those kept."""
    end = len(text)
    now = [ONE] + [ZERO] * end
    for shape in shapes:
        later = [ZERO] * (end + 1)
        for start, weight in ((start, weight) for start, weight in enumerate(now) if weight):
            chances = [ONE, *holds_next(text, start, shape), ZERO]
            for kept, (more, next_more) in enumerate(pairwise(chances)):
                later[min(start + kept + 1, end)] += weight * (more - next_more)
        now = later
    return now


def behind(one: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Whether a position with distribution `one` is stochastically no later than one with distribution `other`."""
    return all(sum(one[at:]) <= sum(other[at:]) for at in range(len(one)))


def texts(tokens: int) -> Iterator[Text]:
    """Every text of `tokens` tokens whose probabilities are 0, 1/3, 1/2 or 1."""
    yield from product((ZERO, Fraction(1, 3), Fraction(1, 2), ONE), repeat=tokens)


def kept_from_the_start(text: Text, most: int, length: int) -> dict[str, Fraction]:
    """The tokens that `most` rollouts of `length` keep from the start, and the most that an action keeps."""
    actions = product(range(1, most + 1), range(length + 1), range(length + 1))
    best = max(sum(holds_next(text, 0, shape), ZERO) for shape in actions)
    return {"kept_by_rollouts": sum(holds_next(text, 0, (most, 0, length)), ZERO), "kept_by_an_action": best}


def two_for_one(text: Text, most: int, length: int, calls: int) -> bool:
    """Whether `calls` calls with the largest action are never ahead of twice as many calls with the rollouts."""
    return behind(
        after_calls(text, [(most, 0, 2 * length)] * calls), after_calls(text, [(most, 0, length)] * (2 * calls))
    )


@claim("D-NSS-TAB")
def selector_gain(effort: int) -> Finding:
    size = 3 + effort
    starts = [*product(texts(size), (1, 2), (1, 2))]
    chains = [*product(texts(size), (1, 2), (1, 2), (1, 2))]
    static, chosen = row(2, "NSS")[GEMMA], row(6, "NSS")[GEMMA]
    same_starts = 2 * static - 1
    datasets = [name for name in BY_DATASET.columns if "Gemma" in name]
    cells = zip(row(9, "NSS", "Gemma"), row(9, "NSS NDE", "Gemma"), datasets, strict=True)
    broken = {name: [old, new] for old, new, name in cells if new - ROUNDED > 2 * (old + ROUNDED)}
    if chosen - ROUNDED <= same_starts + 2 * ROUNDED or not broken:
        raise ArithmeticError("the tables do not contradict the bounds")
    text: Text = (ONE, ONE, ZERO) * 4
    return Finding(
        {
            "chosen": decimals(chosen),
            "static": decimals(static),
            "same_starts": decimals(same_starts),
            "broken": "; ".join(f"{name} {decimals(old)} to {decimals(new)}" for name, (old, new) in broken.items()),
            "starts": len(starts),
            "chains": len(chains),
            "size": size,
            "short": calls_for(text, (1, 0, 1)),
            "long": calls_for(text, (1, 0, 2)),
        },
        {"table_9_gemma": {name: [*map(decimals, pair)] for name, pair in broken.items()}}
        | {
            "table_2": decimals(static),
            "table_6": decimals(chosen),
            "bound_from_the_same_starts": decimals(same_starts),
        },
        cases={
            "row": [{"without": static, "chosen": chosen}],
            "cell": ({"without": old, "chosen": new} for old, new in broken.values()),
            "start": (kept_from_the_start(*one) for one in starts),
            "text": ({"never_ahead": two_for_one(*one)} for one in chains),
        },
    )


def calls_for(text: Text, shape: DelayedShape) -> int:
    """Calls until the whole text is emitted with certainty."""
    calls = 1
    while after_calls(text, [shape] * calls)[-1] < 1:
        calls += 1
    return calls


@second("D-NSS-TAB")
def selector_gain_again(case: Case) -> None:
    """Second check: the averages of both rows, and the library's values of NSS over all trees."""
    assert_averages("NSS")
    assert_averages("NSS", " NDE", (7, 6))
    assert Fraction(case["table_6"]) > Fraction(case["bound_from_the_same_starts"])
    assert Fraction(case["bound_from_the_same_starts"]) == 1 + 2 * (Fraction(case["table_2"]) - 1)
    assert all(Fraction(new) > 2 * Fraction(old) for old, new in case["table_9_gemma"].values())
    for world in worlds(2, 2, 3)[::40]:
        kept = {s: tokens_per_call(st.otlp.NSS(), world.library(), *s) - 1 for s in ((2, 0, 1), (2, 0, 2), (2, 1, 1))}
        assert max(kept.values()) == kept[2, 0, 2] <= 2 * kept[2, 0, 1]


ACTIONS, SHAPES = 324, 233
"""The actions of Eq. (8), and the different trees among them (D-EQ4)."""
TREES = (1, 4, 16)
"""Drafted trees for each estimate."""
HALF = Fraction(1, 2)
Estimate = dict[Fraction, Fraction]
"""The distribution of an estimate."""


def estimate(rate: Fraction, trees: int) -> Estimate:
    """The mean tokens over `trees` trees, each of which gives 2 tokens with probability `rate`, else 1."""
    return {
        1 + Fraction(k, trees): comb(trees, k) * rate**k * (1 - rate) ** (trees - k)
        for k in range(trees + 1)
        if 0 < rate < 1 or k == rate * trees
    }


def largest(one: Estimate, count: int) -> Fraction:
    """The mean of the largest of `count` independent estimates with this distribution."""
    total, below, before = ZERO, ZERO, ZERO
    for value in sorted(one):
        below += one[value]
        total += value * (below**count - before)
        before = below**count
    return total


def chosen(rates: Sequence[Fraction], trees: int) -> tuple[Fraction, Fraction]:
    """Mean of the largest estimate, and of the true value of the action that has it, the first among equals."""
    found = [estimate(rate, trees) for rate in rates]
    claimed = truth = ZERO
    for outcome in product(*(one.items() for one in found)):
        weight = prod((chance for _, chance in outcome), start=ONE)
        values = [value for value, _ in outcome]
        best = values.index(max(values))
        claimed += weight * values[best]
        truth += weight * (1 + rates[best])
    return claimed, truth


@claim("D-SELECT")
def best_of_many(effort: int) -> Finding:
    """Proof: the largest estimate is at least the estimate of each action, so its mean is at least the mean of each; it
    is larger than the best mean unless the best action's estimate is the largest with certainty. The true value of
    the chosen action is a mean of true values, so it is at most the best of them.
    """
    rates = [ZERO, Fraction(1, 3), HALF, Fraction(2, 3), ONE]
    cases = [(pick, trees) for n in (1, 2, 3) for pick in product(rates, repeat=n) for trees in range(1, 2 + effort)]
    pick, trees = smallest(cases, lambda pick, trees: chosen(pick, trees)[0] > 1 + max(pick))

    def values(pick: tuple[Fraction, ...], trees: int) -> dict[str, Any]:
        claimed, truth = chosen(pick, trees)
        best = pick.index(max(pick))
        others = [rate for at, rate in enumerate(pick) if at != best]
        sure = all(min(estimate(pick[best], trees)) >= max(estimate(rate, trees)) for rate in others)
        return {"largest_estimate": claimed, "chosen_value": truth, "best_value": 1 + pick[best], "certain": sure}

    found = {n: largest(estimate(HALF, n), ACTIONS) for n in TREES}
    return Finding(
        {"count": len(cases), "actions": ACTIONS, "trees": ", ".join(map(str, TREES)), "truth": 1 + HALF}
        | {"found": ", ".join(map(decimals, found.values())), "shapes": decimals(largest(estimate(HALF, 16), SHAPES))},
        {"tokens_of_each_action": [1 + rate for rate in pick], "trees_for_each_estimate": trees}
        | {"mean_of_the_largest_estimate": chosen(pick, trees)[0]}
        | {"actions": ACTIONS, "largest_by_trees": {str(n): decimals(value) for n, value in found.items()}},
        cases={"choice": (values(*case) for case in cases)},
    )


@second("D-SELECT")
def best_of_many_again(case: Case) -> None:
    """Second check: one action after another is compared with the largest so far."""
    pair = estimate(HALF, 1)
    assert sum(x * y * max(a, b) for (a, x), (b, y) in product(pair.items(), repeat=2)) == 2 - Fraction(1, 4)
    assert case["mean_of_the_largest_estimate"] > max(case["tokens_of_each_action"])
    for trees, printed in case["largest_by_trees"].items():
        one = {value: float(chance) for value, chance in estimate(HALF, int(trees)).items()}
        so_far = one
        for _ in range(case["actions"] - 1):
            merged = dict.fromkeys(one, 0.0)
            for (a, x), (b, y) in product(so_far.items(), one.items()):
                merged[max(a, b)] += x * y
            so_far = merged
        assert f"{sum(float(value) * chance for value, chance in so_far.items()):.2f}" == printed
