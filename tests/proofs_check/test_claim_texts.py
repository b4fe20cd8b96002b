"""The texts of a claim: its formulas, its numbers and its fields; claims that other packages bring by entry points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proofs_check import CLAIMS, Claim, decide, gather
from proofs_check.claims import Paper, filled, papers
from proofs_check.sentences import formulas, in_words, judged, keeps_the_conclusion
from spectheory.cli import app
from spectheory.core.errors import InputError
from tests.helpers import install_toy, refuses


def test_a_formula_without_a_case_is_false() -> None:
    (vacuous, some, fine) = formulas(
        "[[every n: n > 9 implies n < 0]] [[some n: n > 9]] [[every n: n > 2 implies n == 3]]"
    )
    found = judged([vacuous, some, fine], {"n": ({"n": n} for n in range(4))})
    assert [found[one].is_true(one) for one in (vacuous, some, fine)] == [False, False, True]
    assert found[fine].cases == 1
    refuses("the check returns no cases m: it has n", judged, formulas("[[every m: m > 0]]"), {"n": []})


@pytest.mark.parametrize(
    ("printed", "repaired", "kept"),
    [
        ("every n: n < 3", "every n: n <= 3", True),
        ("every n: n < 3", "every n: n > 0 implies n < 3", True),
        ("every n: n < 3", "every other_n: n < 3", True),
        ("every n: n < 3", "every n: n >= 3", False),
        ("every n: n < 3", "some n: n < 3", False),
        ("every n: n < 3", "every n: n < 3", False),
        ("every n: n < 3", "every n: 2 * n < 4", False),
    ],
)
def test_what_a_repair_keeps(printed: str, repaired: str, kept: bool) -> None:
    one, other = formulas(f"[[{printed}]] [[{repaired}]]") if printed != repaired else formulas(f"[[{printed}]]") * 2
    assert keeps_the_conclusion(one, other) == kept


def test_a_formula_is_printed_in_words() -> None:
    text = "So [[every factor: rho <= 0 implies p_acc != 1]]. [[some n: n in [1, 'A']]]"
    assert in_words(text) == "So for every factor, rho <= 0 implies p_acc != 1. For some n, n in [1, 'A']"
    assert in_words(text, "`") == "So for every factor, `rho <= 0 implies p_acc != 1`. For some n, `n in [1, 'A']`"


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_what_to_do_differently_has_numbers_of_the_claims(paper: Paper) -> None:
    numbers = {name: one.numbers for name, one in CLAIMS.items()}
    assert len(re.findall("^- ", filled(paper.practice, numbers), re.M)) >= 2
    fields = re.findall(r"\{(?P<claim>[A-Z]-[^\[]+)\[", paper.practice)
    assert fields
    assert all(CLAIMS[name].paper is paper for name in fields)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"second": None}, "`second` or `proof` must be given"),
        ({"weight": "sleep"}, "unknown weight of X-1 'sleep': did you mean slip?"),
        ({"corrected": "[[every n: n > 0]]"}, "`terms` must have one entry for each name in its formulas: see n"),
        ({"terms": {"n": "a number"}}, "`terms` must have one entry for each name in its formulas: see n"),
        ({"corrected": "[[n > 0]]"}, r"a formula must be \[\[every CASE: ...\]\]"),
        ({"corrected": "[[every n: n >]]"}, "a formula must be an expression"),
        ({"evidence": "{new} cases"}, "fields without a number recorded: new"),
        ({"numbers": {"new": 1}}, "numbers recorded without a field: new"),
        ({"evidence": "{new[0]} cases", "numbers": {"new": [1]}}, None),
    ],
)
def test_the_texts_of_a_claim_fit_its_status_and_numbers(changed: dict[str, Any], message: str | None) -> None:
    texts: dict[str, Any] = {
        "corrected": "so",
        "method": "by search",
        "evidence": "found",
        "second": "by hand",
    } | changed
    arguments: dict[str, Any] = {"source": "Paper, Section 1", "statement": "1 = 2", "weight": "slip"} | texts
    raised = pytest.raises(InputError, match=message) if message else nullcontext()
    with raised:
        Claim("X-1", papers()[0], CLAIMS["O-EA"].check, **arguments)


def test_fields_show_fractions_exactly_or_in_decimals() -> None:
    assert filled("{a}, {b[1]:.3f}, {c:,}, {{k}}", {"a": Fraction(1, 3), "b": [0, Fraction(2, 3)], "c": 1234}) == (
        "1/3, 0.667, 1,234, {k}"
    )


@pytest.mark.parametrize(("less", "more"), [("pairs", ""), ("", "extra")])
def test_a_check_finds_a_number_for_each_field(monkeypatch: pytest.MonkeyPatch, less: str, more: str) -> None:
    one = CLAIMS["O-TABLES"]
    found = one.check(1)
    numbers = {name: number for name, number in found.numbers.items() if name != less} | ({more: 1} if more else {})
    monkeypatch.setitem(CLAIMS, "O-TABLES", replace(one, check=lambda effort: replace(found, numbers=numbers)))
    refuses("numbers found without a field: extra|fields without a number found: pairs", decide, "O-TABLES")


TEXTS = """
[paper]
name = "Ours"
title = "A paper of ours"
notes = "As printed."

[X-1]
source = "Ours, Section 1"
statement = "[[every pair: one + other == total]]"
proof = "evidence"
terms.pair = "two numbers"
terms.one = "one of them"
terms.other = "the other"
terms.total = "their sum"
method = "addition"
evidence = "{sum} was found."
numbers.sum = 2
"""


CHECK = """
from proofs_check.claims import Finding, claim

@claim("X-1")
def check(effort):
    return Finding({"sum": 1 + 1}, cases={"pair": [{"one": 1, "other": 1, "total": 2}]})
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of texts of an installed package; its claims are forgotten afterwards."""
    known = dict(CLAIMS)
    install_toy(tmp_path, monkeypatch, CHECK, claims="check")
    yield tmp_path / "claims.toml"
    CLAIMS.clear()
    CLAIMS.update(known)


def test_other_packages_bring_claims(installed: Path) -> None:
    installed.write_text(TEXTS, encoding="utf-8")
    gather([])
    result = CliRunner().invoke(app, ["check", "x"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("X-1          holds")
    assert "2 was found." in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[X-1]", "[X-2]", "must have a table for claim X-1"),
        ("evidence", "evidense", "unknown key of X-1 'evidense': did you mean evidence?"),
        ('method = "addition"', "", "the table of X-1 must have method"),
        ("[paper]", "[papers]", "must have a table [paper]"),
    ],
)
def test_an_entry_point_that_does_not_load_is_named(installed: Path, old: str, new: str, message: str) -> None:
    installed.write_text(TEXTS.replace(old, new), encoding="utf-8")
    refused = "entry point toy = toy_package:check of spectheory.claims does not load"
    refuses(f"{refused}.*{re.escape(message)}", gather, [])
