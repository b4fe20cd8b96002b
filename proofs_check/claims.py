"""The claims: their texts, read from TOML, joined with the functions that check and confirm them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from string import Formatter
from sys import modules
from typing import Any, Literal, TypeVar

from proofs_check.plain import paragraphs
from proofs_check.sentences import Formula, Judged, Values, formulas, judged, keeps_the_conclusion
from spectheory.core.errors import InputError, unknown

Status = Literal["holds", "corrected", "false"]
T = TypeVar("T")
RULE = (
    "corrected: the same conclusion holds under a stated extra assumption or with one symbol changed; false: the "
    "conclusion itself fails"
)
"""How a claim that does not hold as printed is classified."""
TEXTS = "claims.toml"
"""The texts of the claims that are checked in the modules of the same folder."""
GROUP = "spectheory.claims"
"""The entry points by which other packages bring claims; each names a module, which registers them on import."""
WEIGHTS = {
    "slip": "a formula, a number or a word is wrong, and what follows from the claim does not change",
    "missing hypothesis": "the claim needs an assumption that is not stated",
    "conclusion lost": "what the claim concludes does not follow, and no small repair brings it back",
    "changes practice": "who follows the claim loses tokens or time, or the target's distribution",
}
"""What a claim that does not hold as printed costs, least first."""


@dataclass(frozen=True)
class Finding:
    """What a check found; the verdict follows from which side broke.

    Attributes:
        numbers: the numbers that the texts of the claim show, by the names of their fields.
        counterexample: the smallest case that breaks the printed statement, as plain data of exact numbers; None where
            nothing breaks it.
        kept: the number of cases in which what the printed statement concludes stands under the repair. A claim whose
            texts have formulas has it counted from these instead.
        cases: by name, the cases on which the formulas of the texts are evaluated.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    counterexample: dict[str, Any] | None = None
    kept: int = 0
    cases: Mapping[str, Iterable[Values]] = field(default_factory=dict, repr=False)

    @property
    def status(self) -> Status:
        """`holds` where nothing breaks; `corrected` where the conclusion stands under the repair, else `false`."""
        if self.counterexample is None:
            return "holds"
        return "corrected" if self.kept else "false"


Check = Callable[[int], Finding]
"""Checks a claim; 1 is the effort of a test run, 2 looks at more cases."""
Case = dict[str, Any]
"""The counterexample of a finding; empty where the claim holds."""
Confirm = Callable[[Case], Mapping[str, Any] | None]
"""Confirms a counterexample by other means; raises where it disagrees, else returns the numbers of its own words."""


