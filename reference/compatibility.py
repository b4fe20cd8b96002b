"""Which verifiers are lossless for which drafters."""

from __future__ import annotations

from reference.drafters import Drafter
from reference.sampling import Sampling
from spectheory.verify import Verifier


def incompatibility(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why the verifier cannot be used with the drafter; None where it can."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if verifier.takes == "chains" and not drafter.chains:
        return "verifies chains only"
    if verifier.takes == "paths" and not drafter.paths:
        return "verifies independent paths of one length only"
    return None
