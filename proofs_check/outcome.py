"""What became of a check that was run, and its numbers as text without loss."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from proofs_check.verdict import CLAIMS, LEANED_ON, Claim, Status, Verdict, decide

MISSING = "no true statement is offered in its place"


@dataclass(frozen=True)
class Outcome:
    """A check that was run.

    Attributes:
        claim: what was checked.
        verdict: what came out, confirmed where the claim has a second check; None if the check failed.
        failure: why it failed, else empty.
        seconds: that it took.
    """

    claim: Claim
    verdict: Verdict | None
    failure: str
    seconds: float

    @property
    def status(self) -> Status | Literal["failed"]:
        """That of the verdict, or `failed`: the check or its second no longer comes out."""
        return self.verdict.status if self.verdict else "failed"

    @property
    def truth(self) -> str:
        """What is true, in words."""
        if self.verdict is None:
            return ""
        if self.verdict.status == "holds":
            return "as printed"
        return self.verdict.corrected or MISSING

    def to_json(self) -> dict[str, Any]:
        """For programs; numbers that are no integers are strings such as `2/3`, so that none is rounded."""
        found = self.verdict
        return {
            "id": self.claim.id,
            "status": self.status,
            "evidence": found.evidence if found else self.failure,
            "method": found.method if found else None,
            "counterexample": plain(found.counterexample) if found else None,
            "corrected": found.corrected if found else None,
            "source": self.claim.source,
            "statement": "\n\n".join(paragraphs(self.claim.statement)),
            "seconds": round(self.seconds, 3),
        }

    @property
    def where(self) -> str:
        """Where the claim stands in its paper, and whether it is only leaned on, in few words."""
        place = self.claim.source.removesuffix(f" ({LEANED_ON})").partition(", ")[2]
        return place if self.claim.stated else f"leaned on: {place}"


def outcome(name: str, effort: int = 1) -> Outcome:
    """Run the check of one claim, whatever becomes of it.

    Raises:
        ModuleNotFoundError: it needs a package that is not installed, so nothing is known.
    """
    start = time.perf_counter()
    verdict, failure = None, ""
    try:
        verdict = decide(name, effort)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # whatever a check raises, it no longer comes out
        failure = f"{type(error).__name__}: {error}"
    return Outcome(CLAIMS[name], verdict, failure, time.perf_counter() - start)


def outcomes(names: Iterable[str], effort: int = 1) -> Iterator[Outcome]:
    """One after another."""
    return (outcome(name, effort) for name in names)


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


def plain(value: Any) -> Any:
    """`value` in what JSON has: whole numbers, strings, lists and objects."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def spelled(value: Any) -> str:
    """`value` in one line, such as `A: 1/2, B: 1/2` or `(1, 0), (2/3, 1/3)`; the empty name is the root's."""
    value = plain(value)
    if isinstance(value, dict):
        return ", ".join(f"{key or 'root'}: {_bracketed(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_bracketed(inner) or "root" for inner in value)
    return "none" if value is None else str(value)


def _bracketed(value: Any) -> str:
    left, right = "{}" if isinstance(value, dict) else "()" if isinstance(value, list) else ("", "")
    return left + spelled(value) + right


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a docstring, each in one line unless it is laid out by hand."""
    found = [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    return [part if re.search(r"^([ ]|[-*] )", part, re.MULTILINE) else " ".join(part.split()) for part in found]
