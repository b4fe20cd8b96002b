"""Guarded calls of the code under test: with a time limit, and unable to end the process that certifies it.

A library cannot interrupt a call: the time limit is checked when the call returns. A process that runs nothing but the
certification, as the command starts one, can be ended: see `end_process_when_late`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

IDLE = 10
"""Times the limit that a call may take by the clock, waiting or sleeping, before the process is ended."""

Returned = TypeVar("Returned")


class CodeEndedError(RuntimeError):
    """The code under test raised what would have ended the process."""


class _Timers:
    """The operating system's timers, which end the process when they run out."""

    are_used = False

    def set(self, seconds: float) -> None:
        """Start them for a call, or stop them: 0."""
        if self.are_used:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, IDLE * seconds)


_timers = _Timers()


def end_process_when_late() -> None:
    """From now on a call that is late ends this process by a signal, wherever it hangs; Windows has no such timers."""
    if hasattr(signal, "setitimer"):
        for late in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(late, signal.SIG_DFL)
        _timers.are_used = True


def how_late(number: int, seconds: float) -> str | None:
    """The limit whose signal is `number`, in words; None for any other signal."""
    if number == getattr(signal, "SIGPROF", None):
        return f"{seconds:g} seconds of processor time"
    return f"{IDLE * seconds:g} seconds by the clock" if number == getattr(signal, "SIGALRM", None) else None


@contextmanager
def ends_are_errors() -> Iterator[None]:
    """Turn everything that the code under test raises into an `Exception`, except an interruption from the keyboard.

    Raises:
        CodeEndedError: it raised SystemExit, or another exception that `except Exception` does not catch.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except SystemExit as error:
        ended = CodeEndedError(f"the code under test called sys.exit({error.code!r}): return or raise an error instead")
        raise ended.with_traceback(error.__traceback__) from error
    except BaseException as error:
        ended = CodeEndedError(f"the code under test raised {error!r}: raise a subclass of Exception instead")
        raise ended.with_traceback(error.__traceback__) from error


def within(seconds: float, call: Callable[..., Returned], *given: Any) -> Returned:
    """What `call(*given)` returns.

    Raises:
        TimeoutError: it took more than `seconds` of processor time. It is not interrupted in this process.
        CodeEndedError: see `ends_are_errors`.
    """
    start = time.process_time()
    _timers.set(seconds)
    try:
        with ends_are_errors():
            returned = call(*given)
    finally:
        _timers.set(0)
    if time.process_time() - start > seconds:
        raise TimeoutError(f"did not return within {seconds:g} seconds of processor time")
    return returned
