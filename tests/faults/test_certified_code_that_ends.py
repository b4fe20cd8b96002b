"""Code under test that ends itself, hangs or meddles with the process: only a verdict that was reached passes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import spectheory as st
from spectheory.certify import Verdict
from spectheory.certify.guard import CodeEndedError
from spectheory.cli import app

MODULE = """
import atexit, ctypes, itertools, json, os, signal, sys, threading, time

class Own(BaseException):
    pass

def pipes():
    places = [(n, "/dev/fd/%d" % n) for n in range(3, 64)]
    return [n for n, place in places if os.path.exists(place) and "pipe" in os.path.realpath(place)]

def end():
    {end}

def right(draft, p, rng):
    return 0, rng.choice(len(p[0]), p=p[0])

def wrong(draft, p, rng):
    return 0, 0

def ends(draft, p, rng):
    end()
    return right(draft, p, rng)

class Ending:
    vocab_size = 2
    rules = ()

    def step(self, context, rng):
        return [int(rng.integers(2))]

    def target(self, context):
        end()

class NotMade:
    def __init__(self):
        end()

if {at_import}:
    end()
"""
TIMES = {
    "verifier": ("ends", "--shape", "1", "--cases", "2"),
    "black box": ("ends", "--black-box", "--shape", "1", "--max-samples", "50"),
    "search of a shape": ("ends", "--black-box", "--max-samples", "50"),
    "target": ("Ending", "--max-samples", "50"),
    "constructor": ("NotMade", "--cases", "2"),
    "import": ("right", "--cases", "2"),
}
STATUS = "ended the process with status"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork")
WAYS = [
    ("sys.exit(0)", "called sys.exit(0)"),
    ("sys.exit()", "called sys.exit(None)"),
    ("sys.exit('text')", "called sys.exit('text')"),
    ("sys.exit(2)", "called sys.exit(2)"),
    ("atexit.register(os._exit, 0); sys.exit(0)", "called sys.exit(0)"),
    ("os._exit(0)", f"{STATUS} 0 before a verdict"),
    ("os._exit(3)", f"{STATUS} 3 before a verdict"),
    ("os.close(1); os._exit(0)", f"{STATUS} 0 before a verdict"),
    ("threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(60)", f"{STATUS} 0 before a verdict"),
    ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    ("raise GeneratorExit", "raised GeneratorExit()"),
    ("raise Own", "raised Own()"),
]
POSIX_WAYS = [
    ("os.closerange(0, 100)", f"{STATUS} 1 before a verdict"),
    ("os.abort()", "signal 6 ("),
    ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 ("),
    ("ctypes.string_at(0)", "signal 11 ("),
    ("os.execv(sys.executable, [sys.executable, '-c', ''])", f"{STATUS} 0 before a verdict"),
    ("os.fork() and os._exit(0)", f"{STATUS} 0 before a verdict"),
]
Certify = Callable[..., Result]


@pytest.fixture
def certify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certify:
    """Certify an object of a module with a body for `end`, from the folder that holds the module."""
    monkeypatch.chdir(tmp_path)

    def run(end: str, name: str, *arguments: str, at_import: bool = False) -> Result:
        Path("code_that_ends.py").write_text(MODULE.format(end=end, at_import=at_import))
        return CliRunner().invoke(app, ["certify", f"code_that_ends:{name}", *arguments])

    return run


def ways_and_times() -> list[Any]:
    """Every way at two times and one way of each kind at every time; all other pairs are marked `deep`."""
    kinds = ("sys.exit(0)", "os._exit(0)", "raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGKILL)")
    found = []
    for (end, said), when in itertools.product([*WAYS, *POSIX_WAYS], TIMES):
        marks = [POSIX] if (end, said) in POSIX_WAYS else []
        marks += [] if end in kinds or when in ("verifier", "black box") else [pytest.mark.deep]
        found.append(pytest.param(end, said, when, marks=marks))
    return found


@pytest.mark.parametrize(("end", "said", "when"), ways_and_times())
def test_ending_is_never_a_verdict(certify: Certify, end: str, said: str, when: str) -> None:
    result = certify(end, *TIMES[when], at_import=when == "import")
    assert result.exit_code == 2, result.output
    assert "keeps the target" not in result.output
    assert [said in line for line in result.output.splitlines()].count(True) == 1, result.output


@pytest.mark.parametrize("end", ["os._exit(0)", "os._exit(3)", "raise SystemExit(3)", "raise KeyboardInterrupt"])
@pytest.mark.parametrize(("name", "status"), [("right", 0), ("wrong", 1)])
def test_a_verdict_holds_whatever_the_process_does_after_it(certify: Certify, end: str, name: str, status: int) -> None:
    later = f"atexit.register(lambda: exec({end!r}))"
    result = certify(later, name, "--shape", "1", "--cases", "2", at_import=True)
    assert result.exit_code == status
    assert "code under test" not in result.output


@pytest.mark.parametrize(
    "end",
    [
        "print('noise', flush=True)",
        "os.write(1, b'noise')",
        "os.system('echo noise')",
        "sys.stdout.close()",
        "sys.stdout = None",
        "os.close(1)",
    ],
)
def test_what_the_code_does_to_standard_output_does_not_reach_the_answer(certify: Certify, end: str) -> None:
    result = certify(end, "right", "--shape", "1", "--cases", "2", "--json", at_import=True)
    assert json.loads(result.stdout)["verdict"] == "LOSSLESS"
    assert result.exit_code == 0


@POSIX
@pytest.mark.parametrize("when", ["verifier", "black box", "search of a shape"])
@pytest.mark.parametrize(
    ("end", "limit"),
    [
        ("while True: pass", "0.1 seconds of processor time"),
        ("for _ in itertools.repeat(1): sum(itertools.repeat(1))", "0.1 seconds of processor time"),
        ("time.sleep(60)", "1 seconds by the clock"),
        ("type('Finalized', (), {'__del__': lambda _: time.sleep(60)})()", "1 seconds by the clock"),
    ],
)
def test_a_call_that_does_not_return_ends_the_test(certify: Certify, end: str, limit: str, when: str) -> None:
    result = certify(end, *TIMES[when], "--seconds", "0.1")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"error: a call of the code under test did not return within {limit}: correct the code, or raise --seconds"
    ]


SLEEPER = "open('pid', 'a').write(str(os.getpid())); os.rename('pid', 'written'); time.sleep(600)"


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie, which only waits for its parent to ask for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(written: Path) -> bool:
    """Whether the process ends whose id is in a file; the kernel may take a moment."""
    pid = int(written.read_text())
    for _ in range(1000):
        if not is_running(pid):
            return True
        time.sleep(0.01)
    return False


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc and waitid")


@LINUX
@pytest.mark.parametrize(
    ("end", "name", "status", "said"),
    [
        (
            f"exec({SLEEPER!r}) if not os.path.exists('written') and not os.fork() else None",
            "ends",
            0,
            "keeps the target",
        ),
        (f"os._exit(0) if os.fork() else exec({SLEEPER!r})", "ends", 2, f"{STATUS} 0 before a verdict"),
        (f"os.abort() if os.fork() else exec({SLEEPER!r})", "ends", 2, "signal 6 ("),
    ],
    ids=["goes on", "exits", "aborts"],
)
def test_processes_that_the_code_starts_end_with_it(
    certify: Certify, tmp_path: Path, end: str, name: str, status: int, said: str
) -> None:
    """They also hold the pipe of the messages, which must not be waited for."""
    result = certify(end, name, "--shape", "1", "--cases", "2")
    assert result.exit_code == status, result.output
    assert said in result.output
    if status == 0 or (tmp_path / "written").exists():
        assert ended(tmp_path / "written")


@LINUX
@pytest.mark.parametrize("when", ["verifier", "black box", "import", "target"])
def test_code_that_stops_its_process_is_not_waited_for(certify: Certify, when: str) -> None:
    result = certify("os.kill(os.getpid(), signal.SIGSTOP)", *TIMES[when], at_import=when == "import")
    assert result.exit_code == 2
    assert "error: the process of the code under test was stopped before a verdict was reached" in result.stderr


@POSIX
@pytest.mark.parametrize(
    "line", ["b'x' * 2**20", "json.dumps(dict(note='x')).encode() + bytes([10])"], ids=["noise", "notes"]
)
def test_code_that_floods_the_pipe_of_messages_is_ended(certify: Certify, line: str) -> None:
    """It finds the pipe among the open files."""
    end = f"line = {line}; [os.write(n, line) for _ in itertools.repeat(1) for n in pipes()]"
    result = certify(end, "ends", "--shape", "1", "--cases", "2")
    assert result.exit_code == 2
    assert "wrote to the pipe that is meant for messages of spectheory" in result.stderr
    assert len(result.stderr.splitlines()) < 20


@POSIX
@pytest.mark.parametrize("name", ["right", "NotMade"])
def test_loading_has_a_limit_of_its_own(certify: Certify, name: str) -> None:
    result = certify("while True: pass", name, "--seconds", "0.1", at_import=name == "right")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: the code under test was not loaded within 1 seconds of processor time: correct the code, or raise "
        "--seconds"
    ]


@POSIX
@pytest.mark.parametrize("when", ["verifier", "target"])
def test_code_that_takes_the_timers_away_is_ended_for_its_silence(
    certify: Certify, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectheory.certify.process.SILENCE", 5)
    end = "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGPROF, signal.SIGALRM)]; time.sleep(600)"
    result = certify(end, *TIMES[when], "--seconds", "0.1")
    assert result.exit_code == 2
    assert "error: the code under test was silent for 6 seconds, although its limits of time" in result.stderr


@POSIX
def test_an_interruption_ends_the_code_under_test_too(tmp_path: Path) -> None:
    write_pid = "open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'written'); time.sleep(600)"
    (tmp_path / "code_that_ends.py").write_text(MODULE.format(end=write_pid, at_import=True))
    command = [sys.executable, "-c", "from spectheory.cli import app; app()", "certify", "code_that_ends:right"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "written").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said.startswith("interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "written").read_text()), 0)


def exits(*_: Any) -> Any:
    sys.exit(0)


def test_the_library_reports_code_that_exits() -> None:
    certificate = st.certify_verifier(exits, policies=[st.Levels((1,))])
    assert certificate.verdict is Verdict.UNDECIDED
    assert (
        "raised CodeEndedError in exits, test_certified_code_that_ends.py line"
        in (certificate.failure or "").splitlines()[0]
    )
    assert "called sys.exit(0): return or raise an error instead" in (certificate.failure or "")
    step = st.certify_step(exits, lambda _: np.array([0.5, 0.5]), vocab_size=2)
    assert step.verdict is Verdict.UNDECIDED
    assert "called sys.exit(0)" in step.failure
    with pytest.raises(CodeEndedError, match=r"called sys.exit\(0\)"):
        st.certify_step(lambda *_: [0], exits, vocab_size=2)


class ExitsAsANumber:
    """A token that exits when it is used as a number."""

    __index__ = exits


def emits_one(*_: Any) -> Any:
    return [ExitsAsANumber()]


def test_no_exit_leaves_the_library() -> None:
    with pytest.raises(CodeEndedError):
        st.certify_verifier(lambda *_: (0, ExitsAsANumber()), policies=[st.Levels((1,))])
    with pytest.raises(CodeEndedError):
        st.certify_step(emits_one, lambda _: np.array([0.5, 0.5]), vocab_size=2)


def test_an_interruption_from_the_keyboard_leaves_the_library() -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        st.certify_verifier(interrupted, policies=[st.Levels((1,))])


MALFORMED = (
    "1",
    "[]",
    "{",
    "[" * 200_000,
    '{"verdict": []}',
    '{"verdict": "LOSSLESS"}',
    '{"verdict": "LOSSLESS", "lines": 5, "json": {}, "page": null}',
    '{"x": 1}',
    '{"worlds": "abc"}',
    '{"error": 1}',
)


@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_what_the_child_does_not_send_is_no_message(line: str) -> None:
    from spectheory.certify.process import _message

    assert _message(line + "\n") is None
    answer = json.dumps({"verdict": "LOSSLESS", "lines": [], "json": {}, "page": None})
    assert _message(answer) is None, "a line that was cut off"
    assert _message(answer + "\n") == json.loads(answer)
