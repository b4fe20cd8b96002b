"""Formulas in the sentences of claims: read from the text, and evaluated on the cases of the check.

A sentence states what it asserts in formulas between double brackets:

    [[every factor: gap <= 0 implies p_acc <= acceptance]]
    [[some factor: gap <= 0 and acceptance > acceptance_at_root]]

`factor` names cases that the check returns, each with values for the names of the formula. So the sentence that is
printed is the predicate that is evaluated: a sentence whose formula is false fails the claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import CodeType
from typing import Any

from spectheory.core.errors import InputError

Values = Mapping[str, Any]
"""The values of the names in the formulas for one case."""
BRACKETS = re.compile(r"\[\[(.*?)\]\](?!\])", re.S)
SHAPE = re.compile(r"(every|some) (\w+): (.+)", re.S)


def falling(values: Sequence[Any]) -> bool:
    """Whether no value is larger than the one before."""
    return all(one >= other for one, other in pairwise(values))


def strictly_falling(values: Sequence[Any]) -> bool:
    """Whether each value is smaller than the one before."""
    return all(one > other for one, other in pairwise(values))


FUNCTIONS = {one.__name__: one for one in (abs, len, max, min, sum, falling, strictly_falling)}
"""What a formula may call."""
OPPOSITES = ({"<=", ">"}, {">=", "<"}, {"==", "!="}, {"in", "not"})
"""Symbols that deny each other: to exchange them is no repair."""


@dataclass(frozen=True)
class Formula:
    """A formula of a sentence.

    Attributes:
        quantifier: `every` or `some`.
        over: the name of the cases.
        premise: the part before `implies`; empty if there is none.
        conclusion: the part after `implies`, or all of it.
    """

    quantifier: str
    over: str
    premise: str
    conclusion: str

    @property
    def names(self) -> set[str]:
        """The names that a case has to give values for."""
        return {name for part in (self.premise or "0", self.conclusion) for name in _compiled(part).co_names} - set(
            FUNCTIONS
        )

    def told(self, code: str = "") -> str:
        """The formula in a line of text, its symbols between two `code` marks."""
        then = f"{self.premise} implies {self.conclusion}" if self.premise else self.conclusion
        return f"for {self.quantifier} {self.over.replace('_', ' ')}, {code}{then}{code}"


@dataclass
class Judged:
    """What the cases say of a formula.

    Attributes:
        cases: how many satisfy the premise.
        against: the first case that breaks an `every`; None if there is none.
        witness: whether a case satisfies the conclusion too.
    """

    cases: int = 0
    against: Values | None = None
    witness: bool = False

    def look(self, formula: Formula, case: Values) -> None:
        """Look at one more case."""
        if not formula.premise or _value(formula.premise, case):
            self.cases += 1
            if _value(formula.conclusion, case):
                self.witness = True
            elif formula.quantifier == "every" and self.against is None:
                self.against = case

    def is_true(self, formula: Formula) -> bool:
        """Whether the formula is true; an `every` without a case that satisfies its premise is not."""
        return self.witness and (formula.quantifier == "some" or self.against is None)


def formulas(text: str | None) -> list[Formula]:
    """The formulas of a text, in order."""
    return [_formula(" ".join(found.split())) for found in BRACKETS.findall(text or "")]


@cache
def _formula(source: str) -> Formula:
    if (shape := SHAPE.fullmatch(source)) is None:
        raise InputError(f"a formula must be [[every CASE: ...]] or [[some CASE: ...]], got [[{source}]]")
    quantifier, over, rest = shape.groups()
    premise, implies, conclusion = rest.partition(" implies ")
    if not implies:
        premise, conclusion = "", rest
    found = Formula(quantifier, over, premise.strip(), conclusion.strip())
    try:
        _ = found.names
    except SyntaxError as error:
        raise InputError(f"a formula must be an expression: got {rest!r}") from error
    return found


def judged(given: Iterable[Formula], cases: Mapping[str, Iterable[Values]]) -> dict[Formula, Judged]:
    """Evaluate formulas on the cases that they are about; all formulas on the same cases in one pass."""
    found = {formula: Judged() for formula in given}
    for over in dict.fromkeys(formula.over for formula in found):
        if over not in cases:
            raise InputError(f"the check returns no cases {over}: it has {', '.join(cases) or 'none'}")
        about = [(formula, so_far) for formula, so_far in found.items() if formula.over == over]
        for case in cases[over]:
            for formula, so_far in about:
                so_far.look(formula, case)
    return found


def keeps_the_conclusion(printed: Formula, repaired: Formula) -> bool:
    """Whether a repair keeps the conclusion: the same under another premise, or with one symbol changed, not denied."""
    if printed.quantifier != repaired.quantifier:
        return False
    if printed.conclusion == repaired.conclusion and printed != repaired:
        return True
    if printed.premise != repaired.premise or printed.over != repaired.over:
        return False
    one, other = (re.findall(r"\w+|[^\w\s]+", formula.conclusion) for formula in (printed, repaired))
    changed = [{a, b} for a, b in zip(one, other, strict=False) if a != b]
    return len(one) == len(other) and len(changed) == 1 and changed[0] not in OPPOSITES


def in_words(text: str, code: str = "") -> str:
    """The text with its formulas in plain words, their symbols between two `code` marks."""
    return BRACKETS.sub(lambda found: _begun(text, found, _formula(" ".join(found[1].split())).told(code)), text)


def _begun(text: str, found: re.Match[str], words: str) -> str:
    """The words of a formula, with a capital at the start of a sentence."""
    before = text[: found.start()].rstrip()
    return words[0].upper() + words[1:] if not before or before[-1] == "." else words


@cache
def _compiled(part: str) -> CodeType:
    return compile(part, "<formula>", "eval")


def _value(part: str, case: Values) -> Any:
    return eval(_compiled(part), {"__builtins__": {}, **FUNCTIONS}, case)
