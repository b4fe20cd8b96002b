"""Which verifiers keep the target's law for the drafts of a drafter."""

from __future__ import annotations

from reference.drafters import Drafter
from reference.sampling import Sampling
from spectheory.verify import Verifier


def unfit(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why these do not go together; None where they do."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if verifier.takes == "chains" and not drafter.chains:
        return "verifies chains only"
    if verifier.takes == "paths" and not drafter.paths:
        return "verifies independent paths of one length only"
    return None
