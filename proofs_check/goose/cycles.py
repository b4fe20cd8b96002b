"""The number of cycles that follows from the tokens per cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.walks import TwoSourceTree, coins, pairs, reached, shapes, walked

Law = dict[int, Fraction]
"""The distribution of the tokens of one cycle."""


def cycles_of(text: int, tokens: Sequence[int]) -> int:
    """Cycles for `text` tokens where a cycle that starts after x tokens yields tokens[x]."""
    position = count = 0
    while position < text:
        position, count = position + tokens[position], count + 1
    return count


def expected_cycles(law: Law, text: int) -> list[Fraction]:
    """Expected cycles for 0, 1, ..., `text` tokens if cycles are independent with this distribution."""
    mean = [Fraction(0)]
    for left in range(1, text + 1):
        mean.append(1 + sum((w * mean[max(0, left - n)] for n, w in law.items()), Fraction(0)))
    return mean


def law_of(shape: TwoSourceTree, s: Fraction, t: Fraction) -> Law:
    """Tokens of one cycle of the committed walk, outcome by outcome."""
    law: Law = {}
    for right, weight in coins(shape.rates(s, t)):
        tokens = 1 + walked(shape, right)
        law[tokens] = law.get(tokens, Fraction(0)) + weight
    return law


def mean(law: Law) -> Fraction:
    return sum((n * w for n, w in law.items()), Fraction(0))


def _texts(most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for text in range(1, most + 1):
        jumps = list(product(*(range(1, text - x + 1) for x in range(text))))
        yield from (
            (more, less) for less, more in product(jumps, jumps) if all(a >= b for a, b in zip(more, less, strict=True))
        )


def _monotone(tokens: Sequence[int]) -> bool:
    reach = [x + n for x, n in enumerate(tokens)]
    return reach == sorted(reach)


def _slower_in_mean(one: TwoSourceTree, other: TwoSourceTree, s: Fraction, t: Fraction) -> bool:
    laws = law_of(one, s, t), law_of(other, s, t)
    return mean(laws[0]) >= mean(laws[1]) and expected_cycles(laws[0], 2)[2] > expected_cycles(laws[1], 2)[2]


def _wald(shape: TwoSourceTree, rates: tuple[Fraction, Fraction]) -> Iterator[dict[str, Fraction | int]]:
    law = law_of(shape, *rates)
    for n, cycles in enumerate(expected_cycles(law, 20)):
        if n:
            yield {"N": n, "cycles": cycles, "mean_tau": mean(law), "max_tau": max(law)}


def _counts(more: Sequence[int], less: Sequence[int]) -> dict[str, int | bool]:
    told = {"cycles": cycles_of(len(more), more), "cycles_of_the_other": cycles_of(len(less), less)}
    return told | {"monotone": _monotone(more) or _monotone(less)}


@claim("G-P4-CYCLES")
def fewer_cycles(effort: int) -> Finding:
    more, less = smallest(_texts(5), lambda more, less: cycles_of(len(more), more) > cycles_of(len(less), less))
    drawn = ((*two, s, t) for n in (2, 3) for s, t in pairs(4) for two in product(shapes(n), repeat=2))
    one, other, s, t = smallest(drawn, _slower_in_mean)
    texts = [*_texts(4 + effort)]
    monotone = sum(any(map(_monotone, pair)) for pair in texts)
    trees = [*product((shape for n in (1, 2, 3, 4) for shape in shapes(n)), pairs(3 + effort))]
    return Finding(
        {"kept": monotone, "trees": len(trees), "size": 4 + effort},
        {"tokens_at_each_position": more, "of_the_other": less}
        | {"cycles": cycles_of(len(more), more), "cycles_of_the_other": cycles_of(len(less), less)}
        | {
            "drawn": {"p_s": s, "p_t": t, "text": 2, "tree": one.shown(), "other": other.shown()}
            | {"tau": mean(law_of(one, s, t)), "tau_of_the_other": mean(law_of(other, s, t))}
            | {
                "cycles": expected_cycles(law_of(one, s, t), 2)[2],
                "of_the_other": expected_cycles(law_of(other, s, t), 2)[2],
            }
        },
        cases={
            "text": (_counts(*pair) for pair in texts),
            "tree": (step for one in trees for step in _wald(*one)),
        },
    )


@second("G-P4-CYCLES")
def fewer_cycles_again(case: Case) -> None:
    """Second check: count the cycles backwards from the end. In the drawn case a second cycle is needed with the
    probability that no child of the root is right.
    """
    for tokens, count in (
        (case["tokens_at_each_position"], case["cycles"]),
        (case["of_the_other"], case["cycles_of_the_other"]),
    ):
        ahead = [0] * (len(tokens) + 1)
        for x in range(len(tokens) - 1, -1, -1):
            ahead[x] = 1 + ahead[x + tokens[x]]
        assert ahead[0] == count
    assert all(a >= b for a, b in zip(case["tokens_at_each_position"], case["of_the_other"], strict=True))
    assert case["cycles"] > case["cycles_of_the_other"]
    drawn = case["drawn"]
    for tree, tau, count in (
        (drawn["tree"], drawn["tau"], drawn["cycles"]),
        (drawn["other"], drawn["tau_of_the_other"], drawn["of_the_other"]),
    ):
        shape = TwoSourceTree.of_case(tree)
        nothing = Fraction(1)
        for child in shape.children[0]:
            nothing *= 1 - (drawn["p_s"] if shape.spine[child] else drawn["p_t"])
        assert reached(shape, drawn["p_s"], drawn["p_t"]) == tau
        assert 1 + nothing == count
    assert drawn["tau"] >= drawn["tau_of_the_other"]
    assert drawn["cycles"] > drawn["of_the_other"]
