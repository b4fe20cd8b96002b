"""The page of the selector is what its records say."""

from __future__ import annotations

from pathlib import Path

from benchmarks.selector import __main__ as command
from benchmarks.selector.page import section
from reference.selector import SelectorComparison


def records() -> list[SelectorComparison]:
    return [SelectorComparison.load(file) for file in sorted(command.RECORDS.glob("*.json"))]


def test_the_page_is_up_to_date() -> None:
    found = records()
    assert found
    page = command.PAGE.read_text(encoding="utf-8")
    measured = page.partition("<!-- measured -->")[2].partition("<!-- end of measured -->")[0]
    assert measured.strip() == section(found).strip(), "run python -m benchmarks.selector page"


def test_the_page_is_written_from_the_records(tmp_path: Path) -> None:
    other = tmp_path / "selector.md"
    other.write_text("before\n<!-- measured -->old<!-- end of measured -->\nafter\n")
    command.main(["page", "--page", str(other)])
    text = other.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert section(records()).strip() in text
