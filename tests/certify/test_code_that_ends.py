"""Code under test that ends its process, or never returns: only a verdict that was reached passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner, Result

import spectheory as st
from spectheory.certify import Verdict
from spectheory.certify.guard import CodeEndedError
from spectheory.cli import app

MODULE = """
import atexit, os, signal, sys, time
from spectheory.certify import Play

def end():
    {end}

def right(draft, p, rng):
    return 0, rng.choice(len(p[0]), p=p[0])

def ends(draft, p, rng):
    end()
    return right(draft, p, rng)

def target(context):
    end()

STEP = Play("", lambda context, rng: [int(rng.integers(2))], target, ((),), 1, 2)

if {at_import}:
    end()
"""
STATUS = "ended with status"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork")
Certify = Callable[..., Result]


@pytest.fixture
def certify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certify:
    """Certify an object of a module with a body for `end`, from the folder that holds the module."""
    monkeypatch.chdir(tmp_path)

    def run(end: str, name: str, *arguments: str, at_import: bool = False) -> Result:
        Path("code_that_ends.py").write_text(MODULE.format(end=end, at_import=at_import))
        return CliRunner().invoke(
            app, ["certify", f"code_that_ends:{name}", "--shape", "1", "--cases", "2", *arguments]
        )

    return run


@pytest.mark.parametrize(
    ("end", "said", "name"),
    [
        ("sys.exit(0)", "raised SystemExit(0)", "ends"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt", "ends"),
        ("os._exit(0)", f"{STATUS} 0 before a verdict", "STEP"),
        ("os._exit(0)", f"{STATUS} 0 before a verdict", "right"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", f"{STATUS} -9 before", "ends", marks=POSIX),
        pytest.param("os.fork() and os._exit(0)", f"{STATUS} 0 before a verdict", "ends", marks=POSIX),
    ],
)
def test_ending_is_never_a_verdict(certify: Certify, end: str, said: str, name: str) -> None:
    result = certify(end, name, at_import=name == "right")
    assert result.exit_code == 2, result.output
    assert "keeps the target" not in result.output
    assert said in result.output


def test_a_verdict_holds_whatever_the_process_does_to_its_output_and_after_it(certify: Certify) -> None:
    end = "atexit.register(os._exit, 3); print('noise', flush=True); os.write(1, b'noise'); os.close(1)"
    result = certify(end, "right", "--json", at_import=True)
    assert json.loads(result.stdout)["verdict"] == "LOSSLESS"
    assert result.exit_code == 0


@pytest.mark.parametrize("end", ["while True: pass", "time.sleep(600)"])
def test_a_call_that_does_not_return_is_ended(certify: Certify, end: str) -> None:
    result = certify(end, "ends", "--seconds", "0.2")
    assert result.exit_code == 2
    assert "a call did not return within 3 seconds by the clock: correct the code, or raise --seconds" in result.stderr


def exits(*_: Any) -> Any:
    sys.exit(0)


def test_the_library_reports_code_that_exits() -> None:
    certificate = st.certify_verifier(exits, policies=[st.Levels((1,))])
    assert certificate.verdict is Verdict.UNDECIDED
    assert "raised CodeEndedError in exits, test_code_that_ends.py line" in (certificate.failure or "")
    step = st.certify_step(exits, lambda _: np.array([0.5, 0.5]), vocab_size=2)
    assert step.verdict is Verdict.UNDECIDED
    assert "raised SystemExit(0)" in step.failure
    with pytest.raises(CodeEndedError, match=r"raised SystemExit\(0\)"):
        st.certify_step(lambda *_: [0], exits, vocab_size=2)


@POSIX
def test_the_child_ends_when_the_command_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\n\ndef verify(draft, p, rng):\n    time.sleep(60)\n")
    command = [sys.executable, "-m", "spectheory", "certify", "slow:verify", "--seconds", "60"]
    environment = os.environ | {"PYTHONPATH": str(Path(st.__file__).parents[1])}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as parent:
        children = psutil.Process(parent.pid).children
        while not (started := children()):
            time.sleep(0.05)
        parent.kill()
    gone, _ = psutil.wait_procs(started, timeout=60)
    assert gone == started
