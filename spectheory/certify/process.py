"""The child process in which `spectheory certify` runs the code under test, and its messages.

Code that ends its process does not end the command, and its exit status is not taken for a verdict. The child sends one
JSON object per line: progress, then the answer or an error. A child that ends without a complete answer or error has
failed, whatever its exit status is; so has one that is stopped, or silent for longer than a call may take. The child
leads a process group, which is ended with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from spectheory.certify.guard import IDLE, IMPORT, CodeEndedError, end_process_when_late, ends_are_errors, how_late
from spectheory.certify.request import Report, Request
from spectheory.certify.verdict import Verdict
from spectheory.core.errors import InputError

START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); import json; "
    "sys.path[:] = json.loads(sys.argv[1]); from spectheory.certify.process import child; child(sys.argv[2])"
)
"""The child's program. An interruption from the keyboard reaches the parent, which ends the child."""
PATIENCE = 10
"""After its last message, the child has this many seconds to end."""
SILENCE = 60
"""Seconds that the child may be silent beyond the time that a call may take: our own work between calls is shorter."""
TICK = 0.1
"""Seconds between two looks at a silent child."""
LONGEST_MESSAGE = 2**26
"""Bytes of the longest message. A page is shorter."""
MOST_NOTES = 10
"""Number of notes in a request, at most. What sends more is not `child`."""
FLOODED = (
    "the code under test wrote to the pipe that is meant for messages of spectheory: let it write only to standard "
    "output and to files that it has opened"
)


def answer_of_child(request: Request, report: Report) -> dict[str, Any]:
    """The result of `Request.answer`, which runs in a child process.

    Raises:
        InputError: the child reports an error in the request, or ended without an answer.
        ModuleNotFoundError: a package is missing.
    """
    with subprocess.Popen(
        [sys.executable, "-c", START, json.dumps(sys.path), json.dumps(asdict(request))],
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        messages = _Messages(process, report, request.seconds)
        try:
            answer = messages.last()
            if not messages.hung:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
            ended = process.poll()
        finally:
            _kill_group(process)
    if answer is None:
        raise InputError(messages.hung or _without_verdict(ended, request.seconds, loaded=messages.loaded))
    if "missing" in answer:
        raise ModuleNotFoundError(answer["error"], name=answer["missing"])
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes that it has started and that have stayed in its group."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _Messages:
    """The messages of a child.

    Attributes:
        loaded: whether the code under test was loaded, as far as the messages say.
        hung: why the child is not waited for any longer; "" if it sent its last message or has ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], report: Report, seconds: float) -> None:
        assert process.stdout
        self.process, self.report, self.seconds = process, report, seconds
        self.pipe = process.stdout.fileno()
        self.loaded, self.hung, self.notes = False, "", 0

    def last(self) -> dict[str, Any] | None:
        """The answer or the error that the child sends; None if it sends neither."""
        held, seen = bytearray(), time.monotonic()
        while not self.hung and (chunk := self._read(seen)):
            held += chunk
            if len(held) > LONGEST_MESSAGE:
                self.hung = FLOODED
            *lines, rest = held.split(b"\n") if b"\n" in chunk else [held]
            for line in lines:
                message = _message(line.decode("utf-8", "replace") + "\n")
                if message is None or "error" in message or "verdict" in message:
                    return message
                self._report(message)
                seen = time.monotonic()
            held = rest
        return None

    def _report(self, message: dict[str, Any]) -> None:
        """Report progress and notes."""
        self.loaded = True
        self.notes += "note" in message
        if self.notes > MOST_NOTES:
            self.hung = FLOODED
        elif "calls" not in message:
            self.report(message)

    def _read(self, seen: float) -> bytes:
        """The next bytes; b"" if there are none, or if the child hangs. `seen` is the time of its last message."""
        while os.name == "posix" and not select.select([self.pipe], [], [], TICK)[0]:
            if self._has_ended() or self._hangs(time.monotonic() - seen):
                return b""
        return os.read(self.pipe, 2**16)

    def _has_ended(self) -> bool:
        """Whether the child has ended and left nothing to read; a process that it has started may hold the pipe."""
        return self.process.poll() is not None and not select.select([self.pipe], [], [], 0)[0]

    def _hangs(self, silent: float) -> bool:
        """Whether the child was stopped, or has been silent for longer than a call may take."""
        most = SILENCE + IDLE * self.seconds * (1 if self.loaded else IMPORT)
        if silent > most:
            self.hung = (
                f"the code under test was silent for {most:g} seconds, although its limits of time should have ended "
                "it: remove what changes timers and signals in it, or correct a target that does not return"
            )
        elif self._is_stopped():
            self.hung = (
                "the process of the code under test was stopped before a verdict was reached: remove the signal that "
                "stops it"
            )
        return bool(self.hung)

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped the child. Python cannot tell on macOS."""
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return False
        return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


def _message(line: str) -> dict[str, Any] | None:
    """The message in a line; None if it is not a message that `child` sends."""
    try:
        message = json.loads(line) if line.endswith("\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    kinds = {name: type(value) for name, value in message.items()}
    if kinds.get("error") is str and kinds.get("missing", str) is str:
        return message
    if {"lines": list, "json": dict, "verdict": str}.items() <= kinds.items() and "page" in kinds:
        return message if message["verdict"] in Verdict.__members__ else None
    progress = {"note": str, "worlds": int, "runs": int, "calls": int}
    return message if len(kinds) == 1 and kinds.items() <= progress.items() else None


def _without_verdict(status: int | None, seconds: float, *, loaded: bool) -> str:
    if status is None:
        return "the code under test replaced its process, or cut it off from spectheory, before a verdict was reached"
    late = how_late(-status, seconds if loaded else IMPORT * seconds)
    if late:
        what = "a call of the code under test did not return" if loaded else "the code under test was not loaded"
        return f"{what} within {late}: correct the code, or raise --seconds"
    if status < 0:
        name = signal.strsignal(-status) or "unknown"
        return f"signal {-status} ({name}) ended the process of the code under test before a verdict was reached"
    return (
        f"the code under test ended the process with status {status} before a verdict was reached: remove the call of "
        "sys.exit, os._exit or os.closerange in it"
    )


def child(request: str) -> None:
    """Answer a request, given as JSON, on standard output. What the code under test prints goes to standard error."""
    send = _channel()
    end_process_when_late(lambda calls: send({"calls": calls}))
    try:
        with ends_are_errors():
            message = Request.from_dict(json.loads(request)).answer(send)
    except KeyboardInterrupt:
        message = {"error": "the code under test raised KeyboardInterrupt before a verdict was reached"}
    except ModuleNotFoundError as error:
        message = {"error": str(error), "missing": error.name or ""}
    except (ValueError, ImportError, OSError, CodeEndedError) as error:
        message = {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        message = {"error": f"{type(error).__name__} before a verdict was reached: {error}"}
    send(message)


def _channel() -> Callable[[dict[str, Any]], None]:
    """A function that writes messages to the original standard output, through a descriptor that is not inherited.

    It ends the process if nobody reads the messages, or if the process is a fork that the code under test made.
    """
    descriptor, owner = os.dup(1), os.getpid()
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        if os.getpid() != owner:
            os._exit(1)
        line = memoryview((json.dumps(message) + "\n").encode())
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        except OSError:
            os._exit(1)

    return send
