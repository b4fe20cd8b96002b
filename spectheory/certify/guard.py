"""Calls of the code under test with a time limit, which the code under test cannot use to end the process.

A library cannot interrupt a call, so the time limit is checked when the call returns. `spectheory certify` runs the
code under test in a process of its own, which `end_process_when_late` can end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

IDLE = 10
"""The process is ended if a call takes this many times its limit by the clock, because it waits or sleeps."""
IMPORT = 10
"""Loading the code under test may take this many times as long as one call of it."""
BEAT = 1.0
"""Seconds between two reports that calls return."""

Returned = TypeVar("Returned")


class CodeEndedError(RuntimeError):
    """The code under test raised an exception that would have ended the process."""


class _Timers:
    """The operating system's timers, which end the process when they run out."""

    are_used = False
    beat: Callable[[int], None] | None = None
    calls, beaten = 0, 0.0

    def set(self, seconds: float) -> None:
        """Start the timers for a call, or stop them if `seconds` is 0."""
        if self.are_used:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, IDLE * seconds)

    def returned(self) -> None:
        """Count a call that has returned, and report the count at most every `BEAT` seconds."""
        self.calls += 1
        if self.beat is not None and (now := time.monotonic()) >= self.beaten + BEAT:
            self.beaten = now
            self.beat(self.calls)


_timers = _Timers()


def end_process_when_late(beat: Callable[[int], None]) -> None:
    """From now on, a call that exceeds its limit ends this process by a signal; on Windows it does not.

    `beat` is a callback with the number of calls that have returned. It is called at most every `BEAT` seconds.
    """
    _timers.beat = beat
    if hasattr(signal, "setitimer"):
        for late in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(late, signal.SIG_DFL)
        _timers.are_used = True


def how_late(number: int, seconds: float) -> str | None:
    """The limit in words that was exceeded if signal `number` ended the process; None for other signals."""
    if number == getattr(signal, "SIGPROF", None):
        return f"{seconds:g} seconds of processor time"
    return f"{IDLE * seconds:g} seconds by the clock" if number == getattr(signal, "SIGALRM", None) else None


@contextmanager
def ends_are_errors() -> Iterator[None]:
    """Context manager: whatever the code under test raises becomes an `Exception`, except KeyboardInterrupt.

    Raises:
        CodeEndedError: the code raised SystemExit, or another exception that `except Exception` does not catch.
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
        TimeoutError: the call took more than `seconds` of processor time. It was not interrupted.
        CodeEndedError: as `ends_are_errors`.
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
    _timers.returned()
    return returned
