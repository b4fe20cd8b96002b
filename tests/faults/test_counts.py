"""The table in docs/limits.md names every file of this folder, with the number of its cases."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROW = re.compile(r"\| .* \| ([\d,]+) \| ((?:`\w+`(?:, )?)+) \| .* \|")


def table() -> dict[frozenset[str], int]:
    """The number of cases by the names of the files."""
    rows = map(ROW.fullmatch, (HERE.parents[1] / "docs" / "limits.md").read_text().splitlines())
    return {frozenset(re.findall(r"`(\w+)`", row[2])): int(row[1].replace(",", "")) for row in rows if row}


def test_every_file_is_in_one_row() -> None:
    files = sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py") if path != Path(__file__))
    assert sorted(name for names in table() for name in names) == files


def test_the_counts_are_those_of_the_collected_tests(request: pytest.FixtureRequest) -> None:
    """Only where all cases that are not `deep` were collected, in one process or in each worker."""
    options = request.config.option
    cases = Counter(item.path.stem.removeprefix("test_") for item in request.session.items if item.path.parent == HERE)
    expected = table()
    whole = (
        options.markexpr == "not deep" and not options.keyword and not any("::" in arg for arg in options.file_or_dir)
    )
    if not whole or not all(cases[name] for names in expected for name in names):
        pytest.skip("not all tests of faults were collected")
    assert {names: sum(cases[name] for name in names) for names in expected} == expected
