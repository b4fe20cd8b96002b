"""A verifier and a policy as one decoding step, the drafter's own randomness included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spectheory.core.chance import draw
from spectheory.core.world import Context, DrawPolicy, World
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier


def as_step(given: Any, policy: DrawPolicy, world: World) -> Callable[[Context, Any], Sequence[int]]:
    """`step(context, rng)` for `certify_step`: grow a draft behind the context, verify it, return what is emitted.

    Args:
        given: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.
        policy: how drafts grow.
        world: its target is the distribution to hold the step to.
    """
    draw(np.ones(1), np.random.default_rng())  # compiled here, outside every time limit of a step
    verifier = TopDown(given) if isinstance(given, Solver) else given
    verify = verifier.sample if isinstance(verifier, Verifier) else verifier

    def step(context: Context, rng: Any) -> Sequence[int]:
        here = World(lambda text: world.p((*context, *text)), lambda text: world.q((*context, *text)))
        draft = policy.grow(here, rng)
        node, token = verify(draft, here.target(draft), rng)
        return (*draft.context(node), token)

    return step


def markov_world(size: int, seed: int = 0) -> World:
    """A world of `size` tokens whose distributions, drawn from a flat Dirichlet distribution, depend on the last token
    only.
    """
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.ones(size), size) for _ in range(2))
    return World.markov(p, q)
