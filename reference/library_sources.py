"""The Python standard library's own source files, split by file into training and held-out text."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {"site-packages", "encodings", "pydoc_data", "test", "tests", "idle_test"}
LARGEST_FILE_BYTES = 256 * 1024
"""Files above this size are generated tables; a few of them would outweigh the rest."""


@dataclass(frozen=True)
class SourceFile:
    """One file of the corpus. `name` is its path in the library's folder, with forward slashes."""

    name: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """Whether the file is held out: one in fifteen, chosen by name, so that the split is the same everywhere."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8]) % 15 == 0


def standard_library() -> list[SourceFile]:
    """The .py files of this Python's standard library, sorted by name.

    Tests, code pages and installed packages are left out: they repeat themselves, and a small draft model cannot follow
    a target that has learned to copy.
    """
    root, found, read = Path(sysconfig.get_paths()["stdlib"]), [], []
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name not in LEFT_OUT]
        found += [Path(folder, name) for name in files if name.endswith(".py")]
    for path in sorted(found):
        if path.stat().st_size <= LARGEST_FILE_BYTES:
            with suppress(UnicodeDecodeError):
                read.append(SourceFile(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")))
    return read
