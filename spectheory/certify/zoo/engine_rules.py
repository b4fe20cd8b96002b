"""Node rules that engines offer although they do not keep the target's distribution, with their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log
from typing import Any, ClassVar

from spectheory.certify.zoo.specimen import documented
from spectheory.core.arrays import Vector, copy_of, normalised, one_of, set_zero, zero_of, zeros_like
from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.core.errors import InputError
from spectheory.otlp import ArgMax, Solver


class LossyRule(Solver):
    """A node rule that does not keep p: the distribution of the emitted token, given the drafts.

    It takes drafts of every draw rule, because it is lossless for none.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = tuple(DrawRule)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance; for independent drafts, summed over all of them."""
        return sum(
            self._distribution(p, q, drafts)[sorted(set(drafts))].sum() * chance
            for drafts, chance in branches(lambda rng: DrawRule.IID.children(q, k, rng))
        )


@dataclass(frozen=True)
class Typical(LossyRule):
    """Typical acceptance: the first draft with p(x) > min(epsilon, delta exp(-H(p))), H the entropy of p in nats.

    If there is none, emit a token of p. Medusa keeps the longest accepted path of its tree; on a chain this is the
    same. Its own sampler draws other tokens from p without those below the threshold; that is a processor of the
    target, so give the processed p. The threshold is computed in float64, the distribution in the numbers of p.

    Acceptance: P(a draft has p(x) above the threshold) + the rest times the p of the drafts.
    Cost: O(V).
    Source: arXiv 2401.10774, Section 2.3; the defaults are those of its code (posterior_threshold, posterior_alpha).

    Attributes:
        epsilon: the largest threshold.
        delta: the factor of exp(-H(p)).
    """

    epsilon: Any = 0.3
    delta: Any = 0.09

    def threshold(self, p: Vector) -> Any:
        """The threshold for this p."""
        entropy = -sum(share * log(share) for share in map(float, p) if share > 0)
        return min(self.epsilon, self.delta * exp(-entropy)) if self.delta else self.delta

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        accepted = next((token for token in drafts if p[token] > self.threshold(p)), None)
        if accepted is None:
            return copy_of(p)
        distribution = zeros_like(p)
        distribution[accepted] += 1
        return distribution


@dataclass(frozen=True)
class AcceptanceThreshold(LossyRule):
    """SGLang's thresholds: accept x if a coin u < (sum of p over the drafts so far) / accumulated, with one u for all.

    A draft with p(x) >= single is accepted whatever u is. If all drafts are rejected, emit a token of p without them.
    With both thresholds 1, which is the default of SGLang, this is sampling from p, and lossless for any drafts.

    Acceptance: min(1, p(drafts) / accumulated), and 1 if a draft has p(x) >= single.
    Cost: O(V + k).
    Source: SGLang, `--speculative-accept-threshold-single` and `--speculative-accept-threshold-acc`, and its kernel
        `tree_speculative_sampling_target_only`, which compares the coin with `<=`.

    Attributes:
        single: the threshold of p(x), above 0.
        accumulated: the divisor of the sum of p, above 0 and at most 1.
    """

    single: Any = 1
    accumulated: Any = 1

    def __post_init__(self) -> None:
        if not (self.single > 0 and 0 < self.accumulated <= 1):
            raise InputError(
                "single must be above 0, and accumulated above 0 and at most 1, got "
                f"single={self.single} and accumulated={self.accumulated}"
            )

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        reached, total, one, kept, rest = zero_of(p), zero_of(p), one_of(p), {}, copy_of(p)
        for token in dict.fromkeys(drafts):
            total = total + p[token]
            until = one if p[token] >= self.single else max(reached, min(one, total / self.accumulated))
            kept[token], reached = until - reached, until
            set_zero(rest, token)
        distribution = normalised(rest, otherwise=p) * (1 - reached)
        for token, chance in kept.items():
            distribution[token] += chance
        return distribution


@dataclass(frozen=True)
class RelaxedAcceptance(LossyRule):
    """TensorRT-LLM's rule for thinking: the first draft among the `top` tokens of p with p(x) >= max p - delta.

    If there is none, emit argmax p. It stands in for greedy decoding. With top=1 it is greedy decoding.

    Acceptance: P(a draft is such a token), or argmax p is a draft.
    Cost: O(V top).
    Source: TensorRT-LLM, `use_relaxed_acceptance_for_thinking`, `relaxed_topk` and `relaxed_delta` of its MTP
        configuration, used between the tokens that begin and end the thinking phase. The defaults here are the setting
        recommended for DeepSeek-R1. One version of its code compares probabilities, as here.

    Attributes:
        top: number of candidates.
        delta: how far the probability of a candidate may be below the largest one.
    """

    top: int = 10
    delta: Any = 0.6

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        candidates = top_tokens(p, self.top)
        near = [token for token in candidates if p[token] >= p[candidates[0]] - self.delta]
        distribution = ArgMax()._distribution(p, p, [])
        accepted = next((token for token in drafts if token in near), None)
        if accepted is not None:
            distribution *= 0
            distribution[accepted] += 1
        return distribution


ENGINE_RULES = (
    documented("typical", Typical(Fraction(1, 4), 1), False),
    documented("acceptance-threshold", AcceptanceThreshold(accumulated=Fraction(3, 4)), False),
    documented("relaxed-acceptance", RelaxedAcceptance(2, Fraction(1, 4)), False),
)
