"""What a longer acceptance says about speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

from proofs_check.verdict import Verdict, claim, every, second, smallest

Accepted = tuple[int, ...]
"""Drafted tokens accepted from each place of a text that a greedy target repeats for ever."""


def tokens_per_cycle(accepted: Accepted, start: int) -> Fraction:
    """In the long run from one place: over the loop that the starts of cycles run into."""
    places, seen, at, tokens = len(accepted), dict[int, tuple[int, int]](), start, 0
    while at not in seen:
        seen[at] = (tokens, len(seen))
        tokens += 1 + accepted[at]
        at = (at + 1 + accepted[at]) % places
    before, cycles = seen[at]
    return Fraction(tokens - before, len(seen) - cycles)


def slower(case: tuple[Accepted, Accepted]) -> bool:
    """Whether the first has fewer tokens per cycle, wherever both begin."""
    more, less = case
    return all(tokens_per_cycle(more, start) < tokens_per_cycle(less, start) for start in range(len(more)))


def monotone(accepted: Accepted) -> bool:
    """Whether a cycle that starts later never ends earlier."""
    ends = [at + tokens for at, tokens in enumerate((*accepted, accepted[0]))]
    return all(one <= other for one, other in pairwise(ends))


def better(most: int) -> Iterator[tuple[Accepted, Accepted]]:
    """Pairs of which the first accepts no fewer tokens, up to 3, at any place of up to `most`, and more at one."""
    for places in range(1, most + 1):
        for more, less in product(product(range(4), repeat=places), repeat=2):
            if more != less and all(a >= b for a, b in zip(more, less, strict=True)):
                yield more, less


@claim("T-SPEED", source="GTO, Section 3.1")
def speed(effort: int) -> Verdict:
    """With the same draft model "a higher expected acceptance length directly translates to higher speedup".

    Read: two drafts whose cycles take the same time, one of which accepts at least as many tokens in every context and
    more in one, so that its mean over the contexts of a text is higher; then it has no fewer tokens per second. The
    target is greedy and repeats its text, so that acceptance is sure.
    """
    more, less = smallest(better(4), slower)
    count = every(
        (case for case in better(3 + effort) if monotone(case[0]) or monotone(case[1])),
        lambda case: all(tokens_per_cycle(case[0], at) >= tokens_per_cycle(case[1], at) for at in range(len(case[0]))),
    )
    return Verdict(
        "corrected",
        "A longer step can end where the next one is short, so the mean over the contexts of a text is not the mean "
        "over the contexts in which cycles start. Where for one of the two drafts a later start never ends earlier the "
        f"better one is never behind (G-P4-CYCLES): so from every start of {count:,} pairs, up to {3 + effort} places "
        "and 3 accepted tokens.",
        "counterexample by search in order of size; enumeration",
        {
            "accepted_at_each_place": list(more),
            "of_the_other": list(less),
            "mean_over_places": [Fraction(sum(one), len(one)) for one in (more, less)],
            "tokens_per_cycle": [tokens_per_cycle(one, 0) for one in (more, less)],
        },
        "Over a draft's own cycles it holds; over training positions, as the reward is computed, it does not. With "
        "cycles of one length in time, the higher mean over a draft's own cycles is the higher speed: tokens per cycle "
        "in the long run. A mean over the positions of a text, as the training reward has it, is another "
        "number; a draft that accepts no less at any position is no slower if for one of the two a later start never "
        "ends earlier.",
    )


@second("T-SPEED")
def counted(verdict: Verdict) -> str:
    """Cycles counted over a long text, from every start."""
    case = verdict.case
    more, less = case["accepted_at_each_place"], case["of_the_other"]
    assert all(a >= b for a, b in zip(more, less, strict=True))
    assert sum(more) > sum(less)
    counts = [[cycles(one, start, 1000) for start in range(len(one))] for one in (more, less)]
    assert min(counts[0]) > max(counts[1])
    for found, tokens in zip(counts, case["tokens_per_cycle"], strict=True):
        assert abs(Fraction(1000, found[0]) - tokens) < Fraction(1, 50)
    return f"{counts[0][0]} against {counts[1][0]} cycles for 1000 tokens, cycle after cycle."


def cycles(accepted: Sequence[int], start: int, tokens: int) -> int:
    """How many it takes for so many tokens."""
    at, count = start, 0
    while at < start + tokens:
        at, count = at + 1 + accepted[at % len(accepted)], count + 1
    return count
