"""A decoding step that is made of a policy for drafts and a verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spectheory.core.chance import draw
from spectheory.core.world import Context, DrawPolicy, World
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier


def as_step(given: Any, policy: DrawPolicy, world: World) -> Callable[[Context, Any], Sequence[int]]:
    """A function `step(context, rng)` for `certify_step`: it grows a draft, verifies it and returns the emitted tokens.

    Args:
        given: verifier of the step: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.
        policy: policy that grows the draft of each step.
        world: world with the distributions of target and draft.
    """
    draw(
        np.ones(1), np.random.default_rng()
    )  # compiles `draw` now, so that the time limit of the first step does not include it
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
    depth = 0
    while policy.draws(depth, 1):
        depth += 1
    return depth
