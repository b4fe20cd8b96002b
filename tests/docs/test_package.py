"""What a user installs."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from hatchling.build import build_sdist, build_wheel

import spectheory

ROOT = Path(__file__).parents[2]
PACKAGES = ("spectheory", "simulate", "reference", "proofs_check")
NOT_INSTALLED = ("reference/pair/draft/",)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, as the build backend makes them in this process."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build_wheel(str(folder))
        build_sdist(str(folder))
    return folder


def tracked(*folders: str) -> dict[str, int]:
    """The size of each file that git knows below some folders of the repository, new files included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in paths if path.exists()}


def test_the_wheel_holds_the_packages_of_the_repository_with_the_apps_and_nothing_else(built: Path) -> None:
    """No bytecode, caches, partial files or outputs: every file of the packages is one that git knows, and is whole."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        inside = {name: opened.getinfo(name).file_size for name in opened.namelist()}
    apps = {f"spectheory/apps/{path.name}": path.stat().st_size for path in (ROOT / "notebooks/apps").glob("*.py")}
    expected = {name: size for name, size in tracked(*PACKAGES).items() if not name.startswith(NOT_INSTALLED)} | apps
    assert {name: size for name, size in inside.items() if ".dist-info/" not in name} == expected
    assert {f"reference/pair/{role}/model.safetensors" for role in ("target", "head")} <= set(inside)


def test_the_metadata_needs_no_torch(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        text = opened.read(f"spectheory-{spectheory.__version__}.dist-info/METADATA").decode()
    needed = [line for line in message_from_string(text).get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in needed if line.startswith(("torch", "transformers", "pyarrow"))]


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == spectheory.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {spectheory.__version__}\n" in citation
    (released,) = re.findall(r"^date-released: (.*)$", citation, re.MULTILINE)
    releases = re.findall(r"^## \[(.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == (spectheory.__version__, released)


def test_the_public_api_is_what_the_package_lists() -> None:
    assert dir(spectheory) == sorted(spectheory.__all__)
    assert len(spectheory.__all__) <= 50
    assert all(getattr(spectheory, name).__doc__ for name in spectheory.__all__)
    for room in pkgutil.iter_modules(spectheory.__path__):
        assert room.name in ("__main__", "cli") or hasattr(spectheory, room.name), room.name