@dataclass(frozen=True)
class Paper:
    """A paper whose claims are checked.

    Attributes:
        name: short name.
        title: full title.
        notes: how the checks interpret the paper.
        practice: what to do differently, with fields such as `{S-T3[count]}` for the numbers of its claims.
        bibtex: the BibTeX entry of the paper; empty for claims of this project.
    """

    name: str
    title: str
    notes: str
    practice: str = ""
    bibtex: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and its texts.

    Those from `method` on may have `{fields}` for the numbers of a finding; `statement` and `corrected` may have
    formulas, which are evaluated on the cases of the check.

    Attributes:
        id: such as `O-3.1`.
        paper: the paper that states the claim or relies on it.
        check: the function that checks the claim.
        source: paper, and theorem or equation.
        statement: as printed, precise enough to be checked, with its assumptions.
        method: how it is checked: a symbolic proof, exact enumeration over which cases, a counterexample.
        evidence: what was computed, and why it is enough.
        corrected: the repaired statement; for `false` a true statement in its place, or None.
        second: how the second check confirms the finding; None where there is no second check.
        proof: where the proof of a claim without a second check is: in one of its texts, or `keystones#anchor`.
        weight: one of WEIGHTS, for a claim that does not hold.
        size: how much that is on measured or typical rates, where a number says it.
        terms: what the names in the formulas mean.
        quotes: the paper's own sentences by their places, word for word; `[...]` marks what is left out and symbols
            that the text at hand has lost.
        open: what is not decided.
        numbers: recorded numbers by field; a fraction is written as a string such as `2/3`.
        stated: whether the paper states the claim; False if the paper only relies on it.
    """

    id: str
    paper: Paper
    check: Check
    source: str
    statement: str
    method: str
    evidence: str
    corrected: str | None = None
    second: str | None = None
    proof: str | None = None
    weight: str | None = None
    size: str | None = None
    terms: Mapping[str, str] = field(default_factory=dict)
    quotes: Mapping[str, str] = field(default_factory=dict)
    open: str | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    stated: bool = True

    def __post_init__(self) -> None:
        if self.second is None and self.proof is None:
            raise InputError(f"{self.id}: `second` or `proof` must be given: a second check, or where the proof is")
        if self.weight is not None and self.weight not in WEIGHTS:
            raise InputError(unknown(f"weight of {self.id}", self.weight, WEIGHTS))
        used = {name for one in (*self.printed, *self.repaired) for name in (one.over, *one.names)}
        if used != set(self.terms):
            differ = ", ".join(sorted(used ^ set(self.terms)))
            raise InputError(f"{self.id}: `terms` must have one entry for each name in its formulas: see {differ}")
        self.require_numbers(self.numbers, "recorded")

    @property
    def printed(self) -> list[Formula]:
        """The formulas of what the paper prints."""
        return formulas(self.statement)

    @property
    def repaired(self) -> list[Formula]:
        """The formulas of what is true instead."""
        return formulas(self.corrected)

    @property
    def place(self) -> str:
        """Where the claim is printed, and whether the paper only relies on it without stating it."""
        return self.source if self.stated else f"{self.source} (leaned on, not stated)"

    def bound(self, found: Finding) -> Finding:
        """The finding, after the formulas of the texts were evaluated on its cases.

        Raises:
            ArithmeticError: a formula does not say what the cases say.
        """
        results = judged([*self.printed, *self.repaired], found.cases)
        broken = [one for one in self.printed if not results[one].is_true(one)]
        if self.printed and bool(broken) != (found.counterexample is not None):
            said = ", ".join(one.told() for one in broken) or "none"
            raise ArithmeticError(f"the check and the printed formulas differ: the cases break {said}")
        for one in self.repaired:
            if not results[one].is_true(one):
                raise ArithmeticError(f"false: {one.told()}; {_against(results[one])}")
        if not (broken and self.repaired):
            return found
        repairs = [one for one in self.repaired if any(keeps_the_conclusion(was, one) for was in broken)]
        return replace(found, kept=sum(results[one].cases for one in repairs))

    def require(self, status: Status) -> None:
        """Refuse texts that do not fit what was found."""
        if (status, self.corrected is None) in (("corrected", True), ("holds", False)):
            raise InputError(f"{self.id}: `corrected` must be given for a corrected claim, not for one that holds")
        if status != "holds" and self.second is None:
            raise InputError(f"{self.id}: `second` must be given, as the claim does not simply hold")
        if (status == "holds") != (self.weight is None):
            raise InputError(f"{self.id}: `weight` must be given unless the claim holds")

    @property
    def fields(self) -> set[str]:
        """The names of the numbers that the texts show."""
        texts = "".join(filter(None, (self.method, self.evidence, self.corrected, self.second, self.size)))
        return {name.split("[")[0] for _, name, _, _ in Formatter().parse(texts) if name}

    def require_numbers(self, numbers: Mapping[str, Any], origin: str) -> None:
        """Refuse numbers unless they are exactly one for each field of the texts."""
        if missing := self.fields - set(numbers):
            raise InputError(f"{self.id}: fields without a number {origin}: {', '.join(sorted(missing))}")
        if useless := set(numbers) - self.fields:
            raise InputError(f"{self.id}: numbers {origin} without a field: {', '.join(sorted(useless))}")


CLAIMS: dict[str, Claim] = {}
"""Every claim by id, in the order of registration."""
SECOND: dict[str, Confirm] = {}
"""The second checks by claim id, written independently of the first; each claim that does not hold has one."""


class _Exact(Formatter):
    """Formats fractions, recorded ones too, as decimals where a text asks for decimals."""

    def format_field(self, value: Any, format_spec: str) -> str:
        is_fraction = isinstance(value, Fraction) or (isinstance(value, str) and "/" in value)
        return super().format_field(float(Fraction(value)) if is_fraction and format_spec else value, format_spec)


def filled(text: str, numbers: Mapping[str, Any]) -> str:
    """The text with its numbers in the fields."""
    return _Exact().vformat(text, (), numbers)


def _against(found: Judged) -> str:
    if found.against is not None:
        return ", ".join(f"{name} = {value}" for name, value in found.against.items())
    return "no case satisfies it"


@cache
def texts(file: Path) -> tuple[Paper, dict[str, dict[str, Any]]]:
    """The paper of a TOML file, and the texts of its claims by id, in order; lines of a paragraph are joined."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    joined = _joined(tables)
    if "paper" not in joined:
        raise InputError(f"{file} must have a table [paper] with name, title and notes")
    return Paper(**joined.pop("paper")), joined


AS_WRITTEN = ("practice", "bibtex")
"""Texts of a paper whose lines are not joined."""


