"""Small worlds in which every draft, every coin and every text can be enumerated, and what this folder shares."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as hs

import spectheory as st
from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.tree import Tree
from spectheory.core.world import Context, DrawPolicy, Growth, World
from spectheory.replay import TargetText
from spectheory.verify import Verifier

IID, NO_REPLACEMENT = st.DrawRule.IID, st.DrawRule.NO_REPLACEMENT
RULES = {True: IID, False: NO_REPLACEMENT}
TREE = st.Tree.k_ary(2, 2)
RATES = st.Acceptance.by_rank([0.5, 0.2, 0.1])
LATENCY = st.Latency.constant(draft_seconds=0.02)
trees = hs.lists(hs.integers(0, 10**6), max_size=9).map(
    lambda picks: st.Tree([-1, *(pick % (node + 1) for node, pick in enumerate(picks))])
)


def random_text(seed: int, n: int = 12, vocabulary: int = 7, depths: int = 2) -> TargetText:
    """p and q far apart, with zeros in q, and depths of their own."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(vocabulary, 0.5), n), rng.dirichlet(np.full(vocabulary, 0.5), (depths, n))
    q[..., 0] = 0
    q /= q.sum(-1, keepdims=True)
    p = (p + 0.01) / (p + 0.01).sum(1, keepdims=True)
    return TargetText(rng.integers(0, vocabulary, n), p, q)


TEXTS = [random_text(seed, n=40, depths=1) for seed in range(6)]


def prompts(count: int, length: int = 6) -> list[list[int]]:
    """Random prompts, the same ones at each call."""
    return np.random.default_rng(3).integers(0, 300, (count, length)).tolist()


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
    return product(range(vocabulary), repeat=length)


def text_of(world: World, tokens: Context) -> TargetText:
    """A text with p and q at its positions."""
    places = [tokens[:position] for position in range(len(tokens))]
    return TargetText(np.array(tokens), np.array(list(map(world.p, places))), np.array(list(map(world.q, places))))


def drafts(world: World, shape: Tree | DrawPolicy, rule: DrawRule) -> Iterator[tuple[Draft, Fraction]]:
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


def ends_by_path(
    world: World, tokens: Context, shape: Tree | DrawPolicy, rule: DrawRule, verifier: Verifier
) -> dict[tuple[int, ...], Fraction]:
    """W of a cycle at the start of a text, R / p, by the path of ranks at which it ends; for every draft."""
    found: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for draft, chance in drafts(world, shape, rule):
        outcome, paths = verifier.outcome(draft, world.target(draft)), [(), *draft.tree.to_paths()]
        for node, (stop, following) in enumerate(zip(outcome.stop, outcome.next_token, strict=True)):
            context = draft.context(node)
            if len(context) < len(tokens) and tokens[: len(context)] == context:
                target = np.prod([world.p(tokens[:place])[tokens[place]] for place in range(len(context) + 1)])
                found[paths[node]] += chance * stop * following[tokens[len(context)]] / target
    return found


def ends(world: World, tokens: Context, *case: Any) -> list[Fraction]:
    """W_0, W_1, ... of a cycle at the start of a text, by the verifier's distribution for every draft."""
    by_path = ends_by_path(world, tokens, *case)
    return [sum((by_path[path] for path in by_path if len(path) == kept), Fraction(0)) for kept in range(len(tokens))]


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
