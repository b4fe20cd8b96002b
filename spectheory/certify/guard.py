"""Calls of the code under test: with a time limit, and with its attempts to end the process as errors."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spectheory.certify.replays import replaying_modules

OURS = Path(__file__).parent.parent
Returned = TypeVar("Returned")


class CodeEndedError(RuntimeError):
    """The code under test raised an exception that would have ended the process."""


def by_the_clock(seconds: float) -> float:
    """The seconds by the clock after which a call is ended whose limit is `seconds` of processor time."""
    return 2 + 5 * seconds


owner = 0
"""The process of `spectheory certify`: a signal ends it if a call does not return, and its forks end after a call."""


@contextmanager
def ends_are_errors() -> Iterator[None]:
    """Context manager: whatever the code under test raises becomes an `Exception`, except KeyboardInterrupt.

    Raises:
        CodeEndedError: the code raised SystemExit, or another exception that `except Exception` does not catch.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if _can_be_shown(error):
            raise
        raise CodeEndedError(f"the code under test raised {type(error).__name__}, which cannot be shown") from None
    except BaseException as error:
        ended = CodeEndedError(f"the code under test raised {error!r}: raise a subclass of Exception, or return")
        raise ended.with_traceback(error.__traceback__) from error


def _can_be_shown(error: BaseException) -> bool:
    try:
        return isinstance(error, BaseException) and bool(f"{error} {error.__traceback__}")
    except Exception:
        return False


def within(seconds: float, call: Callable[..., Returned], *given: Any) -> Returned:
    """What `call(*given)` returns. A call that never returns is ended only in the process of `spectheory certify`.

    Raises:
        TimeoutError: the call took more than `seconds` of processor time.
        CodeEndedError: as `ends_are_errors`.
    """
    start = time.process_time()
    if owner:
        signal.setitimer(signal.ITIMER_REAL, by_the_clock(seconds))
    try:
        with ends_are_errors():
            returned = call(*given)
    finally:
        if owner:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if owner not in (0, os.getpid()):
            os._exit(0)
    if time.process_time() - start > seconds:
        raise TimeoutError(f"did not return within {seconds:g} seconds of processor time")
    return returned


def place(error: BaseException) -> str:
    """Function, file and line that raised `error`, such as " in verify, mine.py line 12".

    It is "" if spectheory itself raised the error. Of a library whose draws are enumerated, such as PyTorch, it is the
    line that called the library.
    """
    hidden = replaying_modules()
    frames = list(traceback.walk_tb(error.__traceback__))
    while frames and f"{frames[-1][0].f_globals.get('__name__')}.".startswith(hidden):
        frames.pop()
    if not frames or Path(frames[-1][0].f_code.co_filename).is_relative_to(OURS):
        return ""
    code, line = frames[-1][0].f_code, frames[-1][1]
    return f" in {code.co_name}, {Path(code.co_filename).name} line {line}"
