"""Cycle after cycle on texts of two tokens whose distributions depend on the last token, each from where one stopped.

The tables of the paper count cycles on whole texts, while its theorems compare one cycle at one root. The step between
is checked here for block verification and Naive.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from proofs_check.delayed_trees.verification import Judged
from proofs_check.delayed_trees.walks import ContextTable, Emitted, completed
from proofs_check.plays import ONE, ZERO, gathered
from proofs_check.small_drafts import Law

Pairs = tuple[tuple[Law, Law], tuple[Law, Law]]
"""(p, q) after each last token."""
Rule = Callable[[ContextTable, int], Judged]
Cycle = dict[tuple[int, int], Fraction]
"""The distribution of (tokens, last token) after one cycle."""
LENGTH = 2


def seen_from(pairs: Pairs, last: int) -> ContextTable:
    """The world after a last token; contexts of up to LENGTH - 1 tokens are drafted in."""
    return ContextTable((pairs[last], *pairs))


@cache
def judged_by(rule: Rule, world: ContextTable, length: int = LENGTH) -> Judged:
    """What a rule does in a world."""
    return rule(world, length)


@cache
def cycle(pairs: Pairs, last: int, rule: Rule, length: int = LENGTH) -> Cycle:
    """The distribution after one cycle that starts after token `last` and drafts `length` tokens."""
    return gathered(
        ((tau + 1, token), chance * x)
        for (path, tau, tokens), chance in judged_by(rule, seen_from(pairs, last), length).items()
        for token, x in (enumerate(pairs[(last, *path)[-1]][0]) if tau == length else [(tokens[-1], ONE)])
    )


def roots(cycles: list[Cycle]) -> Law | None:
    """How often each last token is the root of a cycle in the long run; None where it depends on the first token."""
    away = [sum((x for (_, to), x in cycles[last].items() if to != last), ZERO) for last in (0, 1)]
    total = sum(away, ZERO)
    return (away[1] / total, away[0] / total) if total else None


def tokens_of(cycle: Cycle) -> Fraction:
    """Mean number of tokens that a cycle emits."""
    return sum((n * chance for (n, _), chance in cycle.items()), ZERO)


def after(cycles: list[Cycle], start: int, count: int) -> dict[int, Fraction]:
    """The distribution of the number of tokens after `count` cycles."""
    at = {(0, start): ONE}
    for _ in range(count):
        at = gathered(((have + n, to), x * y) for (have, last), x in at.items() for (n, to), y in cycles[last].items())
    return gathered((have, x) for (have, _), x in at.items())


def kept(world: ContextTable, judged: Judged) -> list[Emitted]:
    """For tau >= 1, ..., tau >= LENGTH, the probability of that together with each next LENGTH tokens of the text."""
    found = []
    for depth in range(1, LENGTH + 1):
        emitted = gathered((tokens, chance) for (_, tau, tokens), chance in judged.items() if tau >= depth)
        found.append(completed(world, emitted, LENGTH))
    return found
