"""Deeply nested JSON, other encodings, lone surrogates, huge numbers, markup and closed streams: one line each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spectheory as st
from spectheory.cli.main import shortened
from tests.command_line import Run, refused
from tests.faults.killing import POSIX

RECORD = """{"kind": "acceptance", "schema": 4, "table": [[0.7]], "hits": null, "trials": null,
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
    result = files("trace", "--out", "trace", "--target", name, "--draft", "d")
    refused(result, "")
    assert name.encode("utf-8", "replace").decode() in result.stderr or "File name too long" in result.stderr


@POSIX
@pytest.mark.parametrize(
    ("streams", "environment", "status", "said"),
    [
        ("<&-", {}, 2, "standard input is closed"),
        (">/dev/full", {}, 2, "No space left on device"),
        ("", {"PYTHONIOENCODING": "ascii"}, 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", {}, 141, ""),
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


def test_a_message_is_as_long_as_can_be_read(files: Run) -> None:
    assert shortened(f"got '{'9' * 6000}': lower it") == f"got '{'9' * 199}...{'9' * 78}': lower it"
    assert len(shortened("12 " * 6000)) <= 3010
    result = files("replay", "plan.json", "--chains", "9" * 6000)
    refused(result, "")
    assert len(result.stderr) < 3010
