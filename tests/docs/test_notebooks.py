"""The notebook runs, and is stored without outputs."""

import json
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "budgets_and_acceptance.ipynb"


def test_it_runs() -> None:
    """In a process of its own: the notebook tools emit warnings, and a warning is an error in our tests."""
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-o", "filterwarnings=default"]
    command = [sys.executable, "-m", "pytest", "--nbmake", *quiet, NOTEBOOK.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=NOTEBOOK.parent, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_kept_without_outputs() -> None:
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
