"""Code under test that ends itself: only a verdict that was reached passes."""

from __future__ import annotations

import itertools
import json
import re
import sys
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.certify import Verdict
from spectheory.certify.guard import CodeEndedError, within
from tests.faults.code_that_ends import POSIX, STATUS, TIMES, Certify, certify

__all__ = ["certify"]

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


ALIKE = (
    *("sys.exit()", "sys.exit('text')", "sys.exit(2)", "raise GeneratorExit", "raise Own"),
    *("os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"),
)
"""Ways that a child takes only in deep tests: like another way, they are exceptions, a status or a signal."""


def ways_and_times() -> list[Any]:
    """Every way but those `ALIKE` at one of the times, in turn; other pairs are `deep`."""
    found = []
    for (turn, (end, said)), (place, when) in itertools.product(enumerate([*WAYS, *POSIX_WAYS]), enumerate(TIMES)):
        marks = [POSIX] if (end, said) in POSIX_WAYS else []
        marks += [] if turn % len(TIMES) == place and end not in ALIKE else [pytest.mark.deep]
        found.append(pytest.param(end, said, when, marks=marks))
    return found


@pytest.mark.parametrize(("end", "said", "when"), ways_and_times())
def test_ending_is_never_a_verdict(certify: Certify, end: str, said: str, when: str) -> None:
    result = certify(end, *TIMES[when], at_import=when == "import")
    assert result.exit_code == 2, result.output
    assert "keeps the target" not in result.output
    assert [said in line for line in result.output.splitlines()].count(True) == 1, result.output


class Own(BaseException):
    """An exception that is no `Exception`."""


@pytest.mark.parametrize(
    ("end", "said"), [(end, said) for end, said in WAYS if "sys.exit" in end or (end in ALIKE and "raise" in end)]
)
def test_an_exception_that_ends_a_process_is_an_error(end: str, said: str) -> None:
    with pytest.raises(CodeEndedError, match=re.escape(said)):
        within(1, exec, end.rpartition("; ")[2], {"sys": sys, "Own": Own})


@pytest.mark.parametrize(
    ("name", "status", "end"),
    [
        pytest.param("right", 0, "os._exit(3)", marks=pytest.mark.deep),
        ("right", 0, "raise KeyboardInterrupt"),
        ("wrong", 1, "os._exit(0)"),
        pytest.param("wrong", 1, "raise SystemExit(3)", marks=pytest.mark.deep),
        pytest.param("right", 0, "os._exit(0)", marks=pytest.mark.deep),
        pytest.param("right", 0, "raise SystemExit(3)", marks=pytest.mark.deep),
    ],
)
def test_a_verdict_holds_whatever_the_process_does_after_it(certify: Certify, name: str, status: int, end: str) -> None:
    later = f"atexit.register(lambda: exec({end!r}))"
    result = certify(later, name, "--shape", "1", "--cases", "2", at_import=True)
    assert result.exit_code == status
    assert "code under test" not in result.output


@pytest.mark.parametrize(
    "end",
    [
        "print('noise', flush=True); os.write(1, b'noise'); os.system('echo noise'); sys.stdout.close()",
        "sys.stdout = None; os.close(1)",
        pytest.param("sys.stdout = None", marks=pytest.mark.deep),
        pytest.param("os.close(1)", marks=pytest.mark.deep),
    ],
)
def test_what_the_code_does_to_standard_output_does_not_reach_the_answer(certify: Certify, end: str) -> None:
    result = certify(end, "right", "--shape", "1", "--cases", "2", "--json", at_import=True)
    assert json.loads(result.stdout)["verdict"] == "LOSSLESS"
    assert result.exit_code == 0


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


def test_no_exit_leaves_the_library() -> None:
    with pytest.raises(CodeEndedError):
        st.certify_verifier(lambda *_: (0, ExitsAsANumber()), policies=[st.Levels((1,))])
    with pytest.raises(CodeEndedError):
        st.certify_step(lambda *_: [ExitsAsANumber()], lambda _: np.array([0.5, 0.5]), vocab_size=2)


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
