"""Replay: a drafter that reads the target at rejected nodes has cycles that the text does not determine."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from proofs_check.claims import Finding, claim
from spectheory.core.world import Context

LENGTH = 12
"""Tokens of a text."""
VOCABULARY = 3
"""Tokens in the vocabulary."""
Target = Callable[[Context], int]
"""A greedy target: the token that follows a context."""


@claim("R-REJECTED")
def read_at_rejected_nodes(effort: int) -> Finding:
    pairs, differ = 100 * effort, 0
    for seed in range(pairs):
        first = _target(seed)
        text = _decoded(first)
        second = _other_off_the_text(first, text, seed)
        if _decoded(second) != text or _starts(first, rejected=False) != _starts(second, rejected=False):
            raise ArithmeticError(f"two targets with one text differ with accepted nodes only, seed {seed}")
        differ += _starts(first, rejected=True) != _starts(second, rejected=True)
    if not differ:
        raise ArithmeticError(f"no two of {pairs} pairs of targets with one text have different cycles")
    return Finding("holds", {"pairs": pairs, "differ": differ})


def _target(seed: int) -> Target:
    return cache(lambda context: random.Random(f"{seed} {context}").randrange(VOCABULARY))


def _other_off_the_text(target: Target, text: Context, seed: int) -> Target:
    """A target that says the same in every context of the text, and something of its own elsewhere."""
    other = _target(-1 - seed)
    return lambda context: (target if context == text[: len(context)] else other)(context)


def _decoded(target: Target) -> Context:
    """The greedy text."""
    text: Context = ()
    while len(text) < LENGTH:
        text = (*text, target(text))
    return text


def _starts(target: Target, *, rejected: bool) -> list[int]:
    """Where the cycles of token recycling start: each drafts a chain of two stored successors.

    `rejected` says whether the target's answers at rejected nodes are stored, too. Of two answers for one token the one
    at an accepted node is kept.
    """
    successor, text, starts = [0] * VOCABULARY, (target(()),), []
    while len(text) < LENGTH:
        starts.append(len(text))
        first = successor[text[-1]]
        drafted = (first, successor[first])
        kept = 0
        while kept < len(drafted) and target((*text, *drafted[:kept])) == drafted[kept]:
            kept += 1
        last = len(drafted) if rejected else kept
        for node in [*range(kept + 1, last + 1), *range(kept + 1)]:
            context = (*text, *drafted[:node])
            successor[context[-1]] = target(context)
        text = (*text, *drafted[:kept], target((*text, *drafted[:kept])))
    return starts
