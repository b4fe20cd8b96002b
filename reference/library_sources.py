"""The Python standard library's own source files, split by file into training and held-out text."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {"site-packages", "encodings", "pydoc_data", "test", "tests", "idle_test"}
LARGEST_FILE_BYTES = 256 * 1024
"""Files above this size are generated tables; a few of them would outweigh the rest."""


@dataclass(frozen=True)
class SourceFile:
    """One text of the corpus. `name` is its path below the library's root, with forward slashes."""

    name: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """One file in fifteen, chosen by its name alone, so that the split is the same on every machine."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8]) % 15 == 0


def standard_library() -> list[SourceFile]:
    """The readable .py files of the running interpreter's standard library, sorted by name.

    Tests, code pages and installed packages are left out: they are repetitive, and a small draft model cannot follow a
    target that has learned to copy.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    return list(source_files(root, sorted(root.rglob("*.py"))))


def source_files(root: Path, paths: Iterable[Path]) -> Iterator[SourceFile]:
    """The files of `paths`, all in `root`, that are readable, not too large and not left out; read one at a time."""
    for path in paths:
        name = path.relative_to(root).as_posix()
        if LEFT_OUT.intersection(name.split("/")) or path.stat().st_size > LARGEST_FILE_BYTES:
            continue
        try:
            yield SourceFile(name, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
