"""Replay: the boundaries of cycles given the text, and what keeps a drafted token."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from proofs_check.claims import Finding, claim
from proofs_check.replay.enumerated import after, decoded, ends, random_world, text_of, texts
from spectheory.core.draft import DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, World
from spectheory.otlp import RRS
from spectheory.replay import CycleChain
from spectheory.replay.kernels import chain_ratios, kept_by_ratio
from spectheory.verify import Block, TopDown, Traversal, TreeMonteCarlo, Verifier

NO_REPLACEMENT = DrawRule.NO_REPLACEMENT


@claim("R-CHAIN")
def boundaries_given_the_text(effort: int) -> Finding:
    length = 3
    cases: list[tuple[DrawPolicy, Verifier]] = [
        (Levels((1, 1)), Block()),
        (Levels((2,), NO_REPLACEMENT), TopDown(RRS())),
        (Levels((2,), NO_REPLACEMENT), Traversal()),
    ]
    found = []
    for seed in range(effort):
        for shape, verifier in cases:
            world = random_world(2, seed)
            runs = decoded(world, length, shape, verifier)
            assert {tokens for tokens, _ in runs} == set(texts(2, length))
            for (tokens, starts), chance in runs.items():
                steps = _steps_of_the_chain(world, tokens, starts, shape, verifier)
                found.append({"probability": chance, "of_the_text": _chance(world, tokens), "steps": steps})
    return Finding({"cases": len(found)}, cases={"run": found})


def _chance(world: World, tokens: Context) -> Fraction:
    """The target's probability of a text."""
    return prod((world.p(tokens[:place])[token] for place, token in enumerate(tokens)), start=Fraction(1))


def _steps_of_the_chain(
    world: World, tokens: Context, starts: tuple[int, ...], shape: DrawPolicy, verifier: Verifier
) -> Fraction:
    """The product of the steps of the chain from boundary to boundary, the last up to the end of the text."""
    steps = Fraction(1)
    for start, following in zip(starts, (*starts[1:], None), strict=True):
        rest, here = tokens[start:], world if start == 0 else after(world, tokens[:start])
        leaves = ends(here, rest, shape, shape.rule, verifier)
        steps *= (
            leaves[following - start - 1] if following is not None else 1 - sum(leaves[: len(rest) - 1], Fraction(0))
        )
    return steps


@claim("R-RATIO")
def least_ratio(effort: int) -> Finding:
    chain = Levels((1, 1, 1))
    verifiers = Block(), TreeMonteCarlo()
    every_one = [*product((random_world(2, seed) for seed in range(2 * effort)), texts(2, 4), verifiers)]

    def values(world: World, tokens: Context, verifier: Verifier) -> dict[str, list[Fraction]]:
        kept = kept_by_ratio(chain_ratios(text_of(world, tokens), 3))
        return {"by_the_text": _ends(kept), "W": ends(world, tokens, chain, chain.rule, verifier)}

    return Finding({"cases": len(every_one)}, cases={"text": (values(*one) for one in every_one)})


def _ends(kept: np.ndarray) -> list[Fraction]:
    """The chances to end at the first position, of a text as long as a whole cycle."""
    return list(CycleChain(kept).ends[0])
