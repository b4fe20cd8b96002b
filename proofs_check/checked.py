"""Claims that were checked, and the texts that say what was found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from proofs_check.claims import CLAIMS, LEANED_ON, Claim, Finding, Paper, Status, decide, filled
from proofs_check.plain import plain
from proofs_check.sentences import in_plain

MISSING = "no true statement is offered in its place"
AGAIN = " Second check: "
"""Printed between the evidence of the first check and the words of the second check."""


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

    @property
    def weight(self) -> str | None:
        """What the claim costs who relies on it; None if it holds, or the check failed."""
        return self.claim.weight if self.finding else None

    @property
    def statement(self) -> str:
        """What the paper prints, in plain text."""
        return in_plain(self.claim.statement)

    @property
    def truth(self) -> str:
        """What is true, in words."""
        if self.finding is None:
            return ""
        return "as printed" if self.status == "holds" else in_plain(self.text("corrected") or MISSING)

    @property
    def evidence(self) -> str:
        """The evidence of the check and of its second check."""
        again = self.text("second")
        return (self.text("evidence") or "") + (AGAIN + again if again else "")

    @property
    def source(self) -> str:
        """Where the claim is printed, and whether the paper only relies on it without stating it."""
        return self.claim.source if self.claim.stated else f"{self.claim.source} ({LEANED_ON})"

    @property
    def where(self) -> str:
        """The place of the claim within its paper, marked if the paper only relies on the claim."""
        place = self.claim.source.partition(", ")[2]
        return place if self.claim.stated else f"leaned on: {place}"

    def to_json(self) -> dict[str, Any]:
        """The result for programs; fractions are strings such as `2/3`, so that no number is rounded."""
        return {
            "id": self.claim.id,
            "status": self.status,
            "evidence": self.evidence if self.finding else self.failure,
            "method": self.text("method"),
            "counterexample": plain(self.finding.counterexample) if self.finding else None,
            "corrected": in_plain(self.text("corrected") or "") or None,
            "weight": self.weight,
            "size": self.text("size"),
            "source": self.source,
            "statement": self.statement,
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


def check_claims(names: Iterable[str], effort: int = 1) -> Iterator[CheckedClaim]:
    """Run the checks of these claims one after another."""
    return (check_claim(name, effort) for name in names)


def practice(paper: Paper) -> str:
    """What to do differently, with the recorded numbers of the paper's claims; empty if nothing is said."""
    return filled(paper.practice, {name: one.numbers for name, one in CLAIMS.items() if one.paper is paper})


def leaned_on(names: Iterable[str], statuses: Iterable[str]) -> str:
    """How many of these claims the papers do not state, by status; empty if there are none.

    Args:
        names: ids of the claims.
        statuses: found status of each claim, in the same order.
    """
    apart = [status for name, status in zip(names, statuses, strict=True) if not CLAIMS[name].stated]
    count = {status: apart.count(status) for status in ("holds", "corrected", "false", "failed")}
    said = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    return f"{len(apart)} of them {LEANED_ON}: {said}" if apart else ""
