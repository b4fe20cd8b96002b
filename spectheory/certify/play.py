"""Plays: a step in a world, and steps that are made of a policy for drafts and a verifier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from spectheory.certify.betting import Joint
from spectheory.certify.guard import within
from spectheory.core.arrays import Vector
from spectheory.core.chance import draw
from spectheory.core.checks import check_number, check_types, check_whole, checked
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import Context, DrawPolicy, Levels, Paths, World
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier

MOST_CELLS = 300_000
LARGEST_ID = 10_000_000
LARGEST_BATCH = 2_048
"""Maximum number of tokens that are compared in one call: all pairs of them are."""


@dataclass(frozen=True)
class Play:
    """A step in a world.

    Attributes:
        world: name of the world in reports.
        step: function (context, rng) -> tokens that one step emits; with `batch`, see there.
        target: function context -> (V,) distribution of the next token.
        contexts: contexts in which the step is tested.
        length: number of tokens whose joint distribution is compared.
        vocab_size: number of tokens V in the vocabulary.
        batch: number of contexts in one call of the step; None for one context a call. With a batch, the step is a
            function (contexts, rng) -> rows. `contexts` is an array (n, k) of tokens, filled up with -1 at the start of
            each row, so that `contexts[:, -1]` are the last tokens, -1 for an empty context. The rows are the emitted
            tokens: an array (n, m) filled up with -1 at the end of each row, or n sequences.
        ids: (V,) token ids that the step uses instead of 0 to V - 1, in contexts and in what it emits. Spread over a
            large vocabulary (`spread_ids`), they reach all blocks of a kernel.
        tv: the total variation that is allowed in this world; None for that of the test.

    Raises:
        InputError: a field is out of range.
    """

    world: str
    step: Callable[[Any, Any], Any]
    target: Callable[[Context], Vector]
    contexts: Sequence[Context]
    length: int
    vocab_size: int
    batch: int | None = None
    ids: Sequence[int] | None = None
    tv: float | None = None

    def joint(self, context: Context) -> Joint:
        """The target's joint distribution after a context."""
        return Joint.after(self.target, context, self.length, self.vocab_size)

    @cached_property
    def token_of(self) -> dict[int, int]:
        """The token of each id."""
        return {int(one): token for token, one in enumerate(range(self.vocab_size) if self.ids is None else self.ids)}

    def in_ids(self, context: Context) -> Context:
        """A context in the ids of the step."""
        return context if self.ids is None else tuple(int(self.ids[token]) for token in context)

    def unknown(self, one: int) -> str:
        """Why a step must not emit the id `one`."""
        if self.ids is None:
            return (
                f"the step emitted token {one}, which does not exist: tokens are 0 to {self.vocab_size - 1} (strip "
                "padding before you return)"
            )
        return f"the step emitted id {one}, to which the target gives probability 0: the ids are {list(self.ids)}"

    def __post_init__(self) -> None:
        check_types(Play, vars(self))
        object.__setattr__(self, "contexts", [tuple(context) for context in self.contexts])
        known = all(0 <= token < self.vocab_size for context in self.contexts for token in context)
        if not known or len(set(self.contexts)) < len(self.contexts):
            raise InputError(f"contexts must be different, of tokens below {self.vocab_size}, got {self.contexts}")
        check_whole("length", self.length, 1, most=MOST_CELLS)
        check_whole("vocab_size", self.vocab_size, 1, most=MOST_CELLS)
        if self.length * math.log(self.vocab_size) > math.log(MOST_CELLS):
            raise InputError(
                f"vocab_size**length must be at most {MOST_CELLS:,} cells, got {self.vocab_size}**{self.length}: "
                "compare fewer tokens, or a step on a smaller vocabulary"
            )
        if self.tv is not None:
            check_number("tv", self.tv, 1e-9, 1)
        if self.batch is not None:
            check_whole(
                "batch", self.batch, 1, ": it is the number of contexts in one call", most=LARGEST_BATCH // self.length
            )
        for one in () if self.ids is None else self.ids:
            check_whole("ids", one, 0, most=LARGEST_ID)
        if self.ids is not None and not len(self.ids) == len(set(self.ids)) == self.vocab_size:
            raise InputError(f"ids must be {self.vocab_size} different ids, one per token, got {list(self.ids)!r:.80}")


