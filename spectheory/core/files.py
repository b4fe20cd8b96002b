"""Reading text files, and writing them whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from spectheory.core.errors import InputError

GENERATOR = '<meta name="generator" content="spectheory">'
"""The tag that marks an HTML page as written by this package."""


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`. Even an interruption leaves no half-written file there.

    Raises:
        InputError: the file cannot be written. The message names `path`.
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
        InputError: the file does not exist, cannot be read, or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}): save it as UTF-8") from error
