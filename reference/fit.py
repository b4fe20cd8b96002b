"""Which verifiers keep the target's law for the drafts of a drafter."""

from __future__ import annotations

from reference.drafters import Drafter
from reference.sampling import Sampling
from spectheory.verify import GreedyMultiPathBlock, Verifier
from spectheory.verify.single_path import SinglePath


def unfit(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why these do not go together; None where they do."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if isinstance(verifier, SinglePath) and not drafter.chains:
        return "verifies chains only"
    if isinstance(verifier, GreedyMultiPathBlock) and not drafter.paths:
        return "verifies independent paths of one length only"
    return None
