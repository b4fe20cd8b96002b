"""Small worlds in which every draft, every coin and every text can be enumerated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.tree import Tree
from spectheory.core.world import Context, DrawPolicy, Growth, World
from spectheory.replay import TargetText
from spectheory.verify import Verifier


def random_world(vocabulary: int, seed: int) -> World:
    """Distributions that depend on the whole context; some tokens have probability 0 under q."""

    @cache
    def distribution(model: str, context: Context) -> np.ndarray:
        choice = random.Random(f"{seed} {model} {context}").choice
        weights = [choice((1, 2, 3, 5)) for _ in range(vocabulary)]
        if model == "q" and vocabulary > 2 and choice((True, False)):
            weights[choice(range(vocabulary))] = 0
        return np.array([Fraction(weight, sum(weights)) for weight in weights], dtype=object)

    return World(lambda context: distribution("p", context), lambda context: distribution("q", context))


def after(world: World, prefix: Context) -> World:
    """The world whose contexts start after `prefix`."""
    return World(lambda context: world.p((*prefix, *context)), lambda context: world.q((*prefix, *context)))


def texts(vocabulary: int, length: int) -> Iterator[Context]:
    """All of them."""
    return product(range(vocabulary), repeat=length)


def text_of(world: World, tokens: Context) -> TargetText:
    """A text with p and q at its positions."""
    places = [tokens[:position] for position in range(len(tokens))]
    return TargetText(np.array(tokens), np.array(list(map(world.p, places))), np.array(list(map(world.q, places))))


def drafts(world: World, shape: Tree | DrawPolicy, rule: DrawRule) -> Iterator[tuple[Draft, Fraction]]:
    """Every draft with its probability."""
    return branches(
        lambda rng: shape.grow(world, rng) if isinstance(shape, DrawPolicy) else _fill(world, shape, rule, rng)
    )


def _fill(world: World, tree: Tree, rule: DrawRule, rng: Any) -> Draft:
    """A static tree filled with tokens; nodes for which q has no token are left out."""
    growth, planned = Growth(rule), [0]
    for node, here in enumerate(planned):
        q, children = world.q(growth.contexts[node]), tree.child_lists[here]
        if children:
            new = growth.add(node, q, rule.children(q, len(children), rng))
            planned += children[: len(new)]
    return growth.draft()


def ends(world: World, tokens: Context, shape: Tree | DrawPolicy, rule: DrawRule, verifier: Verifier) -> list[Fraction]:
    """W_0, W_1, ... of a cycle at the start of a text, by the verifier's distribution for every draft: R / p."""
    chances = [Fraction(0)] * len(tokens)
    for draft, chance in drafts(world, shape, rule):
        outcome = verifier.outcome(draft, world.target(draft))
        for node, (stop, following) in enumerate(zip(outcome.stop, outcome.next_token, strict=True)):
            context = draft.context(node)
            if len(context) < len(tokens) and tokens[: len(context)] == context:
                chances[len(context)] += chance * stop * following[tokens[len(context)]]
    target = Fraction(1)
    for kept, token in enumerate(tokens):
        target *= world.p(tokens[:kept])[token]
        chances[kept] /= target
    return chances


def decoded(
    world: World, length: int, shape: DrawPolicy, verifier: Verifier
) -> dict[tuple[Context, tuple[int, ...]], Fraction]:
    """Probability of each text of `length` tokens with the places where cycles start in it, by running the decoder.

    Cycles follow each other until the text is that long; what the last cycle emits beyond is cut off.
    """

    def program(rng: Any) -> tuple[Context, tuple[int, ...]]:
        text: Context = ()
        starts: list[int] = []
        while len(text) < length:
            starts.append(len(text))
            here = after(world, text)
            draft = shape.grow(here, rng)
            node, token = verifier._outcome(draft, here.target(draft)).sample(rng)
            text = (*text, *draft.context(node), token)
        return text[:length], tuple(starts)

    found: dict[tuple[Context, tuple[int, ...]], Fraction] = {}
    for run, chance in branches(program):
        found[run] = found.get(run, Fraction(0)) + chance
    return found
