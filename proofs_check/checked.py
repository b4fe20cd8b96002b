"""Claims that were checked, and the texts that say what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from proofs_check.claims import CLAIMS, Claim, Finding, Status, decide, filled
from proofs_check.plain import plain
from proofs_check.sentences import in_words

MISSING = "no true statement is offered in its place"


@dataclass(frozen=True)
class CheckedClaim:
    """A claim whose check was run.

    Attributes:
        claim: the claim that was checked.
        finding: what the check found, confirmed where the claim has a second check; None if the check failed.
        failure: why the check failed; empty if it did not.
        seconds: run time of the check and of its second check.
    """

    claim: Claim
    finding: Finding | None
    failure: str
    seconds: float

    @property
    def status(self) -> Status | Literal["failed"]:
        """The status that was found, or `failed` if the check or its second check raised an error."""
        return self.finding.status if self.finding else "failed"

    def text(self, name: Literal["method", "evidence", "corrected", "second", "size"]) -> str | None:
        """One of the texts with the numbers that were found; None if the claim has none, or the check failed."""
        text = getattr(self.claim, name)
        return filled(text, self.finding.numbers) if self.finding and text is not None else None

    def truth(self, code: str = "") -> str:
        """What is true, its formulas between two `code` marks; empty if the check failed."""
        if self.finding is None:
            return ""
        return "as printed" if self.status == "holds" else in_words(self.text("corrected") or MISSING, code)

    @property
    def evidence(self) -> str:
        """The evidence of the check and of its second check, or why the check failed."""
        again = self.text("second")
        return (self.text("evidence") or self.failure) + (f" Second check: {again}" if again else "")

    def to_json(self) -> dict[str, Any]:
        """The result for programs; fractions are strings such as `2/3`, so that no number is rounded."""
        return {
            "id": self.claim.id,
            "status": self.status,
            "evidence": self.evidence,
            "method": self.text("method"),
            "counterexample": plain(self.finding.counterexample) if self.finding else None,
            "corrected": in_words(self.text("corrected") or "") or None,
            "weight": self.claim.weight if self.finding else None,
            "size": self.text("size"),
            "source": self.claim.place,
            "statement": in_words(self.claim.statement),
            "quotes": dict(self.claim.quotes),
            "terms": dict(self.claim.terms),
            "seconds": round(self.seconds, 3),
        }


def check_claim(name: str, effort: int = 1) -> CheckedClaim:
    """Run the check of one claim; an error of the check is recorded, not raised.

    Raises:
        ModuleNotFoundError: it needs a package that is not installed, so nothing is known.
    """
    start = time.perf_counter()
    finding, failure = None, ""
    try:
        finding = decide(name, effort)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # whatever a check raises, its claim is undecided
        failure = f"{type(error).__name__}: {error}"
    return CheckedClaim(CLAIMS[name], finding, failure, time.perf_counter() - start)
