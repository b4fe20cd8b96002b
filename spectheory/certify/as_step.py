"""A decoding step that is made of a policy for drafts and a verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spectheory.certify.certificate import text
from spectheory.core.chance import draw
from spectheory.core.draft import Draft
from spectheory.core.world import Context, DrawPolicy, World
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier


def as_step(given: Any, policy: DrawPolicy, world: World) -> DraftedStep:
    """A function `step(context, rng)` for `certify_step`: it grows a draft, verifies it and returns the emitted tokens.

    Args:
        given: verifier of the step: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.
        policy: policy that grows the draft of each step.
        world: world with the distributions of target and draft.
    """
    draw(np.ones(1), np.random.default_rng())  # compiles it outside of the time limit of the first step
    verifier = TopDown(given) if isinstance(given, Solver) else given
    return DraftedStep(verifier.sample if isinstance(verifier, Verifier) else verifier, policy, world)


class DraftedStep:
    """A step that grows a draft and verifies it. It keeps the draft of the last call, for reports."""

    def __init__(self, verify: Callable[..., Any], policy: DrawPolicy, world: World) -> None:
        self.verify, self.policy, self.world = verify, policy, world
        self._draft: Draft | None = None

    def __call__(self, context: Context, rng: Any) -> Sequence[int]:
        """The tokens that one step emits after `context`."""
        world = self.world
        here = World(lambda text: world.p((*context, *text)), lambda text: world.q((*context, *text)))
        self._draft = draft = self.policy.grow(here, rng)
        node, token = self.verify(draft, here.target(draft), rng)
        return (*draft.context(node), token)

    def drafts(self, row: int) -> str:
        """The draft of the last call, with the draft's distributions."""
        draft = self._draft
        if draft is None:
            return ""
        drew = [(node, text(tuple(draft.drafted(node)))) for node, drawn in enumerate(draft.draws) if drawn]
        return "; ".join(
            f"after {text(draft.context(node))} drew {tokens} from q = {_rounded(draft.q[node])}"
            for node, tokens in drew
        )


def _rounded(distribution: Any) -> str:
    return f"({', '.join(f'{float(x):.3g}' for x in distribution)})"


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