@checked
def spread_ids(vocab_size: int, size: int) -> tuple[int, ...]:
    """`vocab_size` ids, spread evenly over a vocabulary of `size` tokens, its first and its last id among them."""
    check_whole("size", size, 2, ": it is the vocabulary of the step", most=LARGEST_ID)
    check_whole("vocab_size", vocab_size, 2, most=size)
    return tuple(int(one) for one in np.linspace(0, size - 1, vocab_size).round())


@checked
def as_step(
    given: Any, policy: DrawPolicy, world: World, ids: Sequence[int] | None = None
) -> Callable[[Context, Any], Sequence[int]]:
    """A function `step(context, rng)` for `certify_step`: it grows a draft, verifies it and returns the emitted tokens.

    Args:
        given: verifier of the step: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.
        policy: policy that grows the draft of each step.
        world: world with the distributions of target and draft.
        ids: (V,) token ids that step and verifier use instead of 0 to V - 1, as in `Play`, in ascending order. Other
            ids up to the last one have probability 0.
    """
    draw(np.ones(1), np.random.default_rng())  # compiles it outside of the time limit of the first step
    verifier = TopDown(given) if isinstance(given, Solver) else given
    verify = verifier.sample if isinstance(verifier, Verifier) else verifier
    if not callable(verify):
        raise InputError(f"given must be a Solver, a Verifier or a function verify(draft, p, rng), got {given!r:.80}")
    own = None if ids is None else np.array(ids)

    def arrays(rows: Sequence[Vector]) -> np.ndarray:
        """Distributions as an array of the verifier's own."""
        if own is None:
            return np.array(rows)
        found = np.zeros((len(rows), own[-1] + 1))
        found[:, own] = rows
        return found

    def step(context: Context, rng: Any) -> Sequence[int]:
        before = context if own is None else tuple(np.searchsorted(own, context).tolist())
        growth = policy.growth(World(world.p, lambda text: world.q((*before, *text))), rng)
        grown, p = growth.draft(), arrays([world.p((*before, *text)) for text in growth.contexts])
        tokens = grown.tokens if own is None else own[grown.tokens]
        draft = Draft._unchecked(grown.tree, tokens, arrays(grown.q), grown.draws, grown.rule)
        node, token = verify(draft, p, rng)
        return (*draft.context(node), token)

    return step


@checked
def markov_world(size: int, seed: int = 0) -> World:
    """A world of `size` tokens: p and q depend on the last token alone, and are drawn from a flat Dirichlet."""
    check_whole("size", size, 1, most=2_000)
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.ones(size), size) for _ in range(2))
    return World.markov(p, q)


def max_depth(policy: DrawPolicy) -> int:
    """Maximum depth of a node that the policy grows."""
    return next(depth for depth in itertools.count() if not policy.draws(depth, 1))


WEIGHTS = 0, 1, 2, 3, 4
"""Weights of tokens before they are divided by their sum."""
IDS = spread_ids(5, 70_001)
"""Ids of the tokens of a world for code that reads a part of a vocabulary, or holds ids in a small type."""


def weighted(*weights: Any) -> Vector:
    """Weights over their sum."""
    return np.array(weights, float) / sum(weights)


def random_world(size: int, seed: int, *, start: Sequence[Vector] = (), agree: int = 0) -> World:
    """A world of `size` tokens: p and q depend on the last two tokens, and most have zeros.

    `start` has p and q at the start. In contexts of fewer than `agree` tokens p and q are equal, and drafts are kept.
    """

    @cache
    def pair(context: Context, is_early: bool) -> Sequence[Vector]:
        if start and not context:
            return start
        rng = np.random.default_rng([seed, *(token + 1 for token in context)])
        found = [rng.choice(WEIGHTS[1:] if is_early else WEIGHTS, size) for _ in range(2)]
        p, q = (weighted(*(one if one.any() else one + 1)) for one in found)
        return (p, p) if is_early else (p, q)

    return World(lambda c: pair(c[-2:], len(c) < agree)[0], lambda c: pair(c[-2:], len(c) < agree)[1])


def markov(p: Sequence[Sequence[int]], q: Sequence[Sequence[int]]) -> World:
    """A world whose distributions depend on the last token: row t has the weights after token t."""
    return World.markov(np.array([weighted(*row) for row in p]), np.array([weighted(*row) for row in q]))


