"""Deeply nested JSON, other encodings, lone surrogates, huge numbers, markup and closed streams: one line each."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import spectheory as st
from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.cli import output
from spectheory.cli.main import shortened
from spectheory.core.checks import is_digits
from tests.command_line import Run, refused, succeeded
from tests.faults.killing import POSIX
from tests.reference.test_measuring import PROMPTS

RECORD = """{"kind": "acceptance", "schema": 3, "table": [[0.7]], "hits": null, "trials": null,
 "provenance": {"source": "made"}}"""
TEXTS: dict[str, bytes] = {
    "a nested list": b"[" * 200_000,
    "a lone surrogate": RECORD.replace("made", "\\ud800").encode(),
    "a number of 6,000 digits": RECORD.replace("0.7", "7" * 6000).encode(),
    "UTF-16": RECORD.encode("utf-16"),
    "nothing": b"",
    "a number": b"7",
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "rates": ("plan", "--latency", "latency.json", "--acceptance", "FILE"),
    "times": ("plan", "--acceptance", "acceptance.json", "--latency", "FILE"),
    "a tree": ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--tree", "FILE"),
    "an output": ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--out", "FILE"),
    "a schedule to serve": ("serve", "--schedule", "FILE", "--load", "poisson:3"),
    "prompts": ("trace", "--out", "trace", "--prompts", "FILE", "--count", "1"),
    "recorded text": ("replay", "FILE"),
    "a configuration": ("schedule", "--acceptance", "acceptance.json", "--gpu", "h100_sxm", "--draft", "ngram",
                        "--target", "FILE"),
    "a benchmark": ("calibrate", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--runs", "FILE"),
    "statistics of an engine": ("import", "sglang-response", "FILE", "--out", "new.json"),
    "standard input": ("plan", "--latency", "latency.json", "--acceptance", "-"),
}  # fmt: skip


@pytest.fixture
def files(run: Run) -> Run:
    """Run commands in a folder with rates and times."""
    st.Acceptance.by_rank([0.7]).save("acceptance.json")
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_read_is_one_line(files: Run, command: str) -> None:
    for text in TEXTS.values():
        Path("given.json").write_bytes(text)
        given = text if command == "standard input" else None
        result = files(*(part.replace("FILE", "given.json") for part in COMMANDS[command]), given=given)
        refused(result, "")
        assert "given.json" in result.stderr or "standard input" in result.stderr
        assert Path("given.json").read_bytes() == text


@pytest.mark.parametrize("name", ["t[/b]", "[link=a]", "\udc80", "a" * 300])
def test_a_folder_of_any_name_is_named_as_it_is(files: Run, name: str) -> None:
    result = files("trace", "--out", "trace", "--target", name)
    refused(result, "")
    assert name.encode("utf-8", "replace").decode() in result.stderr or "File name too long" in result.stderr


def test_names_are_printed_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for console in (output.console, output.errors):
        console.print("target [red]x[/red]")
    assert [text.strip() for text in capsys.readouterr()] == ["target [red]x[/red]"] * 2


def test_rates_of_6000_digits_are_rates(files: Run) -> None:
    """They do not name a file, and no file may have so long a name."""
    succeeded(files("plan", "--acceptance", f"0.{'7' * 6000},0.5", "--latency", "latency.json", "--max-budget", 2))


@POSIX
@pytest.mark.parametrize(
    ("streams", "environment", "status", "said"),
    [
        ("<&-", {}, 2, "standard input is closed"),
        (">/dev/full", {}, 2, "No space left on device"),
        ("", {"PYTHONIOENCODING": "ascii"}, 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", {}, 0, ""),
    ],
)
def test_streams_that_are_closed_full_or_ascii(
    files: Run, streams: str, environment: dict[str, str], status: int, said: str
) -> None:
    rates = "-" if "<" in streams else "acceptance.json"
    line = f"{sys.executable} -m spectheory plan --acceptance {rates} --latency latency.json --max-budget 4 {streams}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env={**os.environ, **environment})
    assert ended.returncode == status, ended.stderr
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 1


def test_a_full_disk_is_named_with_its_file(tiny: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    settings = TraceSettings("numbers", candidates=2, new_tokens=4, batch=2)
    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", full)
        with pytest.raises(st.InputError, match=r"part-000000.parquet cannot be written: No space left on device"):
            record_trace(tiny, PROMPTS, settings, tmp_path)
    record_trace(tiny, PROMPTS, settings, tmp_path)
    assert len(list(tmp_path.glob("part-*.parquet"))) == 3
    shutil.rmtree(tmp_path)


def test_a_message_is_as_long_as_can_be_read(files: Run) -> None:
    assert shortened(f"got '{'9' * 6000}': lower it") == f"got '{'9' * 199}...{'9' * 78}': lower it"
    assert len(shortened("12 " * 6000)) <= 3010
    result = files("replay", "plan.json", "--chains", "9" * 6000)
    refused(result, "")
    assert len(result.stderr) < 3010


def test_numbers_in_names_are_digits_that_can_be_read() -> None:
    assert is_digits("007")
    assert not any(map(is_digits, ["²", "٣", "9" * 6000, "", "-1", "1.5"]))
