"""Scores of a combination of the matrix: how far the measured cycles are from what was expected of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Real

from reference.combinations import Combination, depth_of, shape_of
from reference.forced_logits import forced_texts
from reference.measuring import count_fourgrams
from reference.models import Pair
from spectheory.replay import Replays

SAMPLES = 2
"""Replays of a combination's own texts, each with its own draws of the siblings."""


def z_score(
    tau: Real[np.ndarray, " cycles"], expected: Float[np.ndarray, " cycles"], variance: Float[np.ndarray, " cycles"]
) -> float | None:
    """Sum of tau - E[tau] divided by the root of the sum of Var[tau]; without variance None, or infinite if off."""
    off, spread = float((tau - expected).sum()), float(np.sqrt(variance.sum()))
    if spread == 0:
        return math.copysign(math.inf, off) if off else None
    return off / spread


def replay_z_score(
    pair: Pair, combination: Combination, prompts: Sequence[list[int]], rows: Sequence[dict[str, Any]]
) -> float | None:
    """Cycles counted in the measured texts, less the number that replay expects on them, in standard deviations.

    Sampled siblings make the expected number an estimate. The variance given the text is the mean of the variances
    that the samples compute plus the variance between samples; that of the mean of the samples is added.

    Args:
        pair: target and draft.
        combination: the combination.
        prompts: the prompts that it decoded.
        rows: the row of each prompt, with the columns of the matrix.

    Returns:
        None at temperature 0, for a drafter whose shape depends on the text, and for texts shorter than a cycle.
    """
    shape, sampling = shape_of(combination.policy.drafter), combination.sampling
    if shape is None or sampling.greedy:
        return None
    depth, rule = depth_of(shape), combination.policy.drafter.rule(sampling)
    texts = list(forced_texts(pair, prompts, [row["tokens"] for row in rows], sampling))
    if Replays(texts).deepest < depth:
        return None
    expected = [Replays(texts, seed=i).replay(shape, combination.verifier, rule) for i in range(SAMPLES)]
    cycles = np.array([one.cycles for one in expected])
    variance = np.mean([one.variance for one in expected], 0) + (1 + 1 / SAMPLES) * cycles.var(0, ddof=1)
    counted = sum(
        (1 + np.cumsum([0, *row["tau"][:-1]]) < len(row["tokens"]) - depth).sum() for row in rows if row["tau"]
    )
    spread = math.sqrt(max(0.0, variance.sum()))
    return float(counted - cycles.mean(0).sum()) / spread if spread else None


def repeated_share(texts: list[list[int]]) -> float | None:
    """Share of four-token runs that occurred earlier in the same text; None if no text has four tokens."""
    total, repeated = np.sum([count_fourgrams(text) for text in texts], axis=0).tolist()
    return repeated / total if total else None
