"""The record of a named rule: its code, whether it is right, and where it was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector
from spectheory.core.chance import draw
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.world import Context, DrawPolicy
from spectheory.verify import walk

Emit = Callable[[Vector, Vector, list[int], Any], int]
"""(p, q, drafts, rng) -> the token emitted at a node."""


@dataclass(frozen=True)
class Specimen:
    """A verifier for `certify_verifier`.

    Attributes:
        name: short, with hyphens.
        about: what it does, and where it was seen.
        given: what `certify_verifier` takes.
        is_lossless: what `certify_verifier` must find.
        policies: shapes that it is meant for; all of its rule where None.
    """

    name: str
    about: str
    given: Any
    is_lossless: bool
    policies: tuple[DrawPolicy, ...] | None = None


@dataclass(frozen=True)
class StepSpecimen:
    """A whole decoding step for `certify_step`, in the world of `target`: what only a run of both parts can show."""

    name: str
    about: str
    step: Callable[[Context, Any], Sequence[int]]
    target: Callable[[Context], Vector]
    vocab_size: int
    is_lossless: bool


def top_down(emit: Emit, rule: DrawRule) -> Callable[[Draft, Any, Any], tuple[int, int]]:
    """A function `verify(draft, p, rng)` that calls `emit` at each node on its way."""

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        def emitted(node: int) -> int:
            drafts = draft.drafted(node)
            return emit(p[node], draft.q[node], drafts, rng) if drafts else draw(p[node], rng)

        path, token = walk(draft.draws, draft.tokens, emitted)
        return (path or [0])[-1], token

    verify.__name__ = getattr(emit, "__name__", "verify")
    verify.rules = (rule,)  # type: ignore[attr-defined]
    return verify
