"""Block efficiency of a verifier and a policy in a world: exact over all drafts, or a mean over drawn ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from numbers import Rational
from typing import Any

import numpy as np

from spectheory.core.chance import branches
from spectheory.core.draft import Draft
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy, World
from spectheory.verify import Verifier

MOST_DRAFTS = 50_000
"""Drafts that are verified one by one; more take minutes in Fractions, and a mean over drawn drafts serves better."""


@dataclass(frozen=True)
class Estimate:
    """A mean over drafts.

    Attributes:
        value: the mean; a Fraction where the world's distributions are and all drafts were counted, else a float.
        standard_error: of the mean; 0 where all drafts were counted.
        drafts: how many drafts it is the mean of.
        is_exact: all drafts were counted with their probabilities, so that nothing but rounding is between the
            value and the expectation.
    """

    value: Any
    standard_error: float
    drafts: int
    is_exact: bool


def expected_block_efficiency(
    verifier: Verifier,
    world: World,
    policy: DrawPolicy,
    *,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """E[tau], expected tokens per target call, over the drafts that `policy` grows in `world`.

    Given a draft the verifier's distribution says E[tau] exactly; only the drafts are enumerated, or drawn.

    Args:
        verifier: lossless for the policy's draw rule.
        world: distributions of target and draft.
        policy: grows the drafts.
        samples: how many drafts to draw, at least 2; None counts all of them.
        rng: source of the drawn drafts.

    Raises:
        InputError: there are more than `MOST_DRAFTS` drafts and `samples` is None, only one of `samples` and `rng` is
            given, or the verifier refuses a draft.
        ReplayError: `samples` is None and the policy draws in a way that cannot be enumerated.

    >>> from fractions import Fraction
    >>> from spectheory import Levels, World, verify
    >>> p, q = (np.array([Fraction(x, 3) for x in distribution]) for distribution in ((1, 2), (2, 1)))
    >>> str(expected_block_efficiency(verify.Block(), World.constant(p, q), Levels((1, 1))).value)
    '20/9'
    """
    if (samples is None) != (rng is None):
        raise InputError("samples and rng go together: samples=1000, rng=numpy.random.default_rng(0), or neither")

    def given(draft: Draft) -> Any:
        return verifier.outcome(draft, world.target(draft)).block_efficiency

    if samples is not None:
        if samples < 2:
            raise InputError(f"samples must be at least 2 drafts, for a standard error, got {samples}")
        values = np.array([float(given(policy.grow(world, rng))) for _ in range(samples)])
        return Estimate(float(values.mean()), float(values.std(ddof=1) / samples**0.5), samples, is_exact=False)
    drafts = list(islice(branches(lambda replay: policy.grow(world, replay)), MOST_DRAFTS + 1))
    if len(drafts) > MOST_DRAFTS:
        raise InputError(
            f"{policy} grows more than {MOST_DRAFTS:,} drafts in this world: draw some of them with samples=1000, "
            "rng=numpy.random.default_rng(0)"
        )
    value = sum(_times(chance, given(draft)) for draft, chance in drafts if chance)
    return Estimate(value, 0.0, len(drafts), is_exact=True)


def _times(chance: Fraction, value: Any) -> Any:
    return chance * value if isinstance(value, Rational) else float(chance) * float(value)
