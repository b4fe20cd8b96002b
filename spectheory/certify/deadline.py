"""Time limits for other people's code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

AGAIN = 1.0
"""Least seconds until an interruption that was swallowed is repeated."""
SOON = 0.001
"""Seconds until an interruption is repeated that came where nothing can be raised."""

Returned = TypeVar("Returned")


class InterruptionError(TimeoutError):
    """One of ours, to tell it from what other people raise."""


def within(seconds: float, call: Callable[..., Returned], *given: Any) -> Returned:
    """What `call(*given)` returns. After `seconds` it is interrupted, and again where that was swallowed or ignored.

    Python code is interrupted in the main thread on systems with interval timers; elsewhere there is no limit. Python
    ignores exceptions in finalizers and in callbacks of the garbage collector, and reports them to
    `sys.unraisablehook`: the call runs under one that keeps interruptions quiet. None is raised outside the call.

    Raises:
        TimeoutError: the call did not return in time.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return call(*given)
    again, report, over = max(seconds, AGAIN), sys.unraisablehook, False

    def interrupt(_: int, frame: FrameType | None) -> None:
        if over:
            return
        if _inside(frame, ignored):
            raise InterruptionError(f"did not return within {seconds:g} seconds")
        signal.setitimer(signal.ITIMER_REAL, SOON, again)

    def ignored(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, InterruptionError):
            signal.setitimer(signal.ITIMER_REAL, SOON, again)
        else:
            report(unraisable)

    before = signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = ignored
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, again)
        return _called(call, given)
    except InterruptionError as interruption:
        raise TimeoutError(*interruption.args) from interruption
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report


def _called(call: Callable[..., Returned], given: tuple[Any, ...]) -> Returned:
    return call(*given)


def _inside(frame: FrameType | None, hook: Callable[..., None]) -> bool:
    """Whether `frame` is of the call or below it, and not of the hook for what is ignored."""
    while frame is not None and frame.f_code is not _called.__code__:
        if frame.f_code is hook.__code__:
            return False
        frame = frame.f_back
    return frame is not None
