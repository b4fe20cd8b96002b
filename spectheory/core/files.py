"""Files that are written whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from spectheory.core.errors import InputError

GENERATOR = '<meta name="generator" content="spectheory">'
"""What marks an HTML page of this package."""


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` so that no reader and no interruption ever sees half of it.

    Raises:
        InputError: it cannot be written; `path` is named.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from error


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        InputError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}): save it as UTF-8") from error
