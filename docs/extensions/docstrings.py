"""Docstrings of this house as reStructuredText: Google's sections, our fields, and characters that mean themselves.

Names between single backticks are links where they are names of the API. `Acceptance:`, `Cost:` and `Source:` begin
fields. An asterisk, a bar and an underscore at the end of a word are no markup.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from itertools import takewhile
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

FIELD = re.compile(r"(\s*)(Acceptance|Cost|Sources?): (.*)")
MARKUP = re.compile(r"(`[^`]*`)|(\*|\||(?<=\w)_(?!\w))")
SEVERAL = re.compile(r":(ivar|param) (\w+(?:, \w+)+): (.*)")
WORDS = {" -- ": " \N{EN DASH} ", "Variables": "Attributes"}
LONGEST = 40
"""A default value with a longer text is shown as dots."""
SECTIONS = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", shorten)
    app.connect("doctree-read", put_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Google's sections of a property are those of a method: its first line has no type before a colon."""
    kind = "method" if what in ("attribute", "property", "data") else what
    text = as_fields(escaped(lines))
    found = one_by_one(GoogleDocstring(text, SECTIONS, app, kind, name, obj, options).lines())
    lines[:] = [MARKUP.sub(_escaped, line) if line.startswith(":vartype ") else line for line in found]


def shorten(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Long default values of a dataclass as dots."""
    if signature is None or not is_dataclass(obj):
        return None
    for field in fields(obj):
        if len(text := repr(field.default)) > LONGEST:
            signature = signature.replace(text, "...")
    return signature.replace("<factory>", "..."), returned


def put_words(app: Sphinx, page: nodes.document) -> None:
    """A dash and the word "Attributes" where Sphinx writes two hyphens and "Variables"."""
    for text in list(page.findall(nodes.Text)):
        if text in WORDS and isinstance(text.parent, nodes.paragraph | nodes.field_name):
            text.parent.replace(text, nodes.Text(WORDS[text]))


def one_by_one(lines: list[str]) -> list[str]:
    """The lines with one field for each name: `:ivar a, b: text` would be an `a` of type `b`."""
    written: list[str] = []
    for number, line in enumerate(lines):
        if not (found := SEVERAL.fullmatch(line)):
            written.append(line)
            continue
        *others, last = found[2].split(", ")
        more = list(takewhile(lambda line: line.startswith("  "), lines[number + 1 :]))
        written += [part for name in others for part in (f":{found[1]} {name}: {found[3]}", *more)]
        written.append(f":{found[1]} {last}: {found[3]}")
    return written


def escaped(lines: list[str]) -> list[str]:
    """The lines with a backslash before each character that would be markup. Examples are left as they are."""
    return [line if line.lstrip().startswith(">>>") else MARKUP.sub(_escaped, line) for line in lines]


def _escaped(found: re.Match[str]) -> str:
    return found[1] or f"\\{found[2]}"


def as_fields(lines: list[str]) -> list[str]:
    """The docstring with a field in place of each line that begins one; the next lines of a field are indented."""
    written: list[str] = []
    in_field = False
    for line in lines:
        if found := FIELD.fullmatch(line):
            written += [*([] if in_field else [""]), f"{found[1]}:{found[2]}: {found[3]}"]
            in_field = True
        elif in_field and line.strip():
            written.append(f"    {line.strip()}")
        else:
            written.append(line)
            in_field = False
    return written
