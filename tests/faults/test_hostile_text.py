"""Deeply nested JSON, other encodings, lone surrogates, huge numbers, markup and closed streams: one line each."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import spectheory as st
from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.cli import output
from tests.command_line import Run
from tests.faults.code_that_ends import POSIX
from tests.test_measuring import PROMPTS

RECORD = """{"kind": "acceptance", "schema": 3, "table": [[0.7]], "hits": null, "trials": null,
 "provenance": {"source": "made"}}"""
TEXTS: dict[str, bytes] = {
    "a nested list": b"[" * 200_000,
    "a nested object": b'{"a":' * 100_000,
    "a lone surrogate": RECORD.replace("made", "\\ud800").encode(),
    "a number of 6,000 digits": RECORD.replace("0.7", "7" * 6000).encode(),
    "a schema of 6,000 digits": RECORD.replace(" 3,", "3" * 6000 + ",").encode(),
    "Latin-1": RECORD.replace("made", "\xe9").encode("latin-1"),
    "UTF-16": RECORD.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + RECORD.encode(),
    "zeros": bytes(50),
    "nothing": b"",
    "a number": b"7",
    "two records": RECORD.encode() * 2,
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "rates": ("plan", "--latency", "latency.json", "--acceptance", "FILE"),
    "times": ("plan", "--acceptance", "acceptance.json", "--latency", "FILE"),
    "a tree": ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--tree", "FILE"),
    "an output": ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--out", "FILE"),
    "a plan to compare": ("compare", "--plan", "FILE"),
    "a plan to simulate": ("simulate", "--plan", "FILE"),
    "prompts": ("trace", "--out", "trace", "--prompts", "FILE", "--count", "1"),
    "recorded text": ("explain", "FILE"),
    "costs": ("schedule", "--acceptance", "acceptance.json", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft",
              "ngram", "--costs", "FILE"),
    "a configuration": ("schedule", "--acceptance", "acceptance.json", "--gpu", "h100_sxm", "--draft", "ngram",
                        "--target", "FILE"),
    "a benchmark": ("calibrate", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--runs", "FILE"),
    "statistics of an engine": ("import", "sglang-response", "FILE", "--out", "new.json"),
    "a load": ("simulate", "--plan", "plan.json", "--load", "FILE"),
    "a schedule": ("tune", "--schedule", "FILE", "--load", "poisson:1"),
    "standard input": ("plan", "--latency", "latency.json", "--acceptance", "-"),
}  # fmt: skip


@pytest.fixture
def files(run: Run) -> Run:
    """Run commands in a folder with rates, times and a plan."""
    rates, times = st.Acceptance.by_rank([0.7]), st.Latency.constant(draft_seconds=0.1)
    rates.save("acceptance.json")
    times.save("latency.json")
    st.plan(rates, times, max_budget=2).save("plan.json")
    return run


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_file_that_cannot_be_read_is_one_line(files: Run, command: str, text: str) -> None:
    Path("given.json").write_bytes(TEXTS[text])
    given = TEXTS[text] if command == "standard input" else None
    arguments = [part.replace("FILE", "given.json") for part in COMMANDS[command]]
    result = files(*arguments, given=given)  # type: ignore[arg-type]
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert "given.json" in lines[0] or "standard input" in lines[0]
    assert Path("given.json").read_bytes() == TEXTS[text]


@pytest.mark.parametrize("name", ["t[/b]", "[red]x", "[link=a]", "\udc80", "a" * 300, "\u202e"])
def test_a_folder_of_any_name_is_named_as_it_is(files: Run, name: str) -> None:
    result = files("trace", "--out", "trace", "--target", name)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    shown = name.encode("utf-8", "replace").decode()
    assert shown in result.stderr or "File name too long" in result.stderr


@pytest.mark.parametrize("name", ["t[/b]", "[red]x[/red]"])
def test_names_are_printed_without_markup(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for console in (output.console, output.errors):
        console.print(f"target {name}")
    assert [text.strip() for text in capsys.readouterr()] == [f"target {name}"] * 2


def test_a_text_with_a_lone_surrogate_is_refused(files: Run) -> None:
    result = files("generate", "a\udc80b", "--plan", "plan.json")
    assert (result.exit_code, result.stderr) == (2, "error: TEXT is not text in UTF-8: convert it to UTF-8\n")


def test_rates_of_6000_digits_are_rates(files: Run) -> None:
    """They do not name a file, and no file may have so long a name."""
    long = f"0.{'7' * 6000},0.5"
    result = files("plan", "--acceptance", long, "--latency", "latency.json", "--max-budget", 2)
    assert result.exit_code == 0, result.output


COMMAND = ["plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--max-budget", "4"]


@POSIX
@pytest.mark.parametrize(
    ("streams", "environment", "status", "said"),
    [
        ("<&-", {}, 2, "standard input is closed"),
        ("</dev/null", {}, 2, "is damaged"),
        (">/dev/full", {}, 2, "No space left on device"),
        (">&-", {}, 0, ""),
        ("", {"PYTHONIOENCODING": "ascii"}, 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", {}, 0, ""),
    ],
)
def test_streams_that_are_closed_full_or_ascii(
    files: Run, streams: str, environment: dict[str, str], status: int, said: str
) -> None:
    command = [part.replace("acceptance.json", "-") if "<" in streams else part for part in COMMAND]
    line = " ".join([sys.executable, "-m", "spectheory", *command, streams])
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env={**os.environ, **environment})
    assert ended.returncode == status, ended.stderr
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 1
    assert "Traceback" not in ended.stderr


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_in_a_part_is_named_with_its_file(
    tiny: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TraceSettings("numbers", candidates=2, new_tokens=4, batch=2)
    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", full)
        with pytest.raises(st.InputError, match=r"part-000000.parquet cannot be written: No space left on device"):
            record_trace(tiny, PROMPTS, settings, tmp_path)
    record_trace(tiny, PROMPTS, settings, tmp_path)
    assert len(list(tmp_path.glob("part-*.parquet"))) == 3


def test_any_refusal_of_the_system_is_one_line(files: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectheory.planning.candidates.Candidates.__init__", full)
    result = files(*COMMAND)
    assert result.exit_code == 2
    assert result.stderr == "error: No space left on device: name another file or folder, or free what is missing\n"