MANY = World.table(
    {
        (): (weighted(60, 8, 8, *[2] * 9), weighted(50, 20, 15, *[1] * 9)),
        **{(token,): (np.eye(12)[-1 - token], weighted(*[1] * 12)) for token in range(12)},
    }
)
"""Twelve tokens, most of which have a small probability of p and are corrections; after one of them, p is one-hot."""
WORLDS: dict[str, tuple[World, int, tuple[int, ...]]] = {
    "zeros in q": (markov([(1, 1, 3), (2, 3, 3), (4, 2, 1)], [(1, 0, 1), (0, 4, 3), (4, 4, 0)]), 3, (2, 1)),
    "few zeros": (markov([(4, 4, 3), (3, 1, 2), (1, 2, 2)], [(1, 3, 1), (1, 4, 0), (3, 2, 4)]), 3, (1, 1, 1)),
    "a node of four children": (random_world(4, 261), 4, (4,)),
    "a chain of five": (random_world(2, 8, agree=3), 2, (1, 1, 1, 1, 1)),
    "three siblings with children": (random_world(3, 4, start=(weighted(1, 1, 4), weighted(1, 1, 1))), 3, (3, 1)),
    "twelve tokens": (MANY, 12, (1,)),
}
"""Worlds of a black-box test, the number of their tokens, and the draws at each depth of the drafts in them.

They were chosen by exact total variations: each wrong rule of the zoo is far off in one of them.
"""
FEW_CELLS = 200
"""Up to this number of cells, a token after the longest cycle is compared too, so that a second cycle shows."""


def plays_of(given: Any, policies: Sequence[DrawPolicy], rule: DrawRule) -> list[Play]:
    """A verifier in each world of `WORLDS` and with ids of a large vocabulary, compared on two cycles.

    Its drafts grow by `policies` in turn, if there are any. A verifier that refuses a tree gets chains of that depth.
    """
    found = []
    for i, (name, (world, size, counts)) in enumerate(WORLDS.items()):
        policy = policies[i % len(policies)] if policies else _accepted(given, counts, rule, world)
        longest = max_depth(policy) + 1
        length = length_of_two_cycles(longest - (size ** (longest + 1) > FEW_CELLS), size)
        found.append(Play(name, as_step(given, policy, world), world.p, ((),), length, size))
    return [*found, wide_play(given, policies[0] if policies else _accepted(given, (2, 1), rule, WIDE))]


_wide = weighted(1, 9, 3, 1, 6), weighted(10, 1, 1, 7, 1)
WIDE = World(lambda text: _wide[len(text) % 2], lambda text: _wide[len(text) % 2] if text else weighted(2, 2, 2, 12, 2))
"""A world for ids of a large vocabulary: most corrections have a large id, second drafts are kept, and p alternates."""


def wide_play(given: Any, policy: DrawPolicy) -> Play:
    """A verifier whose tokens are ids of a large vocabulary: distributions are 0 on all ids but `IDS`."""
    name, step = f"ids up to {IDS[-1]:,}, within {WIDE_TV:g}", as_step(given, policy, WIDE, IDS)
    return Play(name, step, WIDE.p, ((),), max_depth(policy) + 1, len(IDS), ids=IDS, tv=WIDE_TV)


WIDE_TV = 0.2
"""Allowed total variation with ids of a large vocabulary, where runs are slow and faults are large."""


def _accepted(given: Any, counts: tuple[int, ...], rule: DrawRule, world: World) -> DrawPolicy:
    """A tree with these draws, or else a chain or two paths, if the verifier refuses it."""
    chain = Levels((1,) * len(counts), rule)
    for policy in (Levels(counts, rule), chain, Paths(2, 2, rule=rule)):
        step = as_step(given, policy, world)
        try:
            for number in range(20):
                within(10.0, step, (), np.random.default_rng(number))
        except ValueError:
            continue
        except Exception:
            return policy
        return policy
    return chain


def length_of_two_cycles(longest: int, vocab_size: int, most: int = MOST_CELLS) -> int:
    """The number of tokens to compare if a cycle emits up to `longest`: one more, so that a second cycle shows.

    It is less if the joint distribution would have more than `most` cells.
    """
    length = longest + 1
    while length > 1 and vocab_size**length > most:
        length -= 1
    return length
