"""Read-only packages, no home, a full disk under the caches: results are the same, without a word about the caches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectheory.core.compiling import compiler
from tests.faults.killing import POSIX

caching = pytest.importorskip("numba.core.caching")


def double(values: np.ndarray) -> float:
    """A body to compile."""
    return 2 * values.sum()


def refuse(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def doubled() -> float:
    return compiler(cache=True)(double)(np.arange(4.0))


def test_without_a_place_for_a_cache_bodies_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert doubled() == 12


@pytest.mark.parametrize("name", ["_save_index", "_save_data", "_load_index", "_load_data"])
def test_a_full_disk_and_damaged_caches_are_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    doubled()
    monkeypatch.setattr(caching.IndexDataCacheFile, name, refuse)
    assert doubled() == 12


@pytest.mark.parametrize("text", [b"", b"0", b"no pickle at all"])
def test_caches_with_other_contents_are_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    doubled()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    for file in files:
        file.write_bytes(text)
    assert doubled() == 12


def test_other_errors_of_the_compiler_stay() -> None:
    from numba.core.errors import TypingError

    with pytest.raises(TypingError):
        compiler()(lambda: unknown)()  # type: ignore[name-defined]  # noqa: F821


@POSIX
def test_matplotlib_without_a_home_is_quiet(tmp_path: Path) -> None:
    """The home is a file, so that not even the superuser can write there."""
    (tmp_path / "home").write_text("")
    code = (
        "import sys; from spectheory.cli import app; sys.argv = ['spectheory', 'policies', '--help']\n"
        "try: app()\nexcept SystemExit: pass\n"
        "import matplotlib; matplotlib.get_configdir()"
    )
    here = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "MPL", "HOME"))}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**here, "HOME": str(tmp_path / "home")}, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
