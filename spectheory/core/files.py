"""Reading text and JSON, writing files whole or not at all, and the lock of a file or folder that has one writer."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from spectheory.core.checks import checked
from spectheory.core.errors import InputError, InUseError

GENERATOR = '<meta name="generator" content="spectheory">'
"""The tag that marks an HTML page as written by this package."""


def is_there(name: str | Path) -> bool:
    """Whether this names a file or a folder. A name that no file can have, such as a very long one, does not."""
    with suppress(OSError, ValueError):
        return Path(name).exists()
    return False


def shipped(name: str) -> str:
    """The text of a file in `spectheory/data`."""
    return (files("spectheory") / "data" / name).read_text(encoding="utf-8")


@contextmanager
def reported(path: Path, repair: str = "name another file") -> Iterator[None]:
    """Context manager that reports an operating system's refusal to write `path` as an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; {repair}") from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Context manager that returns a temporary path beside `path`. At the end, the file there replaces `path`.

    After an error, `path` is as it was before. Several processes can write one `path` at once: the last one wins.

    Raises:
        InputError: the file cannot be written. The message names `path`.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`. Even an interruption leaves no half-written file there.

    Raises:
        InputError: the file cannot be written, or the text has a lone surrogate. The message names `path`.
    """
    with whole_file(path) as partial:
        try:
            partial.write_text(text, encoding="utf-8")
        except UnicodeEncodeError as error:
            wrong = text[max(0, error.start - 20) : error.end]
            raise InputError(
                f"{path} cannot be written: {wrong!r} cannot be encoded in UTF-8; rename what contains it"
            ) from error


@contextmanager
def owned(place: Path, lock: Path | None = None, repair: str = "name another file") -> Iterator[None]:
    """Context manager that makes this process the only writer of `place`, a file or a folder.

    The lock is the file `lock`, by default beside `place`. A process that ends or is killed loses its lock.

    Raises:
        InUseError: another writer holds the lock. The message ends with `repair`.
        InputError: the lock cannot be written.
    """
    from filelock import FileLock, Timeout

    file = lock or place.with_name(f"{place.name}.lock")
    held = FileLock(file)
    with reported(file, repair):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            held.acquire(timeout=0)
        except Timeout:
            raise InUseError(f"{place} is in use by another process: wait until it ends, or {repair}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()
        held.release()


@checked
def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, without a byte-order mark.

    Raises:
        InputError: the file does not exist, cannot be read, or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}): save it as UTF-8") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error


def from_json(text: str, *, allow_nan: bool = True, **reading: Any) -> Any:
    """The value in a JSON text. `reading` are further arguments of `json.loads`.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, has a lone surrogate, or a number that is not finite
            although `allow_nan` is false.
    """
    try:
        value = json.loads(text, **reading)
        json.dumps(value, ensure_ascii=False, allow_nan=allow_nan).encode()
        return value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if "set_int_max_str_digits" in str(error):
            raise ValueError("a number has thousands of digits") from None
        raise


def read_json(path: str | Path) -> Any:
    """The value in a JSON file of another program, which may hold NaN and infinity.

    Raises:
        InputError: the file does not exist, cannot be read, or is not JSON in UTF-8.
    """
    text = read_text(path)
    try:
        return from_json(text)
    except ValueError as error:
        raise InputError(f"{path} cannot be read as JSON ({error}): copy the file again") from error
