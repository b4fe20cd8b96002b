"""Ctrl-C while the command line starts. Importing this module prepares for it, if the process is the command line.

Modules are imported in the first second of a command, before it can handle an interruption itself. An exception there
would print a traceback, and an import that it ends half-way can raise another exception in its place. So the process is
ended at once. In all other processes nothing changes. This module imports little, so that it comes early.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
"""Exit status of an interrupted command, as of a shell: 128 and the number of the signal."""


def is_command_line(arguments: list[str], original: list[str]) -> bool:
    """Whether `sys.argv` and `sys.orig_argv` are those of `spectheory` or of `python -m spectheory`."""
    if arguments[:1] == ["-m"]:
        return original[-len(arguments)].removeprefix("-m") == "spectheory"
    return bool(arguments) and arguments[0].replace("\\", "/").split("/")[-1] in ("spectheory", "spectheory.exe")


def begun() -> None:
    """Let an interruption raise KeyboardInterrupt again, because the command handles it from now on."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler and is_command_line(sys.argv, sys.orig_argv):
    signal.signal(signal.SIGINT, _end)
