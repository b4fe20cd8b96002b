"""The verdicts of certificates, and their exit statuses."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The answer to: does it keep the target's distribution? The exit status of `spectheory certify` goes by it."""

    LOSSLESS = "keeps the target's distribution in every case covered"
    WITHIN = "within the stated total variation of the target, at the stated level"
    LOSSY = "does not keep the target's distribution"
    UNDECIDED = "it could not be run, or more would have to be seen"

    @property
    def exit_status(self) -> int:
        """0 where it keeps the target, 1 where it does not, 2 where that is open."""
        return {Verdict.LOSSY: 1, Verdict.UNDECIDED: 2}.get(self, 0)
