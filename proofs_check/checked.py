"""Claims that were checked, and the texts that say what was found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from proofs_check.claims import CLAIMS, LEANED_ON, Claim, Finding, Status, decide, filled
from proofs_check.plain import plain

MISSING = "no true statement is offered in its place"
AGAIN = " Second check: "
"""Between the evidence of the first check and the words of the second."""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim whose check was run.

    Attributes:
        claim: what was checked.
        finding: what the check found, confirmed where the claim has a second check; None if the check failed.
        failure: why it failed, else empty.
        seconds: that it took.
    """

    claim: Claim
    finding: Finding | None
    failure: str
    seconds: float

    @property
    def status(self) -> Status | Literal["failed"]:
        """What was found, or `failed`: the check or its second no longer comes out."""
        return self.finding.status if self.finding else "failed"

    def text(self, name: Literal["method", "evidence", "corrected", "second"]) -> str | None:
        """One of the texts with the numbers that were found; None if the claim has none, or the check failed."""
        text = getattr(self.claim, name)
        return filled(text, self.finding.numbers) if self.finding and text is not None else None

    @property
    def truth(self) -> str:
        """What is true, in words."""
        if self.finding is None:
            return ""
        return "as printed" if self.status == "holds" else self.text("corrected") or MISSING

    @property
    def evidence(self) -> str:
        """The evidence of the check, and of the second."""
        again = self.text("second")
        return (self.text("evidence") or "") + (AGAIN + again if again else "")

    @property
    def source(self) -> str:
        """Where the claim is printed, and whether it is only leaned on."""
        return self.claim.source if self.claim.stated else f"{self.claim.source} ({LEANED_ON})"

    @property
    def where(self) -> str:
        """Where the claim is in its paper, and whether it is only leaned on, in few words."""
        place = self.claim.source.partition(", ")[2]
        return place if self.claim.stated else f"leaned on: {place}"

    def to_json(self) -> dict[str, Any]:
        """For programs; numbers that are no integers are strings such as `2/3`, so that none is rounded."""
        return {
            "id": self.claim.id,
            "status": self.status,
            "evidence": self.evidence if self.finding else self.failure,
            "method": self.text("method"),
            "counterexample": plain(self.finding.counterexample) if self.finding else None,
            "corrected": self.text("corrected"),
            "source": self.source,
            "statement": self.claim.statement,
            "seconds": round(self.seconds, 3),
        }


def check_claim(name: str, effort: int = 1) -> CheckedClaim:
    """Run the check of one claim, whatever becomes of it.

    Raises:
        ModuleNotFoundError: it needs a package that is not installed, so nothing is known.
    """
    start = time.perf_counter()
    finding, failure = None, ""
    try:
        finding = decide(name, effort)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # whatever a check raises, it no longer comes out
        failure = f"{type(error).__name__}: {error}"
    return CheckedClaim(CLAIMS[name], finding, failure, time.perf_counter() - start)


def check_claims(names: Iterable[str], effort: int = 1) -> Iterator[CheckedClaim]:
    """One after another."""
    return (check_claim(name, effort) for name in names)


def leaned_on(names: Iterable[str], statuses: Iterable[str]) -> str:
    """How many of these claims the papers do not state, by status; empty if there are none.

    Args:
        names: of the claims.
        statuses: what came of each.
    """
    apart = [status for name, status in zip(names, statuses, strict=True) if not CLAIMS[name].stated]
    count = {status: apart.count(status) for status in ("holds", "corrected", "false", "failed")}
    said = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    return f"{len(apart)} of them {LEANED_ON}: {said}" if apart else ""
