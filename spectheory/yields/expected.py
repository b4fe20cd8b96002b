"""Block efficiency of a verifier with a policy in a world: exact over all drafts, or a mean over drawn drafts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from numbers import Rational
from typing import Any

import numpy as np

from spectheory.core.chance import branches
from spectheory.core.checks import checked
from spectheory.core.draft import Draft
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy, World
from spectheory.verify import Verifier

MOST_DRAFTS = 50_000
"""Maximum number of drafts that are enumerated. More would take minutes in Fractions: draw some of them instead."""


@dataclass(frozen=True)
class Estimate:
    """A mean over drafts.

    Attributes:
        value: the mean; a Fraction if the world's distributions are Fractions and all drafts were enumerated.
        standard_error: standard error of the mean; 0 if all drafts were enumerated.
        drafts: number of drafts.
        is_exact: whether all drafts were enumerated with their probabilities, so that only rounding is an error.
    """

    value: Any
    standard_error: float
    drafts: int
    is_exact: bool


@checked
def expected_block_efficiency(
    verifier: Verifier,
    world: World,
    policy: DrawPolicy,
    *,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """E[tau], the expected number of tokens per target call, over the drafts that `policy` grows in `world`.

    For a given draft, E[tau] is computed exactly. Only the drafts are enumerated or drawn.

    Args:
        verifier: a verifier that is lossless for the policy's draw rule.
        world: the distributions of target and draft.
        policy: the policy that grows the drafts.
        samples: number of drafts to draw, at least 2; None enumerates all drafts.
        rng: random source of the drawn drafts; given if and only if `samples` is given.

    Raises:
        InputError: there are more than `MOST_DRAFTS` drafts and `samples` is None, only one of `samples` and `rng` is
            given, or the verifier refuses a draft.
        BranchError: `samples` is None and the policy draws in a way that cannot be enumerated.

    >>> from fractions import Fraction
    >>> from spectheory import Levels, World, verify
    >>> p, q = (np.array([Fraction(x, 3) for x in distribution]) for distribution in ((1, 2), (2, 1)))
    >>> str(expected_block_efficiency(verify.Block(), World.constant(p, q), Levels((1, 1))).value)
    '20/9'
    """
    if (samples is None) != (rng is None):
        raise InputError("samples and rng go together: samples=1000, rng=numpy.random.default_rng(0), or neither")

    def given(draft: Draft) -> Any:
        value = verifier.outcome(draft, world.target(draft)).block_efficiency
        return value if isinstance(value, Rational) else float(value)

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
    value = sum(chance * given(draft) for draft, chance in drafts if chance)
    return Estimate(value, 0.0, len(drafts), is_exact=True)
