"""Whether a verifier is lossless for a drafter."""

from __future__ import annotations

from reference.drafters import Drafter
from reference.sampling import Sampling
from spectheory.verify import Verifier


def incompatibility(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why the verifier cannot be used with the drafter, such as "verifies chains only"; None if it can be used."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if verifier.takes == "chains" and not drafter.chains:
        return "verifies chains only"
    if verifier.takes == "paths" and not drafter.paths:
        return "verifies independent paths of one length only"
    return None
