"""Choices of trees by tokens and seconds at many roots: the best static tree, and the best tree of each root."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from reference.selector.labels import Labels
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency

ROUNDS = 100
"""Maximum number of rounds until the best tree of each root is found; a few are enough."""


def check_latency(latency: Latency) -> None:
    """Raise InputError for a latency that charges prompts: then the seconds of a cycle depend on its tokens."""
    if latency.prompt_seconds or latency.draft_prompt_seconds:
        raise InputError(
            f"latency must have no seconds of prompts, got prompt_seconds={latency.prompt_seconds:g} and "
            f"draft_prompt_seconds={latency.draft_prompt_seconds:g}: a selector decides cycles, give it a latency "
            "without them"
        )


def facts_of(latency: Latency) -> dict[str, Any]:
    """What decides the seconds of a latency: all of it but where and when it was made."""
    return {name: value for name, value in latency.to_dict().items() if name != "provenance"}


def seconds_of(labels: Labels, latency: Latency) -> Float[np.ndarray, "roots trees"]:
    """Seconds of a cycle with each tree at each root."""
    return labels.space.seconds(latency, labels.contexts)


def best_static(tokens: np.ndarray, seconds: np.ndarray) -> int:
    """The tree of the highest throughput if all roots (R, trees) take it: the ratio of the sums."""
    return int((tokens.sum(0) / seconds.sum(0)).argmax())


def best_by_root(
    tokens: Float[np.ndarray, "roots trees"], seconds: Float[np.ndarray, "roots trees"]
) -> Int[np.ndarray, " roots"]:
    """The trees that together have the highest throughput, sum of tokens over sum of seconds.

    They are not the trees of the highest ratio at each root. With r the throughput that is reached, each root takes
    the tree of the highest tokens - r seconds (Dinkelbach's algorithm, which ends after finitely many rounds).
    """
    roots = np.arange(len(tokens))
    chosen = np.full(len(tokens), best_static(tokens, seconds))
    for _ in range(ROUNDS):
        rate = tokens[roots, chosen].sum() / seconds[roots, chosen].sum()
        worth = tokens - rate * seconds
        better = worth.argmax(1)
        if (worth[roots, better] <= worth[roots, chosen]).all():
            return chosen
        chosen = better
    raise AssertionError("each round raises the throughput of a finite number of choices")
