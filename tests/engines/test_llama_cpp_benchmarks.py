"""Files of llama-bench and llama-batched-bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from spectheory.engines import Run
from spectheory.engines.benchmark_file import BenchmarkFile
from spectheory.engines.llama_cpp_benchmarks import LAST_LOGITS, read_bench
from spectheory.hardware.runs import Conditions
from tests.engines.examples import read, require_refused

TEST = {
    "build_commit": "abc",
    "build_number": 9300,
    "gpu_info": "NVIDIA GeForce RTX 3090",
    "backends": "CUDA",
    "model_filename": "models/m-q4_k_m.gguf",
    "model_type": "llama 8B Q4_K - Medium",
    "n_ubatch": 512,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": 99,
    "n_cpu_moe": 0,
    "split_mode": "layer",
    "no_kv_offload": False,
    "devices": "auto",
    "n_prompt": 0,
    "n_gen": 101,
    "n_depth": 400,
    "avg_ns": 1_010_000_000,
    "avg_ts": 100.0,
    "samples_ns": [1_010_000_000, 1_010_000_000, 1_010_000_000],
    "samples_ts": [100.0, 100.0, 100.0],
}
PROMPT = {"n_prompt": 8, "n_gen": 0, "avg_ns": 16_000_000, "avg_ts": 500.0, "samples_ns": [16_000_000]}
NAMES: dict[str, Any] = {
    "model": "models/m-q4_k_m.gguf",
    "gpu": "NVIDIA GeForce RTX 3090",
    "gpus": 1,
    "engine": "llama.cpp",
    "version": "b9300",
    "quantisation": "q4_k_m",
    "kv_dtype": "f16",
}


def test_llama_bench_as_json_and_as_json_lines(tmp_path: Path) -> None:
    file = str(tmp_path / "bench")
    tests = [TEST, TEST | PROMPT, TEST | PROMPT | {"n_prompt": 512, "avg_ts": 32000.0}]
    step = Run("plain", 1, 450, 0.01, source=f"{file}, entry 1 (tg101)", **NAMES)
    forward = Run("forward", 1, 400, 0.016, tokens=8, source=f"{file}, entry 2 (pp8)", **NAMES)
    found = read(tmp_path, json.dumps(tests))
    assert found.runs == (step, forward)
    assert found.ignored == (f"{file}, entry 3 (pp512) is a prefill of more than 256 tokens",)
    assert found.assumed == (LAST_LOGITS,)
    lines = read(tmp_path, tests[:1])
    assert lines.assumed == ()
    (line,) = lines.runs
    assert line.source == file + " (tg101)"
    assert [run.source for run in read(tmp_path, tests).runs] == [f"{file}, line 1 (tg101)", f"{file}, line 2 (pp8)"]


def test_the_median_sample_counts_and_old_builds_have_no_depth_and_no_samples(tmp_path: Path) -> None:
    slow = {"samples_ns": [1e9, 1e9, 4e9], "avg_ns": 2_000_000_000, "avg_ts": (101 + 101 + 25.25) / 3}
    assert read(tmp_path, [TEST | slow]).runs[0].seconds == pytest.approx(1 / 101, rel=1e-12)
    old = {name: value for name, value in TEST.items() if name not in ("n_depth", "samples_ns", "devices")}
    (run,) = read(tmp_path, [old]).runs
    assert (run.context, run.seconds) == (50, 0.01)
    rates_vary = read(tmp_path, [old | {"avg_ts": 110.0}])
    assert rates_vary.runs[0].seconds == 0.01, "the mean of the rates is above the rate of the mean time"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"model_type": "qwen3 8B Q4_0"}, {"quantisation": "q4_0"}),
        ({"model_type": "llama 70B IQ3_XXS - 3.0625 bpw"}, {"quantisation": "iq3_xxs"}),
        ({"model_type": "llama 8B F16"}, {"quantisation": "f16"}),
        ({"model_type": "llama 8B"}, {"quantisation": None}),
        ({"type_v": "q8_0"}, {"kv_dtype": "f16/q8_0"}),
        ({"gpu_info": "A, A"}, {"gpu": "A", "gpus": 2}),
        ({"gpu_info": "A/A/A"}, {"gpu": "A", "gpus": 3}),
        ({"gpu_info": "A, A", "split_mode": "none"}, {"gpu": "A", "gpus": 1}),
        ({"gpu_info": "A, A, A", "devices": "CUDA0/CUDA1"}, {"gpu": "A", "gpus": 2}),
        ({"gpu_info": "A, B"}, {"gpu": "A + B", "gpus": 2}),
        ({"gpu_info": "", "backends": "CPU", "n_gpu_layers": 0}, {"gpu": None, "gpus": None}),
    ],
)
def test_the_deployment_is_named_as_the_file_names_it(
    tmp_path: Path, change: dict[str, Any], names: dict[str, Any]
) -> None:
    (run,) = read(tmp_path, [TEST | change]).runs
    assert {name: getattr(run, name) for name in names} == names


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_prompt": 8}, r"\(pp8\+tg101\) times a prompt and generated tokens together"),
        ({"n_gen": 0}, "processes no tokens"),
        (PROMPT | {"n_prompt": 257}, r"\(pp257\) is a prefill of more than 256 tokens"),
        (PROMPT | {"n_ubatch": 4}, "splits its prompt into forwards of n_ubatch=4 tokens"),
        ({"n_gpu_layers": 0}, r"has no layer on the GPU \(n_gpu_layers=0\)"),
        ({"n_cpu_moe": 3}, "has the experts of 3 layers on the CPU"),
        ({"no_kv_offload": True}, "has the KV cache on the CPU"),
    ],
)
def test_tests_that_are_not_decoding_on_the_gpu_are_left_out(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found = read(tmp_path, [TEST, TEST | change])
    assert len(found.runs) == len(found.ignored) == 1
    require_refused(tmp_path, [TEST | change], f"has no run that can be used: .*{reason}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"avg_ts": float("nan")}, r"\(tg101\): avg_ts must be a number of at least 0, got nan: pass the file as"),
        ({"avg_ts": 0.0}, r"\(tg101\): avg_ts must be above 0, got 0: nothing was measured, repeat"),
        ({"avg_ts": -3}, r"\(tg101\): avg_ts must be a number of at least 0, got -3"),
        ({"avg_ts": 10**400}, r"avg_ts must be a number of at least 0, got 1000"),
        ({"avg_ts": "100"}, r"avg_ts must be a number of at least 0, got '100'"),
        ({"avg_ts": 120.0}, r"avg_ts is 120, but 101 tokens and samples_ns makes it 100: these contradict each other"),
        ({"avg_ns": 2e9}, r"avg_ns is 2e\+09, but samples_ns makes it 1.01e\+09: these contradict"),
        ({"samples_ns": [1e9, 0]}, r"samples_ns\[1\] must be above 0"),
        ({"n_gen": 1.5}, "n_gen must be a whole number, got 1.5"),
        ({"n_gen": None}, "n_gen must be a number of at least 0, got None"),
        ({"n_depth": -1}, "n_depth must be a number of at least 0, got -1"),
    ],
)
def test_damaged_tests_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    require_refused(tmp_path, [TEST, TEST | change], "line 2.*" + message)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    short = {name: value for name, value in TEST.items() if name != "avg_ns"}
    require_refused(
        tmp_path, [TEST, short], r"line 2 \(tg101\) has none of avg_ns; the nearest found are .*has the eng"
    )


@pytest.mark.parametrize("name", ["model_filename", "gpu_info", "build_number", "type_k", "model_type", "split_mode"])
def test_a_file_measures_one_deployment(tmp_path: Path, name: str) -> None:
    other = {"build_number": 9301, "model_type": "llama 8B Q8_0", "split_mode": "none"}.get(name, "other")
    before = TEST | {"gpu_info": "A, A"}
    message = r"line 2 \(tg101\): \w+ is .*, but .* in .*line 1 \(tg101\): a file must measure one deployment"
    require_refused(tmp_path, [before, before | {name: other}], message)


@given(generated=hs.integers(1, 4096), depth=hs.integers(0, 10**5), times=hs.lists(hs.integers(1, 10**12), min_size=1))
def test_every_consistent_test_is_read(generated: int, depth: int, times: list[int]) -> None:
    rates = [1e9 * generated / time for time in times]
    means = {"avg_ns": sum(times) // len(times), "avg_ts": sum(rates) / len(rates), "samples_ns": times}
    data = TEST | {"n_gen": generated, "n_depth": depth} | means
    (run,) = read_bench(BenchmarkFile.parse(json.dumps(data), "a"), Conditions()).runs
    assert min(times) <= run.seconds * generated * 1e9 * (1 + 1e-12)
    assert run.seconds * generated * 1e9 <= max(times) * (1 + 1e-12)
    assert depth <= run.context <= depth + generated


ROW = {
    "n_kv_max": 8192,
    "n_batch": 2048,
    "n_ubatch": 512,
    "flash_attn": 1,
    "is_pp_shared": 0,
    "n_gpu_layers": 99,
    "n_threads": 8,
    "n_threads_batch": 8,
    "pp": 512,
    "tg": 33,
    "pl": 4,
    "n_kv": 2180,
    "t_pp": 0.5,
    "speed_pp": 4096.0,
    "t_tg": 0.66,
    "speed_tg": 200.0,
    "t": 1.16,
    "speed": 1879.3,
}


def test_batched_bench_as_json_lines(tmp_path: Path) -> None:
    file = str(tmp_path / "bench")
    short = ROW | {"pp": 16, "t_pp": 0.03}
    found = read(tmp_path, "main: n_kv_max = 8192\n\n" + json.dumps(ROW) + "\n" + json.dumps(short))
    sources = [f"{file}, line 3 (pp 512, tg 33, batch 4)", f"{file}, line 4 (pp 16, tg 33, batch 4)"]
    assert found.runs == (
        Run("plain", 4, 528, 0.02, engine="llama.cpp", source=sources[0]),
        Run("forward", 4, 0, 0.03, tokens=16, engine="llama.cpp", source=sources[1]),
        Run("plain", 4, 32, 0.02, engine="llama.cpp", source=sources[1]),
    )
    assert found.ignored == (f"{sources[0]} has no prompts of 256 tokens or fewer that fit into one forward",)
    assert found.assumed == (LAST_LOGITS,)


TABLE = """\
main: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = 1, is_pp_shared = 0, is_tg_separate = 0

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     33 |    1 |    545 |    0.200 |  2560.00 |    0.330 |   100.00 |    0.530 |  1028.30 |
|   512 |     33 |    4 |   2180 |    0.500 |  4096.00 |    0.660 |   200.00 |    1.160 |  1879.31 |

