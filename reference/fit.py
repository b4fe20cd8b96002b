"""Which verifiers keep the target's law for the drafts of a drafter."""

from __future__ import annotations

from reference.drafters import Drafter, Drawn, StaticTree
from reference.sampling import Sampling
from spectheory.verify import GreedyMultiPathBlock, Verifier
from spectheory.verify.single_path import SinglePath
from spectheory.world import Levels, Paths


def unfit(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why these do not go together; None where they do."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if isinstance(verifier, SinglePath) and not _is_chain(drafter):
        return "verifies chains only"
    paths = isinstance(drafter, Drawn) and isinstance(drafter.policy, Paths)
    if isinstance(verifier, GreedyMultiPathBlock) and not (paths or _is_chain(drafter)):
        return "verifies independent paths of one length only"
    return None


def _is_chain(drafter: Drafter) -> bool:
    if isinstance(drafter, StaticTree):
        return drafter.tree.is_chain
    policy = drafter.policy if isinstance(drafter, Drawn) else None
    if isinstance(policy, Paths):
        return policy.paths == 1
    return isinstance(policy, Levels) and set(policy.counts) == {1}