def _joined(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner if key in AS_WRITTEN else _joined(inner) for key, inner in value.items()}
    return "\n\n".join(paragraphs(value)) if isinstance(value, str) else value


def texts_beside(module: str) -> Path:
    """The file of texts in the folder of an imported module."""
    return Path(modules[module].__file__ or "").with_name(TEXTS)


def claim(name: str) -> Callable[[Check], Check]:
    """Register the decorated check under the claim id `name`, whose texts are in the TOML file beside its module."""

    def register(check: Check) -> Check:
        if name in CLAIMS:
            raise InputError(f"claim {name} has a check already")
        file = texts_beside(check.__module__)
        paper, tables = texts(file)
        if name not in tables:
            raise InputError(f"{file} must have a table for claim {name}")
        known = {one.name: one.default is one.default_factory is MISSING for one in fields(Claim)[3:]}
        for key in set(tables[name]) - set(known):
            raise InputError(unknown(f"key of {name}", key, known))
        for key in (key for key, needed in known.items() if needed and key not in tables[name]):
            raise InputError(f"{file}: the table of {name} must have {key}")
        CLAIMS[name] = Claim(name, paper, check, **tables[name])
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


def gather(packages: Iterable[str]) -> None:
    """Import every module of these packages and of the entry points of GROUP, so that their claims are registered."""
    for package in packages:
        for module in iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            raise InputError(
                f"entry point {point.name} = {point.value} of {GROUP} does not load ({type(error).__name__}: {error}): "
                "repair or uninstall the package that declares it"
            ) from error
    for file in dict.fromkeys(texts_beside(one.check.__module__) for one in CLAIMS.values()):
        for name, table in texts(file)[1].items():
            if name not in CLAIMS:
                raise InputError(f"{file} has a table for {name}, which has no check")
            if ("second" in table) != (name in SECOND):
                raise InputError(f"{name} must have both `second` in {file} and a second check, or neither")


def decide(name: str, effort: int = 1) -> Finding:
    """The finding on one claim, confirmed by its second check where it has one.

    Raises:
        AssertionError: the second check disagrees.
        ArithmeticError: a statement or a formula of the texts fails.
        RuntimeError: Python runs without assertions, of which second checks are made.
    """
    if not __debug__:
        raise RuntimeError("second checks are assertions: run Python without -O")
    found = CLAIMS[name].bound(CLAIMS[name].check(effort))
    numbers = (SECOND[name](found.counterexample or {}) or {}) if name in SECOND else {}
    if twice := set(numbers) & set(found.numbers):
        raise InputError(f"{name}: two checks must not return the same number: {', '.join(sorted(twice))}")
    CLAIMS[name].require(found.status)
    CLAIMS[name].require_numbers({**found.numbers, **numbers}, "found")
    return replace(found, numbers={**found.numbers, **numbers})


def papers() -> list[Paper]:
    """The papers, in the order in which they are shown."""
    return list(dict.fromkeys(one.paper for one in CLAIMS.values()))


def in_order(names: Iterable[str]) -> list[str]:
    """The same claims in the order of the papers and of their claims.toml files."""
    files = dict.fromkeys(texts_beside(one.check.__module__) for one in CLAIMS.values())
    order = [name for file in files for name in texts(file)[1]]
    return sorted(names, key=order.index)


def named(name: str, known: Iterable[str]) -> list[str]:
    """The claim with that id, else all claims whose ids begin with it, such as `G` for Goose; case does not matter.

    Raises:
        InputError: there is none.
    """
    ids, start = list(known), name.upper()
    found = [start] if start in ids else in_order(one for one in ids if one.startswith(f"{start}-"))
    if not found:
        raise InputError(unknown("claim", name, ids))
    return found


def smallest(cases: Iterable[T], breaks: Callable[..., bool]) -> T:
    """The first case that breaks a statement; cases are in order of size, and a tuple is passed as separate arguments.

    Raises:
        LookupError: none does, so the finding that rests on it is wrong.
    """
    for case in cases:
        if breaks(*case) if isinstance(case, tuple) else breaks(case):
            return case
    raise LookupError("no counterexample among the cases")


def every(cases: Iterable[Any], holds: Callable[..., bool]) -> int:
    """Check a statement on every case, a tuple as separate arguments; returns the number of cases.

    Raises:
        ArithmeticError: one does not, so the finding that rests on it is wrong.
    """
    count = 0
    for case in cases:
        if not (holds(*case) if isinstance(case, tuple) else holds(case)):
            raise ArithmeticError(f"the statement fails on {case}")
        count += 1
    return count
