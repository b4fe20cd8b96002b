"""Tokens per call in the long run, each verifier starting its next call where it stopped: block verification and Naive.

The tables count calls on whole texts, while theorems compare one call at one root. The step between is checked here on
texts of two tokens whose laws depend on the last token.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

from proofs_check.delayed_trees.verification import Judged, as_published, block, naive
from proofs_check.delayed_trees.walks import World, all_laws, completed
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law, Path

Pairs = tuple[tuple[Law, Law], tuple[Law, Law]]
"""(p, q) behind each last token."""
Rule = Callable[[World, int], Judged]
Turns = list[dict[tuple[int, int], Fraction]]
"""Behind each last token, the law of (tokens, last token) after one call."""
LENGTH = 2


def published(world: World, length: int) -> Judged:
    """Block verification."""
    return block(world, length, as_published)


def behind(pairs: Pairs, last: int) -> World:
    """What is seen from a last token; contexts of up to LENGTH - 1 tokens are drafted in."""
    return World((pairs[last], *pairs))


def turns(pairs: Pairs, rule: Rule) -> Turns:
    """One call from each last token."""
    found: Turns = []
    for last in (0, 1):
        law: dict[tuple[int, int], Fraction] = {}
        for (path, tau, tokens), chance in rule(behind(pairs, last), LENGTH).items():
            bonus = enumerate(pairs[path[-1]][0]) if tau == LENGTH else [(tokens[-1], ONE)]
            for token, x in bonus:
                law[tau + 1, token] = law.get((tau + 1, token), ZERO) + chance * x
        found.append({end: x for end, x in law.items() if x})
    return found


def per_call(made: Turns) -> Fraction | None:
    """Tokens per call in the long run; None where it depends on the start."""
    away = [sum((x for (_, to), x in made[last].items() if to != last), ZERO) for last in (0, 1)]
    if not sum(away):
        return None
    mean = [sum((n * x for (n, _), x in law.items()), ZERO) for law in made]
    return (away[1] * mean[0] + away[0] * mean[1]) / sum(away)


def after(made: Turns, start: int, calls: int) -> dict[int, Fraction]:
    """The law of all tokens after some calls."""
    at = {(0, start): ONE}
    for _ in range(calls):
        new: dict[tuple[int, int], Fraction] = {}
        for (have, last), x in at.items():
            for (n, to), y in made[last].items():
                new[have + n, to] = new.get((have + n, to), ZERO) + x * y
        at = new
    law: dict[int, Fraction] = {}
    for (have, _), x in at.items():
        law[have] = law.get(have, ZERO) + x
    return law


def never_behind(more: dict[int, Fraction], less: dict[int, Fraction]) -> bool:
    """Whether each number of tokens is reached at least as surely."""
    return all(
        sum(x for n, x in more.items() if n >= count) >= sum(x for n, x in less.items() if n >= count)
        for count in {*more, *less}
    )


def kept_given(world: World, judged: Judged, text: Path) -> list[Fraction]:
    """P(tau >= 1), ..., P(tau >= LENGTH) given the next LENGTH tokens of the text."""
    found = []
    for depth in range(1, LENGTH + 1):
        emitted: dict[Path, Fraction] = {}
        for (_, tau, tokens), chance in judged.items():
            if tau >= depth:
                emitted[tokens] = emitted.get(tokens, ZERO) + chance
        found.append(completed(world, emitted, LENGTH).get(text, ZERO) / world.chance(text, 0))
    return found


def given_the_text(case: tuple[Pairs, int]) -> bool:
    """Naive keeps a token with a coin of its own, min(1, q / p); block verification keeps each depth no less often."""
    pairs, last = case
    world = behind(pairs, last)
    judged = naive(world, LENGTH), published(world, LENGTH)
    for text in world.texts(LENGTH):
        coins = [min(ONE, q[y] / p[y]) for y, (p, q) in zip(text, (pairs[last], pairs[text[0]]), strict=True)]
        less, more = (kept_given(world, one, text) for one in judged)
        if less != [coins[0], coins[0] * coins[1]] or any(a < b for a, b in zip(more, less, strict=True)):
            return False
    firsts = {text[0]: kept_given(world, judged[1], text)[0] for text in world.texts(LENGTH)}
    return all(kept_given(world, judged[1], text)[0] == firsts[text[0]] for text in world.texts(LENGTH))


def not_behind(pairs: Pairs) -> bool:
    """Whether block verification has no fewer tokens: per call in the long run, and after 1, 2 or 3 calls, surely."""
    ours, theirs = turns(pairs, published), turns(pairs, naive)
    more, less = per_call(ours), per_call(theirs)
    if more is not None and less is not None and more < less:
        return False
    calls = product((0, 1), (1, 2, 3))
    return all(never_behind(after(ours, start, n), after(theirs, start, n)) for start, n in calls)


def all_pairs(largest: int) -> list[Pairs]:
    """Every pair of such laws behind each of two tokens."""
    one = [(p, q) for p, q in product(all_laws(2, largest), repeat=2)]
    return [(a, b) for a, b in product(one, repeat=2)]
