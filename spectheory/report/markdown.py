"""Markdown: tables, and sections of a page that a command rewrites."""

from __future__ import annotations

from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.report.tables import TextTable


def markdown_table(table: TextTable) -> str:
    """Title, table and note in Markdown. The two lines of a cell are joined by a space."""
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    drawn = "\n".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows)
    return "\n\n".join(part for part in (table.title, drawn, table.note) if part) + "\n"


def put(page: Path, name: str, text: str) -> None:
    """Replace the section of `page` between the lines `<!-- name -->` and `<!-- end of name -->` by `text`.

    Raises:
        InputError: the page lacks one of these lines.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise InputError(f"{page} must have the lines {begin} and {end}: add them around the section to replace")
    write_whole(page, f"{before}{begin}\n\n{text}\n{end}{after}")
