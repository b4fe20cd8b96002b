"""The page of support is what the recorded runs say, and the package claims no version of Python that was not run."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate_support.py"))
ROWS: list[dict[str, Any]] = SCRIPT["recorded"]()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def ran(**versions: str) -> bool:
    """Whether some run without a failure had versions that begin like these."""
    return any(
        row["failed"] == 0 and all(f"{row[name]}.".startswith(f"{wanted}.") for name, wanted in versions.items())
        for row in ROWS
    )


def test_the_page_is_up_to_date() -> None:
    assert SCRIPT["page"](ROWS) == SCRIPT["PAGE"].read_text(encoding="utf-8"), "run python docs/generate_support.py"


def test_the_parts_are_files_of_the_suite() -> None:
    for arguments in SCRIPT["PARTS"].values():
        assert all((ROOT / name).is_file() for name in arguments if name.startswith("tests/"))


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_version_of_python_that_is_named_was_run(version: str) -> None:
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert ran(part="planner", python=version)


def test_the_oldest_versions_were_run() -> None:
    """Those of NumPy, SciPy and Numba in one run of the planner, those of torch and transformers in one of models."""
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["reference"]]
    oldest = dict(one.split(">=") for one in needed if ">=" in one)
    assert ran(part="planner", **{name: oldest[name] for name in ("numpy", "scipy", "numba")})
    assert ran(part="models", **{name: oldest[name] for name in ("torch", "transformers")})
    assert ran(part="planner", numpy="2")


def test_no_row_is_there_twice_and_none_is_of_an_unknown_state() -> None:
    keys = [SCRIPT["key"](row) for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert all(row["passed"] > 50 and not row["commit"].endswith("-dirty") for row in ROWS)
