"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

GENERATOR = '<meta name="generator" content="spectheory">'
"""What marks an HTML page of this package."""


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` so that no reader and no interruption ever sees half of it.

    Raises:
        OSError: it cannot be written; `path` is named.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
