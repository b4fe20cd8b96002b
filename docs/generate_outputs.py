r"""Fills the pages with what their examples print: `python docs/generate_outputs.py [PAGE ...]`.

In a `console` block a line `$ ...` is a command, which a backslash continues on the next line. The lines below it are
its output, on 80 columns, in an empty folder in which the commands of the page ran before it. A command without lines
shows nothing; a line `...` alone asks for the whole output, and after some lines for as many of them. A `text` block
right after a `python` block is what the latter prints. The tests run the same examples and compare.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import wrap

from typer.testing import CliRunner

from spectheory.cli import app
from spectheory.cli.listing import SAMPLES
from spectheory.cli.output import console, errors

ROOT = Path(__file__).resolve().parent.parent
NOT_RUN = {"docs/gallery.md", "docs/results.md", "docs/selector.md", "docs/serving_simulation.md"}
"""Pages whose code is of others, takes minutes, or continues a command that is not run."""
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
COLUMNS, BETWEEN = 80, "end of a block\n"


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each in one line, and the lines below each."""
    for command, shown in COMMAND.findall(block):
        yield re.sub(r"\s*\\\n\s*", " ", command), shown.splitlines()


def filled(page: str, output: Callable[[str, bool], str]) -> str:
    """The page with the outputs of its commands. `output` runs one, and gets whether its output is shown."""

    def block(found: re.Match[str]) -> str:
        lines = ["```console"]
        for command, shown in commands(found[1]):
            printed = [line.rstrip() for line in output(command, bool(shown)).strip("\n").splitlines()]
            if len(shown) > 1 and shown[-1] == "...":
                printed = [*printed[: len(shown) - 1], "..."]
            lines += [*wrapped(command), *(printed if shown else [])]
        return "\n".join([*lines, "```"])

    return CONSOLE.sub(block, page)


def wrapped(command: str) -> list[str]:
    """The lines of a command, which is broken before options."""
    together = re.sub(" (?!-)", "\0", f"$ {command}")
    lines = wrap(together, COLUMNS - 2, subsequent_indent=4 * " ", break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(lines).replace("\0", " ").splitlines()


def run(command: str) -> tuple[int, str]:
    """The exit status and the output of a command of the package. Others, such as pip, are not run."""
    console.width = errors.width = COLUMNS
    program, *arguments = shlex.split(command, comments=True)
    found = CliRunner().invoke(app, arguments) if program == "spectheory" else None
    return (found.exit_code, found.output) if found else (0, "")


def script(page: str) -> str:
    """The Python of a page, which prints a line between two blocks."""
    return f"\nprint({BETWEEN!r}, end='')\n".join(code for code, _ in PYTHON.findall(page))


def with_printed(page: str, printed: str) -> str:
    """The page with what its Python printed, where it shows it."""
    parts = iter(printed.split(BETWEEN))

    def block(found: re.Match[str]) -> str:
        part = next(parts)
        return f"```python\n{found[1]}```\n\n```text\n{part}```\n" if found[2] else found[0]

    return PYTHON.sub(block, page)


def made(page: str) -> str:
    """The page with all that it shows. Commands after the last one that shows its output are not run."""
    to_run = [bool(shown) for block in CONSOLE.findall(page) for _, shown in commands(block)]

    def output(command: str, is_shown: bool) -> str:
        is_needed = any(to_run)
        to_run.pop(0)
        return run(command.partition(" || test ")[0])[1] if is_needed else ""

    page = filled(page, output)
    if any(shown for _, shown in PYTHON.findall(page)):
        shutil.copytree(SAMPLES, ".", dirs_exist_ok=True)
        Path("script.py").write_text(script(page), encoding="utf-8")
        with redirect_stdout(StringIO()) as printed:
            runpy.run_path("script.py")
        page = with_printed(page, printed.getvalue())
    return page


if __name__ == "__main__":
    for path in map(Path.resolve, map(Path, sys.argv[1:] or [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])):
        if path.relative_to(ROOT).as_posix() in NOT_RUN:
            continue
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            new = made(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))
