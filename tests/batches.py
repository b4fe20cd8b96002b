"""A Markov world, a step of batches that samples from it, and the certifiers of steps and plays in it."""

from __future__ import annotations

from typing import Any

import numpy as np

import spectheory as st
from spectheory.certify import (
    Play,
    StepCertificate,
    certify_in_worlds,
    certify_step,
    markov_world,
)
from spectheory.certify.rows import drawn

V = 4
WORLD = markov_world(V, 3)
TREE = st.Tree([-1, 0, 0, 1, 1, 2])
LARGE = 9_001
SMALL_LEVEL = {"alpha": 1e-2, "tv": 0.05, "cycles": 2}
"""A right step is called lossy with probability at most 1e-2; the seeds are fixed."""


def certified(play: Play, max_samples: int, **options: Any) -> StepCertificate:
    given: dict[str, Any] = {"tv": 0.05, **options}
    return certify_in_worlds([play], max_samples=max_samples, **given)


def plain(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two tokens of the target of `WORLD` for each context."""
    first = drawn(MATRIX[contexts[:, -1]], rng)
    return np.stack([first, drawn(MATRIX[first], rng)], axis=1)


MATRIX = np.array([*(WORLD.p((token,)) for token in range(V)), WORLD.p(())])
"""Row t is the target after token t, the last row at the start: -1 is the placeholder of an empty context."""


def in_batches(step: Any, most: int, **options: Any) -> StepCertificate:
    given: dict[str, Any] = {"vocab_size": V, "batch": 64, "tv": 0.05, "length": 2, **options}
    return certify_step(step, WORLD.p, max_samples=most, **given)
