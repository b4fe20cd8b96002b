"""`LossyRule`, node rules that do not keep the target's distribution, and what they emit at one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, copy_of, positive_part, zeros_like
from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp import Solver, optimal_acceptance
from spectheory.otlp.solver import _check_pair

MOST_DRAFTS = 50_000
"""Maximum number of drafts of one node that are enumerated."""


class LossyRule(Solver):
    """A node rule that does not keep p: the distribution of the emitted token, given the drafts.

    It is a `Solver`, so that `verify.TopDown(rule)` applies it to trees, and `certify_verifier` finds that it is lossy.
    It takes drafts of every draw rule, because it is lossless for none.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = tuple(DrawRule)

    def wanted(self, p: Vector) -> Vector:
        """The distribution that the rule stands in for: p, or the most probable token for rules of greedy decoding."""
        return copy_of(p)

    def drawn_from(self, q: Vector) -> Vector:
        """The distribution that the drafts are drawn from, if it is not the q that the rule reads."""
        return q

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance; for independent drafts, summed over all of them."""
        return _lossy_step(self, p, q, k, DrawRule.IID)[1].sum()


@dataclass(frozen=True, eq=False)
class LossyStep:
    """The token that a lossy rule emits at one node, over all drafts.

    Attributes:
        distribution: (V,) distribution of the emitted token.
        accepted: (V,) probability that the token is emitted and is one of the drafts.
        total_variation: total variation between `distribution` and what the rule stands in for.
        acceptance: probability that the emitted token is one of the drafts.
        lossless_acceptance: the largest acceptance of a lossless rule for the same drafts.
    """

    distribution: Any
    accepted: Any
    total_variation: Any
    acceptance: Any
    lossless_acceptance: Any


def lossy_step(rule: LossyRule, p: Vector, q: Vector, k: int = 1, drawn: DrawRule = DrawRule.IID) -> LossyStep:
    """What `rule` emits at a node with k drafts, exactly: in Fractions for Fractions, in float64 for floats.

    Args:
        rule: the lossy rule.
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution, as the rule reads it.
        k: number of drafts.
        drawn: how the drafts are drawn.

    Raises:
        InputError: p or q is not a distribution, their lengths differ, k is out of range, or there are more than
            `MOST_DRAFTS` drafts.

    >>> from spectheory.lossy import AcceptanceThreshold
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> p, q = np.array([Fraction(1, 3), Fraction(2, 3)]), np.array([Fraction(2, 3), Fraction(1, 3)])
    >>> step = lossy_step(AcceptanceThreshold(accumulated=Fraction(1, 2)), p, q)
    >>> str(step.total_variation), str(step.acceptance), str(step.lossless_acceptance)
    ('1/9', '7/9', '2/3')
    """
    _check_pair(p, q)
    drawn.check_count(k)
    wanted = rule.wanted(p)
    distribution, accepted = _lossy_step(rule, p, q, k, drawn)
    return LossyStep(
        distribution,
        accepted,
        positive_part(distribution - wanted).sum(),
        accepted.sum(),
        optimal_acceptance(wanted, rule.drawn_from(q), k, drawn),
    )


def _lossy_step(rule: LossyRule, p: Vector, q: Vector, k: int, drawn: DrawRule) -> tuple[Vector, Vector]:
    """(distribution of the emitted token, its part that is among the drafts)."""
    source, exact = rule.drawn_from(q), p.dtype == object
    free = {DrawRule.TOP_K: 0, DrawRule.TOP_K_THEN_ONE: 1}.get(drawn, k)
    tokens = int((source > 0).sum())
    if tokens**free > MOST_DRAFTS:
        raise InputError(
            f"k = {k} drafts from {tokens} tokens can be drawn in more than {MOST_DRAFTS:,} ways: use a smaller k, or "
            "keep the most probable tokens only"
        )
    distribution, accepted = zeros_like(p), zeros_like(p)
    for drafts, chance in branches(lambda rng: tuple(drawn.children(source, k, rng))):
        emitted = rule._distribution(p, q, drafts) * (chance if exact else float(chance))
        distribution = distribution + emitted
        for token in set(drafts):
            accepted[token] += emitted[token]
    return distribution, accepted
