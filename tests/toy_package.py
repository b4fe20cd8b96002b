"""A package that registers with spectheory by entry points, built in a folder, for tests of every group."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

METADATA = "Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, **registered: str) -> None:
    """Put a distribution with a module `toy_package` on the path of imports, as an installer would.

    `registered` maps a group to the name of an object of the module: `solvers="ToySolver"` registers it in the group
    `spectheory.solvers` under the name toy.
    """
    (folder / "toy_package.py").write_text(source, encoding="utf-8")
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA, encoding="utf-8")
    groups = [f"[spectheory.{group}]\ntoy = toy_package:{path}\n" for group, path in registered.items()]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "toy_package", raising=False)
