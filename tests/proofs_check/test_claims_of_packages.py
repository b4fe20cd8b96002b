"""Claims that other packages bring by entry points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proofs_check import CLAIMS, gather
from spectheory.cli import app
from tests.refusals import refuses
from tests.toy_package import install

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
    install(tmp_path, monkeypatch, CHECK, claims="check")
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
