"""The examples of the README and the pages in docs, as they stand there: Python, and command lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/certify.md", "docs/choosing.md", "docs/decoder.md", "docs/drafter.md"]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_examples_run(page: str, tmp_path: Path) -> None:
    examples = blocks(page, "python")
    assert examples
    script = tmp_path / "examples.py"
    script.write_text("\n".join(examples))
    subprocess.run([sys.executable, "-W", "error", script], check=True, cwd=tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
def test_the_command_lines_run(page: str, tmp_path: Path) -> None:
    console = [line for block in blocks(page, "console") for line in block.splitlines()]
    lines = [line[2:] for line in console if line.startswith(("$ spectheory", "$ echo"))]
    assert lines
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in lines:
        subprocess.run(line, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": path})


def test_the_two_commands_are_those_of_the_makefile() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = re.findall(r"make (\w+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(shown) <= set(targets)
