"""Runs that the system ends without warning, in a fork of the test's process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork")
LONGEST = 600
"""Seconds after which a fork that hangs is ended."""


def killed(run: Callable[[], object], *, write: int | None = None, seconds: float | None = None) -> bool:
    """Call `run` in a fork, and return whether the fork was killed before the end of the call.

    It is killed just before a complete file gets its name for the `write`-th time, counted from 0, or after some
    seconds of processor time.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        assert ended in (signal.SIGKILL, signal.SIGPROF) or status == 0, "the fork fails or hangs"
        return ended is not None
    try:
        _prepare(write, seconds)
        run()
        os._exit(0)
    finally:
        os._exit(1)


def _prepare(write: int | None, seconds: float | None) -> None:
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LONGEST)
    if seconds is not None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    replace, left = os.replace, [write]

    def counted(*arguments: Any, **options: Any) -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] = None if left[0] is None else left[0] - 1
        replace(*arguments, **options)

    os.replace = counted  # type: ignore[assignment]