llama_perf_context_print: load time = 812.00 ms
"""


def test_batched_bench_as_a_table(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE)
    assert [(run.batch, run.context, run.seconds) for run in found.runs] == [(1, 528, 0.01), (4, 528, 0.02)]
    assert found.runs[1].source == f"{tmp_path / 'bench'}, line 6 (pp 512, tg 33, batch 4)"
    assert found.assumed == ()
    shared = read(tmp_path, TABLE.replace("is_pp_shared = 0", "is_pp_shared = 1"))
    assert [run.batch for run in shared.runs] == [1]
    assert "(pp 512, tg 33, batch 4) has a prompt that all sequences share" in shared.ignored[1]
    separate = read(tmp_path, TABLE.replace("is_tg_separate = 0", "is_tg_separate = 1"))
    assert [(run.batch, run.seconds) for run in separate.runs] == [(1, 0.01), (1, 0.005)]
    bare = read(tmp_path, TABLE[TABLE.index("|") :])
    assert bare.runs[1].seconds == 0.02
    assert "no two sequences share a prompt: the line above the table" in bare.assumed[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("|    0.660 |   200.00 |", "|    0.660 |   150.00 |", r"t_tg is 0.66, but pl \* tg / speed_tg makes it 0.88"),
        ("|   200.00 |", "|        0 |", "speed_tg must be above 0, got 0"),
        ("|   200.00 |", "|      nan |", "speed_tg must be a number of at least 0, got nan"),
        ("|   200.00 |", "|      ??? |", "speed_tg must be a number of at least 0, got '[?]+'"),
        ("|     33 |    4 |", "|     33 |    0 |", "pl must be a number of at least 1, got 0"),
        ("1.160 |  1879.31 |", "1.16", "line 6: the row must have 10 cells, got"),
        ("T_TG s", "T_TG ms", "has none of t_tg"),
    ],
)
def test_damaged_rows_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    require_refused(tmp_path, TABLE.replace(old, new), message)


def test_rows_that_generate_nothing_are_left_out(tmp_path: Path) -> None:
    require_refused(
        tmp_path, [ROW | {"tg": 0}], "no run that can be used: .* fit into one forward; .*generates no tokens"
    )
