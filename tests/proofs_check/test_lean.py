"""The keystones that are proved in Lean: checked where Lean is, and bound to the page that names them anywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "proofs_check" / "lean" / "keystones.lean"
GAPS = r"\b(sorry|admit|axiom|native_decide|unsafe|implemented_by|extern|opaque|set_option|import)\b"
"""Words by which a file could pass without a proof, or with more than Lean's core."""


def test_the_file_has_no_gap_and_proves_what_the_page_names() -> None:
    file, page = FILE.read_text(encoding="utf-8"), (ROOT / "docs" / "keystones.md").read_text(encoding="utf-8")
    assert not re.search(GAPS, re.sub(r"/-.*?-/|--[^\n]*", "", file, flags=re.S))
    section = page[page.index("(lean)=") :]
    named = set(re.findall(r"`(\w+_is_lossless|\w+_is_lossy|residual_positive|correction_differs)`", section))
    assert len(named) == 8
    assert named <= set(re.findall(r"^theorem (\w+)", file, flags=re.M))


def run(file: Path) -> tuple[int, list[str]]:
    """The exit status of Lean and its errors and warnings; the WebAssembly build prints other lines too."""
    command = ["lean", file.name]
    result = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=3600, check=False)
    return result.returncode, re.findall(r"(?m)^.*\b(?:error|warning)\b.*", result.stdout + result.stderr)


@pytest.mark.skipif(shutil.which("lean") is None, reason="needs Lean 4: `lean` is not on PATH")
def test_lean_accepts_the_file_without_a_warning() -> None:
    assert run(FILE) == (0, [])


@pytest.mark.skipif(shutil.which("lean") is None, reason="needs Lean 4: `lean` is not on PATH")
def test_lean_refuses_the_file_with_a_wrong_residual(tmp_path: Path) -> None:
    right = "= 0 then p y else p y - q y"
    text = FILE.read_text(encoding="utf-8")
    assert text.count(right) == 1
    wrong = tmp_path / "wrong.lean"
    wrong.write_text(text.replace(right, "= 0 then p y else q y - p y"), encoding="utf-8")
    status, told = run(wrong)
    assert status != 0
    assert any(": error: " in line for line in told)
