"""The child process in which `spectheory certify` runs the code under test; it leaves one JSON answer in a file.

Code that ends its process, whatever its exit status, leaves no answer, and a call that does not return is ended by the
child's watchdog. What the code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from spectheory.certify.guard import CodeEndedError, by_the_clock, ends_are_errors, watchdog
from spectheory.certify.named import certify_named
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from spectheory.certify.process import child; "
    "child(*sys.argv[2:])"
)


def answer_of_child(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """What `answer_of` returns in a child process.

    Raises:
        InputError: the child reports an error in the request, or ended without an answer.
        ModuleNotFoundError: a package is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        command = [sys.executable, "-c", START, json.dumps(sys.path), str(file), name, json.dumps(options)]
        with subprocess.Popen(command, stdout=2, start_new_session=True) as process:
            try:
                status = process.wait()
            finally:
                process.kill()
                if hasattr(os, "killpg"):
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
        answer = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if answer is None:
        raise InputError(
            f"the process of the code under test ended with status {status} before a verdict was reached: remove what "
            "ends it, such as os._exit; or, if a traceback with Timeout is above, a call did not return within "
            f"{by_the_clock(options['seconds']):g} seconds by the clock: correct the code, or raise --seconds"
        )
    if "missing" in answer:
        raise ModuleNotFoundError(answer["error"], name=answer["missing"])
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def answer_of(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The answer of `certify_named(name, **options)`: "verdict", "lines" and "json" of the certificate."""
    found = certify_named(name, **options, progress=_Progress())
    return {"verdict": found.verdict.name, "lines": found.lines(), "json": found.to_json()}


def child(file: str, name: str, options: str) -> None:
    """Certify, and write the answer or the error to `file`."""
    watchdog.start()
    owner = os.getpid()
    try:
        with ends_are_errors():
            answer = answer_of(name, json.loads(options))
    except KeyboardInterrupt:
        answer = {"error": "the code under test raised KeyboardInterrupt before a verdict was reached"}
    except ModuleNotFoundError as error:
        answer = {"error": str(error), "missing": error.name or ""}
    except (ValueError, ImportError, OSError, CodeEndedError) as error:
        answer = {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__} before a verdict was reached: {error}"}
    if os.getpid() == owner:  # not in a fork that the code under test has made
        write_whole(Path(file), json.dumps(answer))


class _Progress:
    """Progress on standard error: one line that changes in a terminal, else one line a minute."""

    def __init__(self) -> None:
        self.is_terminal, self.told = sys.stderr.isatty(), time.monotonic()

    def __call__(self, done: int, what: str) -> None:
        """Report the number of worlds or runs so far."""
        if time.monotonic() > self.told + (0.2 if self.is_terminal else 60):
            self.told = time.monotonic()
            print(f"\r{done:,} {what} " if self.is_terminal else f"{done:,} {what} so far", file=sys.stderr,
                  end="" if self.is_terminal else "\n", flush=True)  # fmt: skip
