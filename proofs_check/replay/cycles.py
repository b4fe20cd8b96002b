"""Replay: cycles given the text, drafters that read the target at rejected nodes, and admission across requests."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import prod
from random import Random
from typing import Any

import numpy as np

import spectheory as st
from proofs_check.claims import Finding, claim
from proofs_check.plays import ONE, ZERO, gathered
from spectheory.core.world import Context, DrawPolicy, Levels
from spectheory.verify import Block, TopDown, Traversal, Verifier

TEXT_LENGTH = 3


@claim("R-CHAIN")
def boundaries_given_the_text(effort: int) -> Finding:
    two = Levels((2,), st.DrawRule.NO_REPLACEMENT)
    decoders = (Levels((1, 1)), Block()), (two, TopDown(st.otlp.RRS())), (two, Traversal())
    found = [run for seed in range(effort) for decoder in decoders for run in runs(seed, *decoder)]
    return Finding({"cases": len(found)}, cases={"run": found})


def runs(seed: int, shape: DrawPolicy, verifier: Verifier) -> Iterator[dict[str, Fraction]]:
    """Every text of two tokens with its boundaries; the distributions depend on all of the context."""

    @cache
    def law(model: str, context: Context) -> np.ndarray:
        choice = Random(f"{seed} {model} {context}").choice
        weights = [choice((1, 2, 3, 5)) for _ in range(2)]
        return np.array([Fraction(weight, sum(weights)) for weight in weights], dtype=object)

    def emitted(text: Context, rng: Any) -> Context:
        world = st.World(lambda context: law("p", text + context), lambda context: law("q", text + context))
        draft = shape.grow(world, rng)
        node, token = verifier.outcome(draft, world.target(draft)).sample(rng)
        return (*draft.context(node), token)

    def decoded(rng: Any) -> tuple[Context, tuple[int, ...]]:
        text, starts = (), ()
        while len(text) < TEXT_LENGTH:
            text, starts = text + emitted(text, rng), (*starts, len(text))
        return text[:TEXT_LENGTH], starts

    @cache
    def cycle(text: Context) -> dict[Context, Fraction]:
        return gathered(st.branches(lambda rng: emitted(text, rng)))

    def of_the_text(text: Context, start: int, end: int) -> Fraction:
        return prod((law("p", text[:at])[text[at]] for at in range(start, end)), start=ONE)

    def step(text: Context, start: int, end: int) -> Fraction:
        """W of a cycle from one boundary to the next."""
        return cycle(text[:start]).get(text[start:end], ZERO) / of_the_text(text, start, end)

    for (text, starts), chance in gathered(st.branches(decoded)).items():
        last = 1 - sum((step(text, starts[-1], end) for end in range(starts[-1] + 1, TEXT_LENGTH)), ZERO)
        steps = prod((step(text, *one) for one in pairwise(starts)), start=last)
        yield {"probability": chance, "of_the_text": of_the_text(text, 0, TEXT_LENGTH), "steps": steps}


TEXT = (1, 1, 0, 2, 2, 2)
"""What the target emits; after this text it goes on with token 2."""


@claim("R-REJECTED")
def read_at_rejected_nodes(effort: int) -> Finding:
    pair = {
        f"{name}_with_{kind}": starts(answer, rejected=kind == "rejected")
        for name, answer in (("one", 0), ("other", 2))
        for kind in ("rejected", "accepted")
    }
    told = {"first_starts": pair["one_with_rejected"], "second_starts": pair["other_with_rejected"]}
    return Finding(told, cases={"pair": [pair]})


def starts(answer: int, *, rejected: bool) -> list[int]:
    """Where the cycles of token recycling start, each with a chain of two stored successors.

    The target says `answer` at every node off the text; that is stored with `rejected`, else accepted nodes only.
    """
    successor, place, found = dict.fromkeys(range(3), 0), 1, []
    while place < len(TEXT):
        found.append(place)
        last, ahead = TEXT[place - 1], [*TEXT[place:], 2, 2]
        first = successor[last]
        drafted = [first, successor[first]]
        kept = next((at for at in (0, 1) if drafted[at] != ahead[at]), 2)
        if rejected:
            successor |= dict.fromkeys(drafted[kept:], answer)
        successor |= dict(zip([last, *drafted[:kept]], ahead, strict=False))
        place += kept + 1
    return found


ADMITTED_BY: dict[str, Any] = {
    "earlier": lambda q, x, y: (True, x == 0),
    "own": lambda q, x, y: (q[x] >= q[y], q[x] < q[y]),
    "each_other": lambda q, x, y: (y == 0, x == 0),
}


@claim("R-ADMIT")
def admitted_across_requests(effort: int) -> Finding:
    coins = [np.array([Fraction(a, n), Fraction(n - a, n)]) for n in range(2, 3 + effort) for a in range(1, n)]
    found = [{name: total_variation_of_pairs(p, q, name) for name in ADMITTED_BY} for p, q in product(coins, repeat=2)]
    return Finding({"cases": len(found), "own": found[2]["own"]}, cases={"world": found})


def total_variation_of_pairs(p: np.ndarray, q: np.ndarray, rule: str) -> Fraction:
    joint, verify = -np.outer(p, p), st.otlp.Naive()
    for x, y in product(range(2), repeat=2):
        admitted = zip((x, y), ADMITTED_BY[rule](q, x, y), strict=True)
        joint += q[x] * q[y] * np.outer(*(verify.distribution(p, q, [token]) if one else p for token, one in admitted))
    return abs(joint).sum() / 2
