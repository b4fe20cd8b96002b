"""Cycle after cycle on texts of two tokens whose distributions depend on the last token, each from where one stopped.

The tables of the paper count cycles on whole texts, while its theorems compare one cycle at one root. The step between
is checked here for block verification and Naive.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product

from proofs_check.delayed_trees.verification import Judged, as_published, block, naive
from proofs_check.delayed_trees.walks import ContextTable, Emitted, all_laws, completed
from proofs_check.plays import ONE, ZERO, gathered
from proofs_check.small_drafts import Law

Pairs = tuple[tuple[Law, Law], tuple[Law, Law]]
"""(p, q) after each last token."""
Rule = Callable[[ContextTable, int], Judged]
Cycle = dict[tuple[int, int], Fraction]
"""The distribution of (tokens, last token) after one cycle."""
LENGTH = 2


def published(world: ContextTable, length: int) -> Judged:
    """Block verification as published."""
    return block(world, length, as_published)


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


def per_cycle(cycles: list[Cycle]) -> Fraction | None:
    """Tokens per cycle in the long run; None where it depends on the first token."""
    shares = roots(cycles)
    return sum((x * tokens_of(one) for x, one in zip(shares, cycles, strict=True)), ZERO) if shares else None


def after(cycles: list[Cycle], start: int, count: int) -> dict[int, Fraction]:
    """The distribution of the number of tokens after `count` cycles."""
    at = {(0, start): ONE}
    for _ in range(count):
        at = gathered(((have + n, to), x * y) for (have, last), x in at.items() for (n, to), y in cycles[last].items())
    return gathered((have, x) for (have, _), x in at.items())


def never_behind(more: dict[int, Fraction], less: dict[int, Fraction]) -> bool:
    """Whether `more` reaches each number of tokens with at least the probability that `less` does."""
    return all(
        sum(x for n, x in more.items() if n >= count) >= sum(x for n, x in less.items() if n >= count)
        for count in {*more, *less}
    )


def kept(world: ContextTable, judged: Judged) -> list[Emitted]:
    """For tau >= 1, ..., tau >= LENGTH, the probability of that together with each next LENGTH tokens of the text."""
    found = []
    for depth in range(1, LENGTH + 1):
        emitted = gathered((tokens, chance) for (_, tau, tokens), chance in judged.items() if tau >= depth)
        found.append(completed(world, emitted, LENGTH))
    return found


def given_the_text(pairs: Pairs, last: int) -> bool:
    """Whether block verification reaches each depth at least as often as Naive, for every text of the target.

    Given the text, Naive must keep each token independently, with probability min(1, q / p). Whether block
    verification keeps the first token must not depend on the second one.
    """
    world = seen_from(pairs, last)
    judged = [kept(world, judged_by(rule, world)) for rule in (naive, published)]
    firsts: dict[int, Fraction] = {}
    for text, chance in world.texts(LENGTH).items():
        coins = [min(ONE, q[y] / p[y]) for y, (p, q) in zip(text, (pairs[last], pairs[text[0]]), strict=True)]
        less, more = ([one.get(text, ZERO) / chance for one in each] for each in judged)
        if less != [coins[0], coins[0] * coins[1]] or any(a < b for a, b in zip(more, less, strict=True)):
            return False
        if more[0] != firsts.setdefault(text[0], more[0]):
            return False
    return True


def not_behind(*pairs: tuple[Law, Law]) -> bool:
    """Whether block verification emits no fewer tokens than Naive.

    Compared are the mean per cycle in the long run, and the distributions of tokens after 1, 2 and 3 cycles.
    """
    ours, theirs = ([cycle((pairs[0], pairs[1]), last, rule) for last in (0, 1)] for rule in (published, naive))
    more, less = per_cycle(ours), per_cycle(theirs)
    if more is not None and less is not None and more < less:
        return False
    ends = product((0, 1), (1, 2, 3))
    return all(never_behind(after(ours, start, n), after(theirs, start, n)) for start, n in ends)


def all_pairs(largest: int) -> list[Pairs]:
    """Every (p, q) after each of two tokens, with common denominators up to `largest`."""
    one = [(p, q) for p, q in product(all_laws(2, largest), repeat=2)]
    return [(a, b) for a, b in product(one, repeat=2)]
