"""Cycle after cycle with the laws of spectheory, two tokens and laws that depend on the last one: for second checks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import spectheory as st
from proofs_check.delayed_trees.walks import array
from proofs_check.plays import ONE, ZERO, gathered
from proofs_check.small_drafts import Law
from spectheory.core.chance import branches

NAIVE = st.verify.TopDown(st.otlp.Naive())


def played(
    p: Any, q: Any, policy: tuple[int, int], cycles: int, verifier: st.verify.Verifier = NAIVE
) -> tuple[Fraction, Fraction]:
    """Expected tokens after so many cycles from token 0, and how many of these started behind token 1.

    p and q are the laws behind each last token, and the policy is how many tokens are drafted there.
    """
    world = st.World.markov(p, q)
    turns: list[dict[tuple[int, int], Fraction]] = []
    for last in (0, 1):
        start = st.World(lambda c, s=last: world.p((s, *c)), lambda c, s=last: world.q((s, *c)))
        drafts = branches(lambda rng, w=start, n=policy[last]: st.Paths(1, n).grow(w, rng))
        turns.append(
            gathered(
                ((len(draft.context(node)) + 1, token), chance * stop * x)
                for draft, chance in drafts
                if chance
                for outcome in [verifier.outcome(draft, start.target(draft))]
                for node, stop in enumerate(outcome.stop)
                for token, x in enumerate(outcome.next_token[node])
            )
        )
    at, tokens, seen = [ONE, ZERO], ZERO, ZERO
    for _ in range(cycles):
        tokens += sum((at[last] * n * x for last in (0, 1) for (n, _), x in turns[last].items()), ZERO)
        seen += at[1]
        at = [sum((at[o] * x for o in (0, 1) for (_, to), x in turns[o].items() if to == t), ZERO) for t in (0, 1)]
    return tokens, seen


def arrays(laws: Sequence[Law]) -> np.ndarray:
    """The laws as rows."""
    return np.array([list(array(law)) for law in laws], dtype=object)
