"""Readers of traces: one small file of each format, and every way in which a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulate.load import read_trace
from spectheory.core.errors import InputError
from tests.refusals import refuses

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:17:03.9799600,4808,10",
    "2023-11-16 18:17:04.0319600,110,27",
    "2023-11-16 18:18:04.0319600,20,1",
]
AZURE_2024 = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2024-05-10 23:59:59.500000+00:00,2162,5",
    "2024-05-11 00:00:00.009930+00:00,2399,6",
]
BURST_GPT = [
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "5,ChatGPT,472,18,490,Conversation log",
    "45,ChatGPT,1087,230,1317,API log",
    "45,GPT-4,417,276,693,Conversation log",
]
BURST_GPT_3 = [
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
    '5.5,"a-b",1.2,GPT-4,7,8,15,Conversation log',
]
MOONCAKE = [
    '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}',
    '{"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0]}',
]


def aiperf(start: int, prompt: int = 50, output: int = 100, phase: str = "profiling", **other: object) -> str:
    metadata = {"request_start_ns": start, "benchmark_phase": phase, "was_cancelled": False}
    metrics = {
        "input_sequence_length": {"value": prompt, "unit": "tokens"},
        "output_sequence_length": {"value": output, "unit": "tokens"},
    }
    return json.dumps({"metadata": metadata, "metrics": metrics, "error": None} | other)


AIPERF = [aiperf(3_500_000_000, 7, 8), aiperf(1_000_000_000, phase="warmup"), aiperf(2_000_000_000, 5, 6)]
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
    ("lines", "name", "seconds", "prompts", "outputs"),
    [
        (AZURE, "Azure LLM inference trace", [0, 0.052, 60.052], [4808, 110, 20], [10, 27, 1]),
        (AZURE_2024, "Azure LLM inference trace", [0, 0.50993], [2162, 2399], [5, 6]),
        (BURST_GPT, "BurstGPT", [0, 40, 40], [472, 1087, 417], [18, 230, 276]),
        (BURST_GPT_3, "BurstGPT", [0], [7], [8]),
        (MOONCAKE, "Mooncake trace", [0, 27.482], [6758, 7322], [500, 490]),
        (AIPERF, "AIPerf records", [0, 1.5], [5, 7], [6, 8]),
        ([json.dumps(VLLM)], "vLLM benchmark", [0, 0.25, 0.75], [20, 10, 30], [5, 4, 6]),
        (json.dumps(VLLM, indent=1).split("\n"), "vLLM benchmark", [0, 0.25, 0.75], [20, 10, 30], [5, 4, 6]),
    ],
)
def test_each_format_is_recognised_and_read(
    tmp_path: Path, lines: list[str], name: str, seconds: list[float], prompts: list[int], outputs: list[int]
) -> None:
    for text in (lines, ["", *lines, "", ""], ["\ufeff" + lines[0], *lines[1:]]):
        read = read_trace(written(tmp_path, text))
        assert read.format == name
        assert read.requests.prompt_tokens.tolist() == prompts
        assert read.requests.output_tokens.tolist() == outputs
        assert np.allclose(read.requests.arrival_seconds, seconds, atol=1e-6)
        assert (read.failed, read.warm_up) == (0, sum("warmup" in line for line in lines))


@pytest.mark.parametrize("lines", [AZURE, BURST_GPT, MOONCAKE])
def test_the_start_of_a_file_can_be_read_alone(tmp_path: Path, lines: list[str]) -> None:
    broken = [*lines, "damaged"]
    assert len(read_trace(written(tmp_path, broken), first=2).requests) == 2
    refuses(f"trace, line {len(broken)}", read_trace, written(tmp_path, broken))


@pytest.mark.parametrize(
    ("lines", "failed", "why"),
    [
        ([*AZURE, "2023-11-16 18:19:00,20,0"], 1, "line 5, because its answer has 0 tokens"),
        ([*AZURE, "2023-11-16 18:19:00,0,3"], 1, "line 5, because its prompt has 0 tokens"),
        ([*BURST_GPT, "50,GPT-4,3,0,3,API log", "51,GPT-4,3,0,3,API log"], 2, "line 5, because its answer"),
        ([MOONCAKE[0], MOONCAKE[0].replace("500", "0")], 1, "line 2, because its answer"),
        ([*AIPERF, aiperf(9, error={"code": 500}, metrics={})], 1, "line 4, because it failed or was cancelled"),
        ([json.dumps(VLLM | {"errors": ["", "timeout", ""]})], 1, "request 1, because it failed"),
        ([json.dumps(VLLM | {"output_lens": [0, 5, 0]})], 2, "request 0, because its answer has 0 tokens"),
    ],
)
def test_failed_requests_are_counted_and_refused_or_left_out(
    tmp_path: Path, lines: list[str], failed: int, why: str
) -> None:
    file = written(tmp_path, lines)
    with pytest.raises(InputError) as error:
        read_trace(file)
    assert why in str(error.value)
    assert f": {failed} of " in str(error.value)
    assert f"{file},failed=skip" in str(error.value)
    read = read_trace(file, failed="skip")
    assert read.failed == failed
    assert (read.requests.output_tokens > 0).all()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*AZURE, AZURE[1]], "line 5: the request arrives 60.052 s before the one at"),
        ([BURST_GPT[0], *BURST_GPT[:0:-1], BURST_GPT[1]], "line 4: the request arrives 40 s before"),
        (MOONCAKE[::-1], "line 2: the request arrives 27.482 s before"),
        (
            [*AZURE, "2023-11-16 18:19:00,-5,3"],
            "line 5: ContextTokens must be a whole number from 0 to",
        ),
        ([*AZURE, "2023-11-16 18:19:00,5,2.5"], "line 5: GeneratedTokens must be a whole number"),
        ([*AZURE, "18 o'clock,5,2"], "line 5: TIMESTAMP must be a date"),
        ([*AZURE, "2023-11-16 18:19:00,5"], "line 5 must have 3 cells, got 2"),
        ([*BURST_GPT, "soon,GPT-4,3,4,7,API log"], "line 5: Timestamp must be a number, got 'soon'"),
        ([*BURST_GPT, "inf,GPT-4,3,4,7,API log"], "line 5: Timestamp must be a number, got 'inf'"),
        ([MOONCAKE[0], '{"timestamp": 5, "input_length": 3}'], "line 2 has no output_length"),
        ([MOONCAKE[0], '{"timestamp": 5, '], "line 2: the JSON is damaged"),
        ([MOONCAKE[0].replace("6758", '"many"')], "line 1: input_length must be a number, got 'many'"),
        ([AIPERF[0].replace('"request_start_ns"', '"start"')], "line 1: request_start_ns must be a number, got None"),
        ([*AZURE, *BURST_GPT], "line 5 is of the format BurstGPT, but the file began as Azure"),
        ([*AZURE, *AZURE], "line 5 is a second header"),
        ([*BURST_GPT, *BURST_GPT], "line 5 is a second header"),
        ([*MOONCAKE, *AIPERF], "line 3 is of the format AIPerf records, but the file began as Mooncake trace"),
        ([*AIPERF, *MOONCAKE], "line 4 is of the format Mooncake trace"),
        ([], "is empty"),
        ([AZURE[0]], "has no request to serve"),
        (["a,b,c", "1,2,3"], "has the fields a, b, c, but a trace has the fields of one of: Azure"),
        (['{"prompt": "hello"}'], "has the fields prompt, but"),
        (["[1, 2]"], "has the fields"),
        (['{"experiments": []}'], "a profile of GenAI-Perf, which has no numbers of tokens"),
        ([json.dumps({k: v for k, v in VLLM.items() if k != "start_times"})], "has no start_times: run `vllm bench"),
        ([json.dumps(VLLM | {"input_lens": [1]})], "must be equally long"),
        (["{", json.dumps(VLLM)], "is not one JSON object"),
        ([f"{AZURE[0]}", '"2023-11-16 18:17:03,4808,10', *AZURE[2:] * 9_000], "is not CSV"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_trace(written(tmp_path, lines), failed="skip")
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refuses("there is no file", read_trace, tmp_path / "nothing.csv")
    refuses("is a folder", read_trace, tmp_path)
    (tmp_path / "bytes").write_bytes(b"TIMESTAMP,\xff\xfe\n")
    refuses("not text in UTF-8", read_trace, tmp_path / "bytes")
    refuses("first must be at least 1", read_trace, written(tmp_path, AZURE), first=0)
