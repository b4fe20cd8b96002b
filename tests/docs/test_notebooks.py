"""Tests that each notebook runs, is stored without outputs, and has the same cells as the .py file of its name.

The notebook tools run in subprocesses, because they emit warnings, and a warning is an error in our tests.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def python(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=FOLDER, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def body(script: str) -> str:
    """A percent script without its header, which names the version that wrote it."""
    return script.split("# ---\n", 2)[-1].strip()


def test_every_notebook_has_a_twin() -> None:
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path) -> None:
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-o", "filterwarnings=default"]
    python("-m", "pytest", "--nbmake", *quiet, path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_twin_has_the_same_cells(path: Path) -> None:
    script = python("-m", "jupytext", "--to", "py:percent", "--output", "-", path)
    assert body(script) == body(path.with_suffix(".py").read_text())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
