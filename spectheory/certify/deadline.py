"""Time limits for other people's code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

AGAIN = 1.0
"""Least seconds until an interruption that the block has swallowed is repeated."""
SOON = 0.001
"""Seconds until an interruption is repeated that fell where Python ignores exceptions."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds`, and again where that was swallowed or ignored.

    It interrupts Python code in the main thread on systems with interval timers; elsewhere there is no limit.
    Python ignores exceptions in finalizers and in callbacks of the garbage collector, and reports them to
    `sys.unraisablehook`: the block runs under one that keeps its own interruptions quiet.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    late = TimeoutError(f"did not return within {seconds:g} seconds")
    again = max(seconds, AGAIN)
    report = sys.unraisablehook

    def interrupt(_: int, __: FrameType | None) -> NoReturn:
        raise late.with_traceback(None)

    def ignored(unraisable: Any) -> None:
        if unraisable.exc_value is late:
            signal.setitimer(signal.ITIMER_REAL, SOON, again)
        else:
            report(unraisable)

    sys.unraisablehook = ignored
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report
