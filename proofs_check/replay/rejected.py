"""Replay: a drafter that reads the target at rejected nodes has cycles that the text does not determine."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from proofs_check.claims import Case, Finding, claim, second
from spectheory.core.world import Context

LENGTH = 12
"""Tokens of a text."""
VOCABULARY = 3
"""Tokens in the vocabulary."""
Target = Callable[[Context], int]
"""A greedy target: the token that follows a context."""


@claim("R-REJECTED")
def read_at_rejected_nodes(effort: int) -> Finding:
    pairs, found = 100 * effort, []
    for seed in range(pairs):
        first = _target(seed)
        text = _decoded(first)
        second = _other_off_the_text(first, text, seed)
        if _decoded(second) != text:
            raise ArithmeticError(f"the two targets have different texts, seed {seed}")
        told = {"texts": text}
        for name, rejected in (("with_rejected", True), ("with_accepted", False)):
            told |= {
                f"one_{name}": _starts(first, rejected=rejected),
                f"other_{name}": _starts(second, rejected=rejected),
            }
        found.append(told)
    differ = sum(one["one_with_rejected"] != one["other_with_rejected"] for one in found)
    return Finding({"pairs": pairs, "differ": differ}, cases={"pair": found})


@second("R-REJECTED")
def by_hand(case: Case) -> dict[str, Any]:
    """Second check: the text is 1, 1, 0, 2, 2, 2; one target answers 0, the other 2, at every rejected node.

    The first cycle starts after 1 and drafts 0, 0. Both are rejected, and what the target says after 0 there is stored:
    with 2 the cycle that starts after 0 keeps the 2 that follows, with 0 it does not.
    """
    starts = []
    for answer in (0, 2):
        successor, text, found = {0: 0, 1: 0, 2: 0}, [1], []
        target = [1, 1, 0, 2, 2, 2]
        while len(text) < len(target):
            found.append(len(text))
            first = successor[text[-1]]
            drafted = [first, successor[first]]
            ahead = [*target[len(text) :], 2, 2]
            kept = next((at for at in (0, 1) if drafted[at] != ahead[at]), 2)
            successor |= dict.fromkeys(drafted[kept:], answer)
            for at, token in enumerate([text[-1], *drafted[:kept]]):
                successor[token] = ahead[at]
            text += ahead[: kept + 1]
        starts.append(found)
    assert starts[0] != starts[1]
    return {"first_starts": starts[0], "second_starts": starts[1]}


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
