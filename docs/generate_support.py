"""Run a part of the tests in the environment of this interpreter, and write docs/support.md from all recorded runs.

uv venv --python 3.12 build/support
uv pip install --python build/support/bin/python --resolution lowest-direct --editable '.[reference]'
uv pip install --python build/support/bin/python pytest hypothesis
build/support/bin/python docs/generate_support.py planner
build/support/bin/python docs/generate_support.py models
python docs/generate_support.py

The first argument names the part; without one, only the page is written. A run replaces an earlier run of the same part
with the same versions in docs/support.json.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RUNS, PAGE = DOCS / "support.json", DOCS / "support.md"
WITHOUT_TORCH = ("--noconftest", "-p", "tests.command_line")
PLANNER = (
    "tests/core/test_tree.py",
    "tests/core/test_records.py",
    "tests/core/test_acceptance.py",
    "tests/planning/test_plan.py",
    "tests/planning/test_schedule.py",
    "tests/hardware/test_roofline.py",
    "tests/goose/test_goose.py",
    "tests/goose/test_gto.py",
    "tests/engines/test_exports.py",
)
MODELS = ("tests/reference/test_drafters.py", "tests/reference/test_heads_files.py", "tests/reference/test_models.py")
PARTS = {"planner": (*WITHOUT_TORCH, *PLANNER), "models": MODELS}
"""The arguments of pytest for each part. The planner is tested without the settings of the suite, which need torch."""
PACKAGES = ("numpy", "scipy", "numba", "torch", "transformers")
NEVER = "not installed"
HEAD = """# Support

spectheory needs Python 3.11 or newer, NumPy 1.26 or newer, SciPy 1.12 or newer and Numba 0.60 or newer; the decoder
also needs torch 2.6 or newer and transformers 5. `pyproject.toml` states these bounds. It follows
[SPEC 0](https://scientific-python.org/specs/spec-0000/): a version of Python is supported for three years after its
release, and a version of NumPy, SciPy or another core dependency for two years. A bound is raised in a minor release at
the earliest, and the change log says so. Bounds may be older than SPEC 0 asks, as they are now, while the tests pass.

CI runs the whole suite on Python 3.11 with the versions in `constraints.txt`. The table has the other runs: a part of
the tests, in an environment of its own, on the date in the row. **Versions that are in no row were not run.** A row
says nothing about a GPU: all runs are on CPUs.

"""
PARTS_HEAD = """
## What a part runs

- `planner`: {planner}. Without torch, in a process that does not load the settings of the suite.
- `models`: {models}. Decoding and reading of models and draft heads, with the shipped pair and tiny random models.

`docs/generate_support.py` runs a part, records it in `docs/support.json` and writes this page; its first lines have the
commands. The tests are those of the checkout, on the packages of the environment. In the suite every warning is an
error; here deprecation warnings are not, because old and new releases of other packages warn about each other.
"""


def installed(package: str) -> str:
    """The version of a package in this environment."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return NEVER


def run(part: str) -> dict[str, object]:
    """Run a part in this environment, and return what happened. Raises SystemExit if pytest could not run it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-W", "default::DeprecationWarning", f"--junitxml={report}"]
        status = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *PARTS[part]], cwd=ROOT, env=environment, check=False
        ).returncode
        if status not in (0, 1):
            raise SystemExit(status)
        counted = ElementTree.parse(report).getroot()[0].attrib
    tests, skipped = int(counted["tests"]), int(counted["skipped"])
    failed = int(counted["failures"]) + int(counted["errors"])
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    return {
        "part": part,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **{package: installed(package) for package in PACKAGES},
        "passed": tests - skipped - failed,
        "failed": failed,
        "skipped": skipped,
    }


def key(row: dict[str, object]) -> tuple[object, ...]:
    """What identifies a run: its part and the versions."""
    return row["part"], row["python"], row["system"], *(row[package] for package in PACKAGES)


def order(row: dict[str, object]) -> tuple[object, ...]:
    """By part, then by version of Python and of torch and NumPy."""
    numbers = [
        tuple(int(part) for part in str(row[name]).split(".") if part.isdigit())
        for name in ("python", "torch", "numpy")
    ]
    return (-list(PARTS).index(str(row["part"])), *numbers)


def page(rows: list[dict[str, object]]) -> str:
    """The page of all recorded runs."""
    names = ("part", "python", *PACKAGES, "system", "passed", "failed", "skipped", "date", "commit")
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for row in sorted(rows, key=order, reverse=True):
        lines.append(f"| {' | '.join('-' if row[name] == NEVER else str(row[name]) for name in names)} |")
    files = {
        "planner": ", ".join(f"`{name}`" for name in PLANNER),
        "models": ", ".join(f"`{name}`" for name in MODELS),
    }
    return HEAD + "\n".join(lines) + "\n" + PARTS_HEAD.format(**files)


def recorded() -> list[dict[str, object]]:
    """The recorded runs."""
    return json.loads(RUNS.read_text(encoding="utf-8")) if RUNS.exists() else []


def main(parts: list[str]) -> None:
    """Run the parts, record them, and write the page."""
    rows = recorded()
    for part in parts:
        if part not in PARTS:
            raise SystemExit(f"error: part must be one of {', '.join(PARTS)}, got {part!r}")
        new = run(part)
        rows = [row for row in rows if key(row) != key(new)] + [new]
        RUNS.write_text(json.dumps(sorted(rows, key=order, reverse=True), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
