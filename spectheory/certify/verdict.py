"""The verdicts of certificates, and their exit statuses."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The answer of a certifier to the question whether a verifier or a step keeps the target's distribution."""

    LOSSLESS = "keeps the target's distribution in every case covered"
    WITHIN = "its total variation from the target is below the stated limit, at the stated level"
    LOSSY = "does not keep the target's distribution"
    UNDECIDED = "it could not be run, or more runs are needed"

    @property
    def exit_status(self) -> int:
        """Exit status of `spectheory certify`: 0 for LOSSLESS and WITHIN, 1 for LOSSY, 2 for UNDECIDED."""
        return {Verdict.LOSSY: 1, Verdict.UNDECIDED: 2}.get(self, 0)
