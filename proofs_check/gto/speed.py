"""Whether longer acceptance means more tokens per cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest

Accepted = tuple[int, ...]
"""Number of drafted tokens accepted at each place of a text that a greedy target repeats endlessly."""


def tokens_per_cycle(accepted: Accepted, start: int) -> Fraction:
    """Tokens per cycle in the long run from one place: the mean over the loop that the starts of cycles enter."""
    places, seen, at, tokens = len(accepted), dict[int, tuple[int, int]](), start, 0
    while at not in seen:
        seen[at] = (tokens, len(seen))
        tokens += 1 + accepted[at]
        at = (at + 1 + accepted[at]) % places
    before, cycles = seen[at]
    return Fraction(tokens - before, len(seen) - cycles)


def slower(more: Accepted, less: Accepted) -> bool:
    """Whether the first has fewer tokens per cycle, wherever both begin."""
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


@claim("T-SPEED")
def speed(effort: int) -> Finding:
    more, less = smallest(better(4), slower)
    pairs = [pair for pair in better(3 + effort) if any(map(monotone, pair))]

    def values(more: Accepted, less: Accepted) -> Iterator[dict[str, Fraction]]:
        for at in range(len(more)):
            yield {"tokens_per_cycle": tokens_per_cycle(more, at), "of_the_other": tokens_per_cycle(less, at)}

    return Finding(
        {"count": len(pairs), "size": 3 + effort},
        {
            "accepted_at_each_place": list(more),
            "of_the_other": list(less),
            "mean_over_places": [Fraction(sum(one), len(one)) for one in (more, less)],
            "tokens_per_cycle": [tokens_per_cycle(one, 0) for one in (more, less)],
        },
        cases={
            "start": (one for pair in better(4) for one in values(*pair)),
            "start_of_monotone_cycles": (one for pair in pairs for one in values(*pair)),
        },
    )


@second("T-SPEED")
def counted(case: Case) -> dict[str, Any]:
    """Second check: count the cycles over a long text, from every start."""
    more, less = case["accepted_at_each_place"], case["of_the_other"]
    assert all(a >= b for a, b in zip(more, less, strict=True))
    assert sum(more) > sum(less)
    counts = [[cycles(one, start, 1000) for start in range(len(one))] for one in (more, less)]
    assert min(counts[0]) > max(counts[1])
    for found, tokens in zip(counts, case["tokens_per_cycle"], strict=True):
        assert abs(Fraction(1000, found[0]) - tokens) < Fraction(1, 50)
    return {"first_count": counts[0][0], "second_count": counts[1][0]}


def cycles(accepted: Sequence[int], start: int, tokens: int) -> int:
    """How many cycles `tokens` tokens take from one start."""
    at, count = start, 0
    while at < start + tokens:
        at, count = at + 1 + accepted[at % len(accepted)], count + 1
    return count
