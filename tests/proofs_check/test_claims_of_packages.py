"""Claims that other packages bring by entry points."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proofs_check import CLAIMS, gather
from spectheory.cli import app
from tests.refusals import refuses

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


FILES = {
    "ours/__init__.py": "",
    "ours/claims.toml": TEXTS,
    "ours/checks.py": CHECK,
    "ours-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1\n",
    "ours-1.dist-info/entry_points.txt": "[spectheory.claims]\nours = ours.checks\n",
}
"""A distribution whose entry point names the module ours.checks."""


def install(folder: Path, change: Mapping[str, str]) -> None:
    """Write the distribution with these changes into a folder."""
    for name, text in {**FILES, **change}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose distributions are installed in this process; their modules and claims are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(CLAIMS)
    yield tmp_path
    CLAIMS.clear()
    CLAIMS.update(known)
    for name in ("ours", "ours.checks"):
        sys.modules.pop(name, None)


def test_other_packages_bring_claims(installed: Path) -> None:
    install(installed, {})
    gather([])
    result = CliRunner().invoke(app, ["check", "x"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("X-1          holds")
    assert "2 was found." in result.stdout


NOT_LOADED = "entry point ours = ours.checks of spectheory.claims does not load"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ours/claims.toml": TEXTS.replace("[X-1]", "[X-2]")}, "must have a table for claim X-1"),
        (
            {"ours/claims.toml": TEXTS.replace("evidence", "evidense")},
            "unknown key of X-1 'evidense': did you mean evidence?",
        ),
        ({"ours/claims.toml": TEXTS.replace('method = "addition"', "")}, "the table of X-1 must have method"),
        ({"ours/claims.toml": TEXTS.replace("[paper]", "[papers]")}, "must have a table [paper]"),
    ],
)
def test_an_entry_point_that_does_not_load_is_named(installed: Path, change: dict[str, str], message: str) -> None:
    install(installed, change)
    refuses(f"{NOT_LOADED}.*{re.escape(message)}", gather, [])
