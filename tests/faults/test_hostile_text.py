"""Deeply nested JSON, other encodings, lone surrogates, huge numbers, markup and closed streams: one line each."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import spectheory as st
from reference.models import Pair
from reference.part_files import stamp_of
from reference.tracing import TraceSettings, record_trace
from simulate.serving import sglang
from spectheory.cli import output
from spectheory.cli.main import shortened
from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from tests.command_line import Run, refused, succeeded
from tests.faults.killing import POSIX
from tests.reference.test_measuring import PROMPTS
from tests.refusals import refuses

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
    "a schedule to serve": ("serve", "--schedule", "FILE", "--load", "poisson:3"),
    "prompts": ("trace", "--out", "trace", "--prompts", "FILE", "--count", "1"),
    "recorded text": ("replay", "FILE"),
    "costs": ("schedule", "--acceptance", "acceptance.json", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft",
              "ngram", "--costs", "FILE"),
    "a configuration": ("schedule", "--acceptance", "acceptance.json", "--gpu", "h100_sxm", "--draft", "ngram",
                        "--target", "FILE"),
    "a benchmark": ("calibrate", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--runs", "FILE"),
    "statistics of an engine": ("import", "sglang-response", "FILE", "--out", "new.json"),
    "a schedule": ("tune", "--schedule", "FILE", "--load", "poisson:1"),
    "standard input": ("plan", "--latency", "latency.json", "--acceptance", "-"),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rates, times and a plan."""
    folder = tmp_path_factory.mktemp("saved")
    rates, times = st.Acceptance.by_rank([0.7]), st.Latency.constant(draft_seconds=0.1)
    rates.save(folder / "acceptance.json")
    times.save(folder / "latency.json")
    st.plan(rates, times, max_budget=2).save(folder / "plan.json")
    return folder


@pytest.fixture
def files(run: Run, saved: Path, tmp_path: Path) -> Run:
    """Run commands in a folder with rates, times and a plan."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return run


READS = [
    pytest.param(command, text, marks=() if (place + turn) % 3 == 0 else pytest.mark.deep)
    for place, command in enumerate(COMMANDS)
    for turn, text in enumerate(TEXTS)
]
"""Each command with four of the texts; in deep runs, with each."""


@pytest.mark.parametrize(("command", "text"), READS)
def test_a_file_that_cannot_be_read_is_one_line(files: Run, command: str, text: str) -> None:
    Path("given.json").write_bytes(TEXTS[text])
    given = TEXTS[text] if command == "standard input" else None
    arguments = [part.replace("FILE", "given.json") for part in COMMANDS[command]]
    result = files(*arguments, given=given)  # type: ignore[arg-type]
    refused(result, "")
    assert "given.json" in result.stderr or "standard input" in result.stderr
    assert Path("given.json").read_bytes() == TEXTS[text]


@pytest.mark.parametrize("name", ["t[/b]", "[red]x", "[link=a]", "\udc80", "a" * 300, "\u202e"])
def test_a_folder_of_any_name_is_named_as_it_is(files: Run, name: str) -> None:
    result = files("trace", "--out", "trace", "--target", name)
    refused(result, "")
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
    succeeded(files("plan", "--acceptance", long, "--latency", "latency.json", "--max-budget", 2))


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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("error: got '" + "9" * 6000 + "': lower it", "error: got '" + "9" * 199 + "..." + "9" * 78 + "': lower it"),
        ("error: " + "12 " * 6000 + "repair", None),
        ("error: a file of " + "n" * 255, "error: a file of " + "n" * 255),
    ],
)
def test_a_message_is_as_long_as_can_be_read(line: str, said: str | None) -> None:
    found = shortened(line)
    assert said in (None, found)
    assert len(found) <= 3010
    assert (found[:7], found[-6:]) == (line[:7], line[-6:])


@pytest.mark.parametrize(
    "arguments",
    [
        ("profile", "--out", "new.json", "--contexts", "9" * 6000),
        ("simulate", "--schedule", "plan.json", "--load", "x" * 6000),
        ("simulate", "--schedule", "plan.json", "--load", "poisson:" + "9" * 6000),
        ("replay", "plan.json", "--chains", "9" * 6000),
        ("train", "texts", "--out", "new", "--share", "0/" + "9" * 6000),
        ("train", "texts", "--out", "new", "--share", "²/3"),
        ("train", "texts", "--out", "new", "--temperatures", "9" * 6000),
        ("calibrate", "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--plain", "1:" + "9" * 6000),
    ],
    ids=lambda arguments: arguments[0] + arguments[-1][:8],
)
def test_a_value_of_6000_characters_is_one_short_line(files: Run, arguments: tuple[str, ...]) -> None:
    result = files(*arguments)
    refused(result, "")
    assert isinstance(result.exception, SystemExit)
    assert len(result.stderr) < 3010


@pytest.mark.parametrize("wrong", ["²", "٣", "9" * 6000, "", "-1", "1.5"])
def test_numbers_in_names_are_digits_that_can_be_read(tmp_path: Path, wrong: str) -> None:
    assert not is_digits(wrong)
    assert is_digits("007")
    metrics, name = tmp_path / "metrics.txt", "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f'{name}{{position="{wrong}"}} 5.0', "vllm:spec_decode_num_drafts_total 9.0"]
    lines += ["vllm:spec_decode_num_draft_tokens_total 9.0", "vllm:spec_decode_num_accepted_tokens_total 5.0"]
    metrics.write_text("\n".join(lines) + "\n")
    refuses("must have a label 'position'", st.read_report, metrics, "vllm-metrics", min_trials=1)
    with pytest.raises(InputError):
        sglang(st.Acceptance.by_rank([0.5]), 8, config={wrong: {"candidate_steps": [1, 2]}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9" * 6000, "is damaged: not JSON (a number has thousands of digits)"),
        ("[-1, false]", "must hold a parent array such as [-1, 0, 0]"),
        ("[" * 100_000, "is damaged: not JSON (it is nested too deeply)"),
    ],
)
def test_a_tree_file_is_refused_by_name(files: Run, text: str, said: str) -> None:
    Path("tree.json").write_text(text)
    refused(files("replay", "absent", "--tree", "tree.json"), f"tree.json {said}")


@pytest.mark.parametrize("line", ["{}", '{"acc_eagle": [1, 2]}', '{"acc_eagle": {"length": [1]}}'])
def test_a_line_without_lengths_says_how_it_must_be(files: Run, line: str) -> None:
    Path("lengths.jsonl").write_text(line)
    said = 'lengths.jsonl, line 1 must have one drafter, got none: it must be like {"acc_eagle": {"acc_len": [1, 3]}}'
    refused(files("replay", "lengths.jsonl"), said)
    refused(files("replay", "lengths.jsonl", "--drafter", "acc_eagle"), said)


def test_a_folder_without_provenance_is_not_called_damaged(tmp_path: Path) -> None:
    """Its owner is not advised to remove it."""
    refuses(r"has no provenance.json: name a folder that spectheory has written", stamp_of, tmp_path)


def test_a_damaged_record_in_a_field_is_named_with_its_file(files: Run) -> None:
    data = json.loads(Path("plan.json").read_text())
    data["acceptance"]["table"][0][0] = 9.9
    Path("edited.json").write_text(json.dumps(data))
    refused(
        files("simulate", "--plan", "edited.json"),
        "edited.json is damaged: acceptance is damaged: table[0] must sum to",
    )
