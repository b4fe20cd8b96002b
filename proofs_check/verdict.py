"""A verdict on one claim of a paper, and the register of the functions that find and confirm them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from spectheory.core.errors import InputError

Status = Literal["holds", "corrected", "false"]
Case = TypeVar("Case")
RULE = (
    "corrected: the same conclusion holds under a stated extra assumption or with one symbol changed; false: the "
    "conclusion itself fails"
)
"""By which what does not hold as printed is called one or the other."""


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        status: `holds` as printed, else by RULE `corrected`, the repair being in `corrected`, or `false`.
        evidence: what was computed, and why it is enough.
        method: how: a symbolic proof, exact enumeration over which cases, a linear program, a counterexample.
        counterexample: the smallest case that breaks the printed statement, as plain data of exact numbers; None where
            it holds.
        corrected: the repaired statement; for `false` a true statement in its place, or None.
    """

    status: Status
    evidence: str
    method: str
    counterexample: dict[str, Any] | None = None
    corrected: str | None = None

    def __post_init__(self) -> None:
        if (self.status == "holds") != (self.counterexample is None):
            raise InputError(f"counterexample must be given unless the claim holds, got {self.status}")
        if (self.status, self.corrected is None) in (("corrected", True), ("holds", False)):
            raise InputError(f"corrected must be given for `corrected` and not for `holds`, got {self.status}")

    @property
    def case(self) -> dict[str, Any]:
        """The counterexample of a claim that has one."""
        assert self.counterexample is not None
        return self.counterexample


Check = Callable[[int], Verdict]
"""Finds the verdict; 1 is the effort of a test run, 2 looks at more cases."""
Confirm = Callable[[Verdict], str]
"""Goes through a verdict again by other means, and says which; raises where it disagrees."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes:
        id: such as `O-3.1`.
        source: paper, and theorem or equation; and whether the paper only leans on it.
        statement: as printed, precise enough to be checked, with its assumptions.
        check: finds the verdict.
    """

    id: str
    source: str
    statement: str
    check: Check

    @property
    def stated(self) -> bool:
        """Whether the paper states it, and does not only lean on it."""
        return LEANED_ON not in self.source


CLAIMS: dict[str, Claim] = {}
"""By id, as they were registered."""
SECOND: dict[str, Confirm] = {}
"""By id: the second check, written apart from the first; each claim that does not simply hold has one."""
LEANED_ON = "leaned on, not stated"
"""Of a claim that the paper needs and does not print."""
AGAIN = " Second check: "
"""Between the evidence of the first check and the words of the second."""


def claim(name: str, *, source: str, stated: bool = True) -> Callable[[Check], Check]:
    """Register the decorated check under the claim id `name`; its docstring is the statement.

    What is not `stated` is a reading of what the paper leans on, and the source says so wherever it is shown.
    """

    def register(check: Check) -> Check:
        if name in CLAIMS:
            raise InputError(f"claim {name} has a check already")
        if not check.__doc__:
            raise InputError(f"the check of {name} must state the claim in its docstring")
        where = source if stated else f"{source} ({LEANED_ON})"
        CLAIMS[name] = Claim(name, where, inspect.cleandoc(check.__doc__), check)
        return check

    return register


def second(name: str) -> Callable[[Confirm], Confirm]:
    """Register the decorated function as the second check of the claim `name`."""

    def register(confirm: Confirm) -> Confirm:
        if name in SECOND:
            raise InputError(f"claim {name} has a second check already")
        SECOND[name] = confirm
        return confirm

    return register


def decide(name: str, effort: int = 1) -> Verdict:
    """The verdict on one claim, confirmed by its second check where it has one.

    Raises:
        AssertionError: the second check disagrees.
        RuntimeError: Python runs without assertions, of which second checks are made.
    """
    if not __debug__:
        raise RuntimeError("second checks are assertions: run Python without -O")
    found = CLAIMS[name].check(effort)
    if name not in SECOND:
        return found
    return Verdict(**{**vars(found), "evidence": found.evidence + AGAIN + SECOND[name](found)})


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
