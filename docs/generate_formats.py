"""Write docs/formats.md: every field of every record, and the columns of the tables beside them.

python docs/generate_formats.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from spectheory.certify import testing
from spectheory.core.files import write_whole
from spectheory.core.provenance import Provenance
from spectheory.core.record import KINDS, Record

HERE = Path(__file__).parent
PAGE = HERE / "formats.md"
PACKAGES = ("spectheory", "simulate", "reference")
TYPES = {
    r"\bInt\w*\[np\.ndarray, [\"']([^\"']*)[\"']\]": r"whole numbers (\1)",
    r"\w+\[np\.ndarray, [\"']([^\"']*)[\"']\]": r"numbers (\1)",
    r"\bnp\.ndarray\b": "numbers",
    r"\btuple\[(.+), \.\.\.\]": r"list of \1",
    r"\bdict\[str, (.+)\]": r"object of \1",
    r"\bstr\b": "text",
    r"\bint\b": "whole number",
    r"\bfloat\b": "number",
    r"\bbool\b": "true or false",
    r"\bNone\b": "null",
    r"\bTree\b": "tree",
    r" \| ": ", or ",
}
"""From a Python type to words, in this order."""
HEAD = """# Data model and file formats

<!-- Written by python docs/generate_formats.py from the record classes. -->

Commands and packages meet in **records**: frozen dataclasses that are saved as JSON. This page has every record,
field by field, and the tables of the folders beside them. The [API reference](api/spectheory.rst) has the classes.

## What a file promises

- Every record has a `kind` and a `schema`, a whole number. The schema rises whenever a field is added, removed or
  changes its meaning.
- **From 0.1 on, formats are stable**: a file that any release wrote is read, or it is refused in one line that names
  the repair. A schema older than the one below says "make the record again with this spectheory", a newer one "upgrade
  spectheory". No file is read in part.
- A value that follows from other fields is **derived**. It is saved for readers and other programs, computed again on
  loading, and a file that contradicts it is refused.
- Field names have their units: `_seconds`, `_bytes`. Numbers are finite; `NaN` and `Infinity` are refused.
- A file is written whole or not at all, so an interruption leaves the old one. The encoding is UTF-8.
- `spectheory.load(path)` reads a record of any kind, `Plan.load(path)` one of its own kind. Unknown and missing fields
  are refused; a field marked *may be absent* is left out where it is null.

A **tree** is a list of parents: `[-1, 0, 0, 1]` has node 0 as root and node 3 as a child of node 1. **Numbers (depths
ranks)** is a list of lists, as many as there are depths, each as long as there are ranks. Where a description says
None, as in Python, the file has `null`.
"""
TABLES = {
    "A trace": (
        "`part-*.parquet` in the folder that `spectheory trace` writes; that of a draft head also has the columns "
        "`deeper_ranks` and `deeper_top_ranks`, lists of int16: these two ranks where the cycle has drafted the last 1,"
        " 2, ... tokens",
        "reference.trace_rows:COLUMNS",
    ),
    "A matrix": ("`*-temperature-*.parquet` in the folder that `spectheory matrix` writes", "reference.matrix:COLUMNS"),
    "The summary of a matrix": (
        "`matrix.parquet` in the same folder, a row for each combination",
        "reference.matrix:SUMMARY",
    ),
    "Judged drafts": (
        "`part-*.parquet` in the folder that `spectheory head evaluate` writes",
        "reference.judging.evaluation:COLUMNS",
    ),
    "Labels of a selector": ("`part-*.parquet` in the folder of labels", "reference.selector.labels:COLUMNS"),
}
OTHERS = """
## Other files

- `provenance.json` in a folder of Parquet files is the `Provenance` of its run. A folder whose provenance differs from
  the command's is refused, so no folder mixes two runs.
- `prompts.json` in the folder of a trace is a list with the token numbers of each prompt.
- `blocks.jsonl` in the folder of `simulate.collect` has a header with kind `{blocks.KIND}` and schema {blocks.SCHEMA},
  then a line for each task and for each finished block, with a checksum. A last line that an interruption cut is
  counted again.
- A certificate that the pytest plugin stores has kind `stored_certificate` and schema {certificates.SCHEMA}: `test`,
  `session_level`, `seconds`, `provenance` and `certificate`.
