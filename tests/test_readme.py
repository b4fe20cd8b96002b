"""The README's examples, as they stand there: the Python ones, and the command lines on the shipped pair."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_examples_run(tmp_path: Path) -> None:
    examples = blocks("python")
    assert examples
    script = tmp_path / "examples.py"
    script.write_text("\n".join(examples))
    subprocess.run([sys.executable, "-W", "error", script], check=True, cwd=tmp_path)


def test_the_command_lines_run(tmp_path: Path) -> None:
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ spectheory")]
    assert len(lines) >= 6
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in lines:
        subprocess.run(line, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": path})


def test_the_two_commands_are_those_of_the_makefile() -> None:
    targets = re.findall(r"^(\w+):", (Path(__file__).parent.parent / "Makefile").read_text(), re.MULTILINE)
    shown = re.findall(r"make (\w+)", README)
    assert {"demo", "test"} <= set(shown) <= set(targets)
