"""Files of benchmarks: how their format is recognised, and what is said of files that cannot be read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import BenchmarkRuns, benchmark_names, read_runs
from spectheory.engines.benchmark_file import BenchmarkFile
from tests.engines.examples import read, require_refused
from tests.engines.test_aiperf import RECORDS, SUMMARY
from tests.engines.test_llama_cpp_benchmarks import ROW, TABLE, TEST
from tests.engines.test_sglang import BENCH
from tests.engines.test_sglang_benchmarks import ONE_BATCH, SERVING
from tests.engines.test_vllm_benchmarks import LATENCY, SERVE, SIZES, with_arguments
from tests.refusals import refuses

EXAMPLES = {
    "vllm-serve": json.dumps(SERVE),
    "vllm-latency": json.dumps(LATENCY),
    "vllm-latency-arguments": with_arguments(batch_size=8, n=1),
    "sglang-one-batch": json.dumps(ONE_BATCH),
    "sglang-speculative": BENCH,
    "sglang-serving": json.dumps(SERVING),
    "llama.cpp-bench": json.dumps([TEST]),
    "llama.cpp-batched-bench": json.dumps(ROW),
    "llama.cpp-batched-bench-table": TABLE,
    "aiperf-summary": json.dumps(SUMMARY),
    "aiperf-records": "\n".join(map(json.dumps, RECORDS)),
}
JSON = [name for name, text in EXAMPLES.items() if not text.startswith("main")]


def test_there_is_an_example_of_every_format() -> None:
    assert benchmark_names() == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_is_recognised_by_its_fields_alone(tmp_path: Path, name: str) -> None:
    entries = BenchmarkFile.parse(EXAMPLES[name], "a").entries
    formats = {key: form for engine in st.engines.ALL for key, form in engine.benchmarks.items()}
    assert [key for key, form in formats.items() if form.matches(entries[0])] == [name]
    assert read(tmp_path, EXAMPLES[name], **SIZES if name == "vllm-latency" else {}).format == name


@pytest.mark.parametrize("name", JSON)
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, name: str) -> None:
    text = EXAMPLES[name].rstrip()
    require_refused(tmp_path, text[: len(text) - 5], "damaged or cut off")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "bench is empty: pass the file as the benchmark wrote it"),
        (" \n ", "bench is empty"),
        ("[]", "bench has no entries"),
        ("3", "bench must be a JSON object, got int"),
        ("[{}, 3]", "entry 2 must be a JSON object, got int"),
        ("tokens per second: 3", "must be JSON, JSON Lines or a table in Markdown, and is not JSON .Expecting value"),
        ("| a |\n| b |", "must be JSON, JSON Lines or a table"),
        ("| a |\n|---|", "bench has no entries"),
        ("[" * 100_000, "must be JSON, JSON Lines or a table"),
        (
            "{}",
            "is in no known format: its first entry has the fields none. Pass the file .* Known are vllm-serve .fiel",
        ),
        ('{"a": 1, "b": 2}', "the fields a, b. .*llama.cpp-bench .fields n_prompt, n_gen, avg_ts.; llama.cpp-batched"),
        (json.dumps([TEST, SERVE]), "entries of several formats: llama.cpp-bench .*entry 1. and vllm-serve .*entry 2."),
        (
            json.dumps(TEST) + '\n{"n_prompt": 3',
            "line 2: the JSON is damaged or cut off: copy the file again, or remov",
        ),
        (json.dumps(TEST) + '\n"n_prompt": 3}', "line 2: the JSON is damaged or cut off"),
        (json.dumps([TEST, {"a": 1}]), "entry 2 has none of n_prompt"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    require_refused(tmp_path, content, message)


def test_files_that_are_not_there_and_not_text(tmp_path: Path) -> None:
    refuses("there is no file .*x.json: check the path", read_runs, tmp_path / "x.json")
    refuses("is a folder: name a file", read_runs, tmp_path)
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    refuses("is not text in UTF-8", read_runs, str(tmp_path / "b"))


def test_a_condition_that_the_format_does_not_use_is_refused(tmp_path: Path) -> None:
    message = "tau, nodes cannot be given for a file of llama.cpp-bench, which has all values that are used: leave"
    require_refused(tmp_path, EXAMPLES["llama.cpp-bench"], message, tau=2.0, nodes=3)
    message = "tau cannot be given for a file of sglang-speculative, only input_tokens, output_tokens can: leave"
    require_refused(tmp_path, BENCH, message, tau=2.0)


def test_lines_of_a_log_around_json_lines_are_left_out(tmp_path: Path) -> None:
    text = f"main: loading\n{json.dumps(ROW)}\n\nllama_perf: done\n"
    assert read(tmp_path, text).runs[0].source.endswith("line 2 (pp 512, tg 33, batch 4)")


VALUES = hs.recursive(
    hs.none() | hs.booleans() | hs.integers() | hs.floats() | hs.text(max_size=5),
    lambda inner: hs.lists(inner, max_size=3) | hs.dictionaries(hs.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(data=hs.data())
def test_a_damaged_field_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: hs.DataObject) -> None:
    """Any value in place of any field gives runs or an InputError, and no other exception."""
    name = data.draw(hs.sampled_from(JSON))
    entries = [dict(entry.data) for entry in BenchmarkFile.parse(EXAMPLES[name], "a").entries]
    entry = data.draw(hs.sampled_from(entries))
    places = [entry, *(value for value in entry.values() if isinstance(value, dict) and value)]
    place = data.draw(hs.sampled_from(places))
    place[data.draw(hs.sampled_from(sorted(place)))] = data.draw(VALUES)
    folder = tmp_path_factory.mktemp("damaged")
    with contextlib.suppress(NamedError):
        assert read_or_named(folder, json.dumps(entries), **SIZES if name == "vllm-latency" else {}).runs


class NamedError(Exception):
    """An InputError that names the file."""


def read_or_named(folder: Path, content: str, **conditions: Any) -> BenchmarkRuns:
    try:
        return read(folder, content, **conditions)
    except st.InputError as error:
        if str(folder / "bench") in str(error):
            raise NamedError from error
        raise
