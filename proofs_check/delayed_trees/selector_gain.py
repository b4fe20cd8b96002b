"""How far a selector of trees can raise the block efficiency of NSS: proofs on texts, and Tables 2, 6 and 9."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from operator import mul

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second
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
