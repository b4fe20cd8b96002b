"""A verdict on one claim of a paper, and the register of the functions that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Word = Literal["holds", "corrected", "false"]
Case = TypeVar("Case")


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        verdict: `holds`; `corrected`, true after the repair in `truth`; `false`.
        evidence: what was computed, and why it is enough.
        truth: the repaired statement; for `false` a true statement in its place, or None.
        counterexample: the smallest case that breaks the printed statement, as plain data; None where it holds.
    """

    verdict: Word
    evidence: str
    truth: str | None = None
    counterexample: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.verdict == "holds") != (self.counterexample is None):
            raise ValueError(f"counterexample must be given unless the claim holds, got {self.verdict}")
        if (self.verdict == "corrected" and self.truth is None) or (self.verdict == "holds" and self.truth is not None):
            raise ValueError(f"truth must be given for `corrected` and not for `holds`, got {self.verdict}")


@dataclass(frozen=True, kw_only=True)
class Verdict(Finding):
    """A finding with the claim it is about.

    Attributes:
        claim: id, such as `O-3.1`.
        source: paper, and theorem or equation.
        statement: as printed.
    """

    claim: str
    source: str
    statement: str


CLAIMS: dict[str, Callable[[], Verdict]] = {}
"""For each claim id the function that finds its verdict, computed at each call."""


def claim(name: str, source: str, statement: str) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    """Register the decorated check under the claim id `name`."""

    def register(check: Callable[[], Finding]) -> Callable[[], Finding]:
        if name in CLAIMS:
            raise ValueError(f"claim {name} has a check already")
        CLAIMS[name] = lambda: Verdict(claim=name, source=source, statement=statement, **vars(check()))
        return check

    return register


def smallest(cases: Iterable[Case], breaks: Callable[[Case], bool]) -> Case:
    """The first case that breaks a statement; the cases come in order of size.

    Raises:
        LookupError: none does, so the verdict that rests on it is wrong.
    """
    for case in cases:
        if breaks(case):
            return case
    raise LookupError("no counterexample among the cases")


def every(cases: Iterable[Case], holds: Callable[[Case], bool]) -> int:
    """The number of cases, all of which satisfy a statement.

    Raises:
        ArithmeticError: one does not, so the verdict that rests on it is wrong.
    """
    count = 0
    for case in cases:
        if not holds(case):
            raise ArithmeticError(f"the statement fails on {case}")
        count += 1
    return count
