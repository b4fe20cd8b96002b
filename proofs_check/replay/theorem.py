"""Replay: the boundaries of cycles given the text, and what keeps a drafted token."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second
from proofs_check.replay.enumerated import after, decoded, ends, random_world, text_of, texts
from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, Paths, World
from spectheory.otlp import RRS
from spectheory.replay import CycleChain, TargetText
from spectheory.replay.kernels import best_path_ratios, chain_ratios, kept_by_ratio, kept_by_traversal, shape_of
from spectheory.verify import Block, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo, Verifier

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


@claim("R-PATHS")
def best_path(_effort: int) -> Finding:
    shapes = [Paths(2, 2), Paths(3, 1), Paths(2, 1, trunk=1)]
    world = random_world(2, seed=3)
    every_one = [(shape, tokens) for shape in shapes for tokens in texts(2, 1 + shape.trunk + shape.length)]

    def values(shape: Paths, tokens: Context) -> dict[str, list[Fraction]]:
        kept = kept_by_ratio(best_path_ratios(text_of(world, tokens), shape.paths, shape.length, shape.trunk))
        return {"by_the_text": _ends(kept), "W": ends(world, tokens, shape, shape.rule, GreedyMultiPathBlock())}

    return Finding({"cases": len(every_one)}, cases={"text": (values(*one) for one in every_one)})


@claim("R-TRAVERSAL")
def traversal_reads_the_text_alone(_effort: int) -> Finding:
    shapes: list[DrawPolicy] = [
        Levels((2, 1), NO_REPLACEMENT),
        Levels((1, 2), NO_REPLACEMENT),
        Levels((2,), DrawRule.IID_APART),
        Paths(2, 2),
    ]
    world = random_world(2, seed=4)
    every_one = [(shape, tokens) for shape in shapes for tokens in texts(2, 3 if shape.draws(1, 1) else 2)]

    def values(shape: DrawPolicy, tokens: Context) -> dict[str, list[Fraction]]:
        return {
            "by_the_text": _mean_ends(world, shape, tokens),
            "W": ends(world, tokens, shape, shape.rule, Traversal()),
        }

    return Finding({"cases": len(every_one)}, cases={"text": (values(*one) for one in every_one)})


def _mean_ends(world: World, shape: DrawPolicy, tokens: Context) -> list[Fraction]:
    """The chances to end of traversal verification, averaged over the siblings that can be drawn beside the text."""
    text, total = text_of(world, tokens), [Fraction(0)] * len(tokens)
    for row, chance in branches(lambda rng: _ends(kept_by_traversal(text, shape_of(shape, None), rng))):
        for place, value in enumerate(row):
            total[place] += chance * value
    return total


def _accepted(world: World, shape: Paths | Levels, kept: Callable[[TargetText], np.ndarray]) -> Fraction:
    """Mean accepted tokens of a cycle: over the texts of the target, the chances to keep 1, 2, ... tokens."""
    total = Fraction(0)
    for tokens in texts(2, 1 + _levels(shape)):
        total += _chance(world, tokens) * sum(kept(text_of(world, tokens))[0][1:], Fraction(0))
    return total


def _levels(shape: Paths | Levels) -> int:
    return shape.trunk + shape.length if isinstance(shape, Paths) else len(shape.counts)


@second("R-PATHS")
def best_path_again(case: Case) -> None:
    """Second check: over all texts, what is kept has the mean that the verifier's own distributions have."""
    world = random_world(2, seed=5)
    for shape in (Paths(2, 1), Paths(2, 2), Paths(2, 1, trunk=1)):

        def kept(text: TargetText, shape: Paths = shape) -> np.ndarray:
            return kept_by_ratio(best_path_ratios(text, shape.paths, shape.length, shape.trunk))

        found = st.expected_block_efficiency(GreedyMultiPathBlock(), world, shape)
        assert found.value == 1 + _accepted(world, shape, kept)


@second("R-TRAVERSAL")
def traversal_again(case: Case) -> None:
    """Second check: over all texts, what is kept has the mean that the verifier's own distributions have."""
    world = random_world(2, seed=6)
    for shape in (Levels((2,), NO_REPLACEMENT), Levels((1, 2), NO_REPLACEMENT), Paths(2, 1)):
        mean = Fraction(0)
        for tokens in texts(2, 1 + _levels(shape)):
            kept = (at * chance for at, chance in enumerate(_mean_ends(world, shape, tokens)))
            mean += _chance(world, tokens) * sum(kept, Fraction(0))
        assert st.expected_block_efficiency(Traversal(), world, shape).value == 1 + mean


def _ends(kept: np.ndarray) -> list[Fraction]:
    """The chances to end at the first position, of a text as long as a whole cycle."""
    return list(CycleChain(kept).ends[0])
