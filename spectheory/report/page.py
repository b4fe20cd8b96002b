"""The HTML page of measured records, and the building blocks of all pages.

A page is one file: inline SVG and CSS, no scripts, nothing loaded from elsewhere. It follows the reader's light or dark
mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from spectheory.core.files import GENERATOR, shipped
from spectheory.core.provenance import Provenance
from spectheory.report import svg
from spectheory.report.tables import TextTable

THEMED = {svg.INK: "var(--ink)", svg.MUTED: "var(--muted)", svg.FAINT: "var(--faint)", svg.PAPER: "var(--paper)"}
"""Colours of figures that change with the light or dark mode of the page."""


def shell(title: str, *parts: str) -> str:
    """A complete page with the heading `title`. `parts` are HTML."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            GENERATOR,
            f"<title>{escape(title)}</title>\n<style>\n{shipped('page.css')}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def prose_html(text: str) -> str:
    """`text` as HTML, with text between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def figure_html(drawing: str) -> str:
    """The SVG `drawing` as an HTML figure in the colours of the page."""
    for colour, variable in THEMED.items():
        drawing = drawing.replace(colour, variable)
    return f"<figure>{drawing}</figure>"


def folded(summary: str, *parts: str, is_open: bool = False) -> str:
    """HTML that the reader can open and close. It is closed at first unless `is_open`."""
    return "\n".join([f"<details{' open' * is_open}><summary>{escape(summary)}</summary>", *parts, "</details>"])


def table_html(table: TextTable) -> str:
    """The table as HTML, with its note below."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = []
    for i, (name, *cells) in enumerate(table.rows):
        kinds = " ".join(["section"] * (i in table.sections) + ["grey"] * (i in table.grey))
        kept = f' class="{kinds}"' if kinds else ""
        rows.append(f'<tr{kept}><th scope="row">{escape(name)}</th>{"".join(map(_cell, cells))}</tr>')
    note = f"<p>{prose_html(table.note)}</p>" if table.note else ""
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="wide"><table>{caption}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + f"\n</tbody></table></div>{note}"
    )


def _cell(text: str) -> str:
    first, line, second = text.partition("\n")
    return f"<td>{escape(first)}{f'<small>{escape(second)}</small>' if line else ''}</td>"


def sources_html(stamps: Mapping[str, Provenance]) -> str:
    """The footer of a page: the provenance of each of its records."""
    rows = "\n".join(_stamp(name, stamp) for name, stamp in stamps.items())
    return f"<footer>\n<h2>Where this comes from</h2>\n<table>\n{rows}\n</table>\n</footer>"


def _stamp(name: str, stamp: Provenance) -> str:
    facts = [
        stamp.source,
        stamp.created,
        "" if stamp.seed is None else f"seed {stamp.seed}",
        stamp.machine,
        ", ".join(f"{package} {version}" for package, version in stamp.versions.items()),
    ]
    said = "<br>".join(escape(str(fact)) for fact in facts if fact)
    details = "<br>".join(escape(f"{key.replace('_', ' ')}: {value}") for key, value in stamp.facts.items())
    folded = f"<details><summary>Details</summary>{details}</details>" if details else ""
    return f'<tr><th scope="row">{escape(name)}</th><td>{said}{folded}</td></tr>'
