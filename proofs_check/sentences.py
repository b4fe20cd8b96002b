"""Formulas in the sentences of claims: read from the text, evaluated on the cases of the check, and typeset.

A sentence states what it asserts in formulas between double brackets:

    [[every factor: gap <= 0 implies p_acc <= acceptance]]
    [[some factor: gap <= 0 and acceptance > acceptance_at_root]]

`factor` names cases that the check returns, each with values for the names of the formula. So the sentence that is
printed is the predicate that is evaluated: a sentence whose formula is false fails the claim.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from proofs_check.evaluation import Evaluation, evaluation
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
GREEK = {"alpha", "beta", "gamma", "delta", "epsilon", "eta", "mu", "rho", "tau"}
SIGNS: dict[type[ast.AST], str] = {
    ast.LtE: r"\le",
    ast.GtE: r"\ge",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.Eq: "=",
    ast.NotEq: r"\ne",
    ast.In: r"\in",
    ast.NotIn: r"\notin",
    ast.Is: "=",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: r"\,",
    ast.Div: "/",
    ast.And: r"\text{ and }",
    ast.Or: r"\text{ or }",
}

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
        nodes = (node for part in (self.premise, self.conclusion) if part for node in ast.walk(_parsed(part)))
        return {node.id for node in nodes if isinstance(node, ast.Name)} - set(FUNCTIONS)

    def applies(self, case: Values) -> bool:
        """Whether the case satisfies the premise."""
        return not self.premise or bool(_compiled(self.premise)(case))

    def concludes(self, case: Values) -> bool:
        """Whether the case satisfies the conclusion."""
        return bool(_compiled(self.conclusion)(case))

    def plain(self) -> str:
        """The formula in a line of text."""
        then = f"{self.premise} implies {self.conclusion}" if self.premise else self.conclusion
        return f"for {self.quantifier} {_spaced(self.over)}, {then}"

    def typeset(self) -> str:
        """The formula in words and LaTeX."""
        told = f"${_latex(self.conclusion)}$"
        told = f"if ${_latex(self.premise)}$ then {told}" if self.premise else told
        return f"for {self.quantifier} {_spaced(self.over)}, {told}"


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

    def settles(self, formula: Formula, case: Values) -> bool:
        """Look at one more case; whether no further case can change what is known."""
        if not formula.applies(case):
            return False
        self.cases += 1
        concluded = formula.concludes(case)
        self.witness |= concluded
        if formula.quantifier == "every" and not concluded:
            self.against = case
        return self.witness if formula.quantifier == "some" else self.against is not None

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
    for part in filter(None, (premise, conclusion)):
        _parsed(part)
    return Formula(quantifier, over, premise.strip(), conclusion.strip())


def judged(given: Iterable[Formula], cases: Mapping[str, Iterable[Values]]) -> dict[Formula, Judged]:
    """Evaluate formulas on the cases that they are about; all formulas on the same cases in one pass."""
    found = {formula: Judged() for formula in given}
    for over in dict.fromkeys(formula.over for formula in found):
        if over not in cases:
            raise InputError(f"the check returns no cases {over}: it has {', '.join(cases) or 'none'}")
        open_ones = {formula: so_far for formula, so_far in found.items() if formula.over == over}
        for case in cases[over]:
            for formula in [formula for formula, so_far in open_ones.items() if so_far.settles(formula, case)]:
                del open_ones[formula]
            if not open_ones:
                break
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


def in_plain(text: str) -> str:
    """The text with its formulas in plain words."""
    return BRACKETS.sub(lambda found: _begun(text, found, _formula(" ".join(found[1].split())).plain()), text)


def in_latex(text: str) -> str:
    """The text with its formulas typeset, for Markdown."""
    return BRACKETS.sub(lambda found: _begun(text, found, _formula(" ".join(found[1].split())).typeset()), text)


def outside(text: str) -> str:
    """The text without its formulas."""
    return BRACKETS.sub("", text)


def _begun(text: str, found: re.Match[str], words: str) -> str:
    """The words of a formula, with a capital at the start of a sentence."""
    before = text[: found.start()].rstrip()
    return words[0].upper() + words[1:] if not before or (before[-1] in ".:" and before[-1] != ":") else words


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _parsed(part: str) -> ast.Expression:
    try:
        return ast.parse(part.strip(), mode="eval")
    except SyntaxError as error:
        raise InputError(f"a formula must be an expression: got {part!r}") from error


@cache
def _compiled(part: str) -> Evaluation:
    return evaluation(_parsed(part).body, FUNCTIONS)


@cache
def _latex(part: str) -> str:
    return "".join(_tex(_parsed(part).body))


def _tex(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield _symbol(name)
        case ast.Constant(value=str(words)):
            yield f"\\text{{{words}}}"
        case ast.Constant(value=value):
            yield str(value)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            yield from _tex(left)
            for sign, right in zip(ops, rest, strict=True):
                yield f" {SIGNS[type(sign)]} "
                yield from _tex(right)
        case ast.BoolOp(op=op, values=values):
            for at, value in enumerate(values):
                yield SIGNS[type(op)] if at else ""
                yield from _closed(value, ast.BoolOp)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield r"\text{not }"
            yield from _closed(operand, ast.BoolOp, ast.Compare)
        case ast.UnaryOp(operand=operand):
            yield "-"
            yield from _closed(operand, ast.BinOp)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            yield from _closed(left, ast.BinOp)
            yield f"^{{{''.join(_tex(right))}}}"
        case ast.BinOp(left=left, op=op, right=right):
            tight = not isinstance(op, ast.Add | ast.Sub)
            yield from _closed(left, ast.BinOp) if tight and _loose(left) else _tex(left)
            yield f" {SIGNS[type(op)]} "
            yield from _closed(right, ast.BinOp) if tight or isinstance(op, ast.Sub) else _tex(right)
        case ast.Call(func=ast.Name(id=name), args=args):
            inner = ", ".join("".join(_tex(one)) for one in args)
            called = f"\\{name}" if name in ("min", "max") else f"\\text{{{_spaced(name)}}}"
            yield f"|{inner}|" if name == "abs" else f"{called}({inner})"
        case ast.Subscript(value=value, slice=index):
            yield f"{''.join(_tex(value))}_{{{''.join(_tex(index))}}}"
        case ast.List(elts=items) | ast.Tuple(elts=items):
            yield f"({', '.join(''.join(_tex(one)) for one in items)})"
        case _:
            raise InputError(f"a formula must not have {ast.unparse(node)}")


def _loose(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _closed(node: ast.AST, *kinds: type[ast.AST]) -> Iterator[str]:
    inner = "".join(_tex(node))
    yield f"({inner})" if isinstance(node, kinds) else inner


def _symbol(name: str) -> str:
    head, _, tail = name.partition("_")
    letter = f"\\{head}" if head in GREEK else head
    if head not in GREEK and len(head) > 1:
        return f"\\text{{{_spaced(name)}}}"
    return f"{letter}_{{{tail if len(tail) == 1 else f'{chr(92)}text{{{_spaced(tail)}}}'}}}" if tail else letter
