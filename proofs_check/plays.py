"""Programs that draw, and the exact distributions of what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeVar

Result = TypeVar("Result")
Pick = Callable[[Sequence[Fraction]], int]
"""Draws an index with the given probabilities."""
ONE, ZERO = Fraction(1), Fraction(0)


def runs(program: Callable[[Pick], Result]) -> dict[Result, Fraction]:
    """The distribution of what a program returns, by running it once for each sequence of draws; it draws by `pick`."""
    waiting: list[tuple[int, ...]] = [()]

    def ends() -> Iterable[tuple[Result, Fraction]]:
        while waiting:
            yield _run(program, waiting.pop(), waiting)

    return gathered(ends())


def _run(
    program: Callable[[Pick], Result], forced: tuple[int, ...], waiting: list[tuple[int, ...]]
) -> tuple[Result, Fraction]:
    """One run: its first draws are given, further ones are the first that are possible, and the others wait."""
    taken: list[int] = []
    chance = ONE

    def pick(weights: Sequence[Fraction]) -> int:
        nonlocal chance
        if len(taken) < len(forced):
            choice = forced[len(taken)]
        else:
            choice, *others = [index for index, weight in enumerate(weights) if weight]
            waiting.extend((*taken, other) for other in others)
        taken.append(choice)
        chance *= weights[choice]
        return choice

    return program(pick), chance


def gathered(parts: Iterable[tuple[Result, Fraction]]) -> dict[Result, Fraction]:
    """The sum of the probabilities of each result; parts with probability 0 are left out."""
    found: dict[Result, Fraction] = {}
    for result, chance in parts:
        if chance:
            found[result] = found.get(result, ZERO) + chance
    return found


def flip(pick: Pick, chance: Fraction) -> bool:
    """Whether a coin with this chance succeeds; a chance of 1 or more always does."""
    return chance >= 1 or pick((1 - chance, chance)) == 1