- Prompts are JSON Lines with a field `text`.
"""


def main() -> None:
    write_whole(PAGE, page())
    print(f"wrote {PAGE}")


@cache
def records() -> list[type[Record]]:
    """Every class of records of the packages, by kind."""
    for package in PACKAGES:
        for file in sorted((HERE.parent / package).rglob("*.py")):
            if re.search(r"^class \w+\(.*\bRecord\):", file.read_text(encoding="utf-8"), re.MULTILINE):
                import_module(".".join(file.relative_to(HERE.parent).with_suffix("").parts))
    return [one for _, one in sorted(KINDS.items()) if one.__module__.partition(".")[0] in PACKAGES]


def page() -> str:
    return "\n".join([HEAD, *_records(), *_parts(), *_tables(), _others()])


def _records() -> Iterator[str]:
    yield "## Records\n"
    for record in records():
        yield f"### {record.kind}\n"
        yield f"`{record.__name__}`, **schema {record.schema}**. {_sentence(record)}\n"
        yield _fields(record)
        if record.derived:
            yield f"Derived: {', '.join(f'`{name}`' for name in record.derived)}.\n"


def _parts() -> Iterator[str]:
    yield "## Parts of records\n"
    yield "Objects inside records. All their fields are always present.\n"
    for part in parts():
        yield f"### {part.__name__}\n"
        yield f"{_sentence(part)}\n"
        yield _fields(part)


def _tables() -> Iterator[str]:
    yield "## Tables\n"
    yield "Parquet files, with the Arrow type of each column. A folder of them has a `provenance.json`.\n"
    for title, (where, name) in TABLES.items():
        schema: pa.Schema = getattr(import_module(name.partition(":")[0]), name.partition(":")[2])
        rows = "\n".join(f"| `{column.name}` | {column.type} |" for column in schema)
        yield f"### {title}\n\n{where}.\n\n| column | type |\n| --- | --- |\n{rows}\n"


def _others() -> str:
    return OTHERS.strip().format(blocks=import_module("simulate.collecting.block_file"), certificates=testing) + "\n"


@cache
def parts() -> list[type]:
    """The dataclasses inside records that are no records themselves, in alphabetical order; first the provenance."""
    found: dict[str, type] = {}
    todo: list[type] = list(records())
    while todo:
        for hint in typing.get_type_hints(todo.pop()).values():
            for one in _within(hint):
                if dataclasses.is_dataclass(one) and not issubclass(one, Record) and one.__name__ not in found:
                    found[one.__name__] = one
                    todo.append(one)
    return [found.pop(Provenance.__name__), *(one for _, one in sorted(found.items()))]


def _within(hint: Any) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    for inner in typing.get_args(hint):
        yield from _within(inner)


def _fields(one: type) -> str:
    said, hints, rows = descriptions(one), typing.get_type_hints(one), []
    for field in dataclasses.fields(one):
        absent = " *May be absent.*" if field.metadata.get("optional") else ""
        about = said.get(field.name, "where the record comes from." if field.name == "provenance" else "")
        if not about and issubclass(one, Record):
            sys.exit(f"the docstring of {one.__name__} does not describe {field.name}: add it to its Attributes")
        words = choices(hints[field.name]) or in_words(str(field.type))
        rows.append(f"| `{field.name}` | {words} | {about.replace('|', chr(92) + '|')}{absent} |")
    return "\n".join(["| field | type | what it is |", "| --- | --- | --- |", *rows, ""])


def choices(hint: Any) -> str:
    """The values of a `Literal` in words; "" for another type."""
    return " or ".join(f"`{value}`" for value in typing.get_args(hint)) if typing.get_origin(hint) is Literal else ""


def in_words(kind: str) -> str:
    """A type in words, with links to records and parts."""
    for pattern, words in TYPES.items():
        while (changed := re.sub(pattern, words, kind)) != kind:
            kind = changed
    kind = re.sub(r"\( *", "(", kind)
    known = {record.__name__: record.kind for record in records()} | {part.__name__: part.__name__ for part in parts()}
    return re.sub(
        r"\b[A-Z]\w+\b", lambda name: f"[{name[0]}](#{known[name[0]].lower()})" if name[0] in known else name[0], kind
    )


def descriptions(one: type) -> dict[str, str]:
    """The text of each field in the section `Attributes:` of the docstring of the class or of a base."""
    found: dict[str, str] = {}
    for base in reversed(one.__mro__):
        section = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", inspect.cleandoc(base.__doc__ or ""), re.MULTILINE)
        entries = re.findall(r"^    ([\w, ]+): ((?:.|\n(?=     ))*)", section[1] if section else "", re.MULTILINE)
        found |= {name: re.sub(r"\s+", " ", text) for names, text in entries for name in names.split(", ")}
    return found


def _sentence(one: type) -> str:
    paragraph = inspect.cleandoc(one.__doc__ or "").partition("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph)


if __name__ == "__main__":
    main()
