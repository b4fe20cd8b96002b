"""The child process in which `spectheory certify` runs the code under test, and its messages.

Code that ends its process does not end the command, and its exit status is not taken for a verdict. The child sends one
JSON object per line: progress, then the answer or an error. A child that ends without a complete answer or error has
failed, whatever its exit status is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from spectheory.certify.guard import CodeEndedError, end_process_when_late, ends_are_errors, how_late
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


def answer_of_child(request: Request, report: Report) -> dict[str, Any]:
    """The result of `Request.answer`, which runs in a child process.

    Raises:
        InputError: the child reports an error in the request, or ended without an answer.
        ModuleNotFoundError: a package is missing.
    """
    with subprocess.Popen(
        [sys.executable, "-c", START, json.dumps(sys.path), json.dumps(asdict(request))],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            answer = _last_message(process, report)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            ended = process.poll()
        finally:
            process.kill()
    if answer is None:
        raise InputError(_without_verdict(ended, request.seconds))
    if "missing" in answer:
        raise ModuleNotFoundError(answer["error"], name=answer["missing"])
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def _last_message(process: subprocess.Popen[str], report: Report) -> dict[str, Any] | None:
    """The answer or the error that the child sends; None if it sends neither."""
    assert process.stdout
    for line in process.stdout:
        message = _message(line)
        if message is None or "error" in message or "verdict" in message:
            return message
        report(message)
    return None


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
    progress = {"note": str, "worlds": int, "runs": int}
    return message if len(kinds) == 1 and kinds.items() <= progress.items() else None


def _without_verdict(status: int | None, seconds: float) -> str:
    if status is None:
        return "the code under test replaced its process, or cut it off from spectheory, before a verdict was reached"
    late = how_late(-status, seconds)
    if late:
        return f"a call of the code under test did not return within {late}: correct the code, or raise --seconds"
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
    end_process_when_late()
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
