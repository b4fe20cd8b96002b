"""Code under test that does not return, starts processes or meddles with the process: it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.code_that_ends import MODULE, POSIX, STATUS, TIMES, Certify, certify

__all__ = ["certify"]


PROCESSOR, CLOCK = "0.1 seconds of processor time", "1 seconds by the clock"
CALLS = [
    ("while True: pass", PROCESSOR),
    ("time.sleep(60)", CLOCK),
    ("for _ in itertools.repeat(1): sum(itertools.repeat(1))", PROCESSOR),
    ("type('Finalized', (), {'__del__': lambda _: time.sleep(60)})()", CLOCK),
]
"""Calls that do not return, with the limit that ends them."""


@POSIX
@pytest.mark.parametrize(
    ("end", "limit", "when"),
    [
        pytest.param(end, limit, when, marks=[] if number % 3 == place else [pytest.mark.deep])
        for number, (end, limit) in enumerate(CALLS)
        for place, when in enumerate(("verifier", "black box", "search of a shape"))
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
    """Whether a process exists and is not a zombie, which only waits for its parent to ask for its status."""
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
@pytest.mark.parametrize(
    "when", ["import", *(pytest.param(when, marks=pytest.mark.deep) for when in ("verifier", "black box", "target"))]
)
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
@pytest.mark.parametrize("name", ["right", pytest.param("NotMade", marks=pytest.mark.deep)])
def test_loading_has_a_limit_of_its_own(certify: Certify, name: str) -> None:
    result = certify("while True: pass", name, "--seconds", "0.1", at_import=name == "right")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: the code under test was not loaded within 1 seconds of processor time: correct the code, or raise "
        "--seconds"
    ]


@POSIX
@pytest.mark.parametrize("when", ["verifier", pytest.param("target", marks=pytest.mark.deep)])
def test_code_that_takes_the_timers_away_is_ended_for_its_silence(
    certify: Certify, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectheory.certify.process.SILENCE", 3)
    end = "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGPROF, signal.SIGALRM)]; time.sleep(600)"
    result = certify(end, *TIMES[when], "--seconds", "0.1")
    assert result.exit_code == 2
    assert "error: the code under test was silent for 4 seconds, although its limits of time" in result.stderr


@POSIX
def test_an_interruption_ends_the_code_under_test_too(tmp_path: Path) -> None:
    write_pid = "open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'written'); time.sleep(600)"
    (tmp_path / "code_that_ends.py").write_text(MODULE.format(end=write_pid, at_import=True))
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from spectheory.cli import app; app()"
    )
    command = [sys.executable, "-c", start, "certify", "code_that_ends:right"]
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
