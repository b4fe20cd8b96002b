"""Specimen: a verifier or a decoding step with a name, and whether it is lossless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spectheory.certify.play import Play
from spectheory.core.arrays import Vector
from spectheory.core.chance import draw
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.world import DrawPolicy
from spectheory.verify import walk

Emit = Callable[[Vector, Vector, list[int], Any], int]
"""(p, q, drafts, rng) -> the token emitted at a node."""


@dataclass(frozen=True)
class Specimen:
    """A verifier on which `certify_verifier` is tested.

    Attributes:
        name: short name with hyphens.
        about: what the verifier does, and where it was seen.
        given: the verifier, as `certify_verifier` takes it.
        is_lossless: whether `certify_verifier` must find it lossless.
        policies: draft trees that it is meant for; None for all trees of its draw rule.
        zero_coins: whether it is lossy only if a random number of exactly 0 counts.
    """

    name: str
    about: str
    given: Any
    is_lossless: bool
    policies: tuple[DrawPolicy, ...] | None = None
    zero_coins: bool = False


def documented(name: str, given: Any, is_lossless: bool, policies: tuple[DrawPolicy, ...] | None = None) -> Specimen:
    """A specimen that is described by the first line of its docstring."""
    return Specimen(name, (given.__doc__ or name).splitlines()[0], given, is_lossless, policies)


@dataclass(frozen=True)
class StepSpecimen:
    """A whole decoding step on which `certify_step` is tested. Its fault does not show in the verifier alone."""

    name: str
    about: str
    play: Play
    is_lossless: bool


def top_down(emit: Emit, rule: DrawRule) -> Callable[[Draft, Any, Any], tuple[int, int]]:
    """A verifier `verify(draft, p, rng)` that walks down from the root and calls `emit` at each node."""

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        def emitted(node: int) -> int:
            drafts = draft.drafted(node)
            return emit(p[node], draft.q[node], drafts, rng) if drafts else draw(p[node], rng)

        path, token = walk(draft.draws, draft.tokens, emitted)
        return (path or [0])[-1], token

    verify.__name__ = getattr(emit, "__name__", "verify")
    verify.rules = (rule,)  # type: ignore[attr-defined]
    return verify
