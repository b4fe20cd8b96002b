"""Ctrl-C at any moment is one line and status 130."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectheory.core.starting import is_command_line
from tests.faults.killing import POSIX

INTERRUPTED = """
import importlib.abc, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
"""
"""A module `sitecustomize`, which interrupts Python when it begins to import a certain module."""


@POSIX
@pytest.mark.parametrize(
    ("module", "script"),
    [("spectheory.certify", False), ("spectheory.cli.main", True), ("rich.progress", True)],
)
def test_an_interruption_while_modules_are_imported(tmp_path: Path, module: str, script: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED.format(module=module))
    (tmp_path / "spectheory").write_text("from spectheory.cli import app\napp()\n")
    command = [str(tmp_path / "spectheory")] if script else ["-m", "spectheory"]
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, *command, "plan"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "original", "is_ours"),
    [
        (["-m", "plan"], ["python", "-m", "spectheory", "plan"], True),
        (["-m"], ["python", "-X", "dev", "-mspectheory"], True),
        (["/usr/bin/spectheory", "plan"], ["python", "/usr/bin/spectheory", "plan"], True),
        (["C:\\Scripts\\spectheory.exe"], ["python.exe", "C:\\Scripts\\spectheory.exe"], True),
        (["-m", "spectheory"], ["python", "-m", "pytest", "spectheory"], False),
        (["-m"], ["python", "-m", "reference.train.pair"], False),
        (["-c", "spectheory"], ["python", "-c", "import spectheory", "spectheory"], False),
        (["server.py"], ["python", "server.py"], False),
        ([""], ["python"], False),
        ([], [], False),
    ],
)
def test_only_the_command_line_ends_at_once(arguments: list[str], original: list[str], is_ours: bool) -> None:
    assert is_command_line(arguments, original) == is_ours
