"""Readers of traces: one small file of each format, and the ways in which a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulate.load import read_trace
from tests.refusals import refuses

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:17:03.9799600,4808,10",
    "2023-11-16 18:17:04.0319600,110,27",
    "2023-11-16 18:18:04.0319600,20,1",
]
AZURE_2024 = [AZURE[0], "2024-05-10 23:59:59.500000+00:00,2162,5", "2024-05-11 00:00:00.009930+00:00,2399,6"]
MOONCAKE = [
    '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}',
    '{"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0]}',
]
VLLM = {
    "input_lens": [10, 20, 30],
    "output_lens": [4, 5, 6],
    "start_times": [100.5, 100.25, 101.0],
    "errors": ["", "", ""],
    "duration": 3.0,
}


def written(folder: Path, lines: list[str]) -> Path:
    file = folder / "trace"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("lines", "seconds", "prompts", "outputs"),
    [
        (AZURE, [0, 0.052, 60.052], [4808, 110, 20], [10, 27, 1]),
        (AZURE_2024, [0, 0.50993], [2162, 2399], [5, 6]),
        (MOONCAKE, [0, 27.482], [6758, 7322], [500, 490]),
        (json.dumps(VLLM, indent=1).split("\n"), [0, 0.25, 0.75], [20, 10, 30], [5, 4, 6]),
    ],
)
def test_each_format_is_recognised_and_read(
    tmp_path: Path, lines: list[str], seconds: list[float], prompts: list[int], outputs: list[int]
) -> None:
    for text in (lines, [*lines, "", ""], ["\ufeff" + lines[0], *lines[1:]]):
        read = read_trace(written(tmp_path, text))
        assert read.prompt_tokens.tolist() == prompts
        assert read.output_tokens.tolist() == outputs
        assert np.allclose(read.arrival_seconds, seconds, atol=1e-6)


@pytest.mark.parametrize("lines", [AZURE, MOONCAKE])
def test_the_start_of_a_file_can_be_read_alone(tmp_path: Path, lines: list[str]) -> None:
    broken = [*lines, "damaged"]
    assert len(read_trace(written(tmp_path, broken), first=2)) == 2
    refuses(f"trace, line {len(broken)}", read_trace, written(tmp_path, broken))


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([*AZURE, "2023-11-16 18:19:00,20,0"], "1 of 4 requests failed or have no tokens, the first at .*line 5"),
        ([MOONCAKE[0], MOONCAKE[0].replace("500", "0")], "1 of 2 .*line 2"),
        ([json.dumps(VLLM | {"errors": ["", "timeout", ""]})], "1 of 3 .*request 1"),
    ],
)
def test_failed_requests_are_refused_or_left_out(tmp_path: Path, lines: list[str], where: str) -> None:
    file = written(tmp_path, lines)
    refuses(where, read_trace, file)
    assert (read_trace(file, skip_failed=True).output_tokens > 0).all()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*AZURE, AZURE[1]], "line 5 arrives 60.052 s before the one above it"),
        (MOONCAKE[::-1], "line 2 arrives 27.482 s before"),
        ([*AZURE, "2023-11-16 18:19:00,-5,3"], "line 5: ContextTokens must be a whole number from 0 to"),
        ([*AZURE, "18 o'clock,5,2"], "line 5: TIMESTAMP must be a date"),
        ([*AZURE, "2023-11-16 18:19:00,5"], "line 5: GeneratedTokens must be a number, got None"),
        ([MOONCAKE[0], '{"timestamp": 5, "input_length": 3}'], "line 2 must have timestamp, input_length"),
        (["a,b,c", "1,2,3"], "is in no known format: give an Azure trace"),
        ([json.dumps(VLLM | {"start_times": None})], "must have equally long lists start_times"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path: Path, lines: list[str], message: str) -> None:
    refuses(message, read_trace, written(tmp_path, lines), skip_failed=True)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"TIMESTAMP,\xff\xfe\n")
    for path in (tmp_path / "nothing.csv", tmp_path, tmp_path / "bytes"):
        refuses("cannot be read", read_trace, path)
    refuses("first must be at least 1", read_trace, written(tmp_path, AZURE), first=0)
