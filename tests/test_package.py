"""What a user installs."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import spectheory
from spectheory.hardware.shipped_models import model_names

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_all_four_packages_and_the_pair(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name.split("/")[0] for name in names}
    assert inside == {
        "spectheory",
        "simulate",
        "reference",
        "proofs_check",
        f"spectheory-{spectheory.__version__}.dist-info",
    }
    assert {f"reference/pair/{role}/model.safetensors" for role in ("target", "draft")} <= names
    assert {"reference/pair/held_out.jsonl", "spectheory/py.typed", "proofs_check/tables/goose_3.csv"} <= names
    assert {
        f"proofs_check/{paper}/claims.toml" for paper in ("goose", "salf_talf", "opt_tree", "delayed_trees", "gto")
    } <= names
    assert {"spectheory/data/gpus.csv", *(f"spectheory/data/models/{name}.json" for name in model_names())} <= names
    assert not [name for name in names if name.startswith("reference/train")]
    apps = [path.name for path in (ROOT / "notebooks" / "apps").glob("*.py")]
    assert {name for name in names if name.startswith("spectheory/apps/")} == {f"spectheory/apps/{app}" for app in apps}


def test_versions_and_names_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == spectheory.__version__
    assert f"version: {spectheory.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {spectheory.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert set(project["optional-dependencies"]) == {
        "reference",
        "certify",
        "proofs",
        "notebooks",
        "cluster",
        "docs",
        "dev",
    }


def test_constraints_pin_every_direct_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=]", dependency)[0].lower() for dependency in wanted} - {"spectheory"}
    pins = re.findall(r"^(\S+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert names <= {pin.lower().replace("_", "-") for pin in pins}


def test_the_public_api_is_what_the_package_lists() -> None:
    assert dir(spectheory) == sorted(spectheory.__all__)
    for name in spectheory.__all__:
        assert getattr(spectheory, name).__doc__, name
    public = [name for name in spectheory.__all__ if inspect.ismodule(getattr(spectheory, name))]
    for name in public:
        assert importlib.import_module(f"spectheory.{name}") is getattr(spectheory, name)
