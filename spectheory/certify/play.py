"""Plays: a step in a world, and steps that are made of a policy for drafts and a verifier."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spectheory.certify.betting import Joint
from spectheory.core.arrays import Vector
from spectheory.core.chance import draw
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.world import Context, DrawPolicy, World
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier

MOST_CELLS = 300_000
LARGEST_ID = 10_000_000


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
    """

    world: str
    step: Callable[[Any, Any], Any]
    target: Callable[[Context], Vector]
    contexts: Sequence[Context]
    length: int
    vocab_size: int
    batch: int | None = None
    ids: Sequence[int] | None = None

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

    def check(self) -> None:
        """Refuse a play that cannot be run.

        Raises:
            InputError: a field is out of range.
        """
        if not self.contexts or len(set(self.contexts)) < len(self.contexts):
            raise InputError(
                f"contexts must be one or more different contexts, got {self.contexts}: use [()] for a text's start"
            )
        check_whole("length", self.length, 1)
        check_whole("vocab_size", self.vocab_size, 1)
        if self.vocab_size**self.length > MOST_CELLS:
            raise InputError(
                f"vocab_size**length must be at most {MOST_CELLS:,} cells, got {self.vocab_size}**{self.length}: "
                "compare fewer tokens, or a step on a smaller vocabulary"
            )
        if self.batch is not None:
            check_whole("batch", self.batch, 1, ": it is the number of contexts in one call")
        for one in () if self.ids is None else self.ids:
            check_whole("ids", one, 0, most=LARGEST_ID)
        if self.ids is not None and not len(self.ids) == len(set(self.ids)) == self.vocab_size:
            raise InputError(
                f"ids must be {self.vocab_size} different ids, one for each token, got {list(self.ids)!r:.80}"
            )


def spread_ids(vocab_size: int, size: int) -> tuple[int, ...]:
    """`vocab_size` ids, spread evenly over a vocabulary of `size` tokens, its first and its last id among them.

    A kernel that works on blocks of ids thus meets tokens in all blocks but the smallest ones.

    Raises:
        InputError: the vocabulary is too small.
    """
    check_whole("vocab_size", vocab_size, 2)
    check_whole("size", size, vocab_size, ": it is the vocabulary of the step", most=LARGEST_ID)
    return tuple(int(one) for one in np.linspace(0, size - 1, vocab_size).round())


def as_step(given: Any, policy: DrawPolicy, world: World) -> Callable[[Context, Any], Sequence[int]]:
    """A function `step(context, rng)` for `certify_step`: it grows a draft, verifies it and returns the emitted tokens.

    Args:
        given: verifier of the step: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.
        policy: policy that grows the draft of each step.
        world: world with the distributions of target and draft.
    """
    draw(np.ones(1), np.random.default_rng())  # compiles it outside of the time limit of the first step
    verifier = TopDown(given) if isinstance(given, Solver) else given
    verify = verifier.sample if isinstance(verifier, Verifier) else verifier

    def step(context: Context, rng: Any) -> Sequence[int]:
        here = World(lambda text: world.p((*context, *text)), lambda text: world.q((*context, *text)))
        draft = policy.grow(here, rng)
        node, token = verify(draft, here.target(draft), rng)
        return (*draft.context(node), token)

    return step


def markov_world(size: int, seed: int = 0) -> World:
    """A world of `size` tokens: p and q depend on the last token alone, and are drawn from a flat Dirichlet."""
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.ones(size), size) for _ in range(2))
    return World.markov(p, q)


def max_depth(policy: DrawPolicy) -> int:
    """Maximum depth of a node that the policy grows."""
    return next(depth for depth in itertools.count() if not policy.draws(depth, 1))


TOKENS = 3
"""Vocabulary size of all worlds. It is small, so that few cells share the runs."""

Rows = tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]
"""Row t has the weights of the next token after token t."""


WORLDS: dict[str, tuple[Rows, Rows]] = {
    "zeros in p and q": (((1, 1, 0), (0, 1, 1), (2, 0, 2)), ((0, 1, 3), (0, 2, 4), (3, 0, 1))),
    "zeros in q": (((1, 1, 3), (2, 3, 3), (4, 2, 1)), ((1, 0, 1), (0, 4, 3), (4, 4, 0))),
    "narrow q": (((3, 2, 2), (0, 1, 3), (1, 2, 3)), ((0, 3, 4), (3, 0, 1), (0, 0, 4))),
    "few zeros": (((4, 4, 3), (3, 1, 2), (1, 2, 2)), ((1, 3, 1), (1, 4, 0), (3, 2, 4))),
    "small probabilities": (((78, 19, 3), (3, 78, 19), (19, 3, 78)), ((19, 78, 3), (78, 3, 19), (3, 78, 19))),
}
"""Weights of p and q in Markov worlds that start after token 0.

The first four were chosen by exact total variations: each wrong rule of the zoo is far off in one of them.
"""


def worlds_of(seed: int) -> dict[str, World]:
    """The worlds of a black-box test by name: `WORLDS`, and one with random distributions."""
    given = {
        name: tuple(np.array(w, float) / np.sum(w, axis=1, keepdims=True) for w in of) for name, of in WORLDS.items()
    }
    rng = np.random.default_rng(seed)
    given[f"random, seed {seed}"] = tuple(rng.dirichlet(np.ones(TOKENS), TOKENS) for _ in range(2))
    return {name: World.markov(p, q) for name, (p, q) in given.items()}


def plays_of(given: Any, policy: DrawPolicy, seed: int) -> Sequence[Play]:
    """A verifier on drafts of `policy` in each world, compared on as many tokens as two cycles need."""
    length = length_of_two_cycles(max_depth(policy) + 1, TOKENS)
    return [
        Play(name, as_step(given, policy, world), world.p, ((),), length, TOKENS)
        for name, world in worlds_of(seed).items()
    ]


def length_of_two_cycles(longest: int, vocab_size: int) -> int:
    """The number of tokens to compare if a cycle emits up to `longest`: one more, so that a second cycle shows.

    It is less if the joint distribution would have more than `MOST_CELLS` cells.
    """
    length = longest + 1
    while length > 1 and vocab_size**length > MOST_CELLS:
        length -= 1
    return length
