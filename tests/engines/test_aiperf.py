"""Files of AIPerf."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectheory.engines import Run
from spectheory.engines.serving_run import ASSUMED
from tests.engines.examples import read, require_refused


def metric(unit: str, mean: float) -> dict[str, Any]:
    return {"unit": unit, "avg": mean, "p50": mean}


SUMMARY = {
    "schema_version": "1.0",
    "request_throughput": metric("requests/sec", 2.0),
    "request_latency": metric("ms", 2050.0),
    "inter_token_latency": metric("ms", 15.625),
    "inter_chunk_latency": metric("ms", 15.7),
    "output_sequence_length": metric("tokens", 129.0),
    "input_sequence_length": metric("tokens", 512.0),
    "input_config": {"endpoint": {"model_names": ["owner/target"]}},
    "telemetry_data": {
        "endpoints": {"localhost": {"gpus": {"0": {"gpu_name": "NVIDIA H200"}, "1": {"gpu_name": "NVIDIA H200"}}}}
    },
}
DRAFTS = {
    "inter_chunk_latency": metric("ms", 39.0),
    "spec_decode_acceptance_length": metric("ratio", 2.6),
    "spec_decode_token_weighted_acceptance_length": metric("ratio", 2.5),
    "total_draft_tokens": metric("count", 2990.0),
    "total_spec_decode_steps": metric("count", 1000.0),
}
NAMES: dict[str, Any] = {"model": "owner/target", "gpu": "NVIDIA H200"}


def test_the_summary(tmp_path: Path) -> None:
    file = str(tmp_path / "bench")
    found = read(tmp_path, json.dumps(SUMMARY, indent=2))
    assert found.runs == (Run("plain", 4, 575.5, 0.015625, prefill_tokens=16, source=file, **NAMES),)
    assert found.assumed == (ASSUMED,)
    shape: dict[str, Any] = {"tokens": 4, "depth": 3, "tau": 2.5, "prefill_tokens": 40}
    cycle = Run("speculative", 4, 575.5, 0.0390625, source=file, **shape, **NAMES)
    assert read(tmp_path, [SUMMARY | DRAFTS]).runs == (cycle,)
    only_tau = {name: value for name, value in DRAFTS.items() if not name.startswith("total")}
    assert read(tmp_path, [SUMMARY | only_tau], nodes=3).runs == (cycle,)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"input_config": {"models": {"items": [{"name": "new"}]}}}, {"model": "new"}),
        ({"input_config": {"endpoint": {"model_names": ["a", "b"]}}}, {"model": None}),
        ({"input_config": None, "telemetry_data": None}, {"model": None, "gpu": None}),
        (
            {"telemetry_data": {"endpoints": {"a": {"gpus": {"0": {"gpu_name": "A"}, "1": {"gpu_name": "B"}}}}}},
            {"gpu": None},
        ),
        ({"inter_token_latency": metric("us", 15625.0)}, {"seconds": 0.015625}),
    ],
)
def test_names_and_units_of_the_summary(tmp_path: Path, change: dict[str, Any], names: dict[str, Any]) -> None:
    (run,) = read(tmp_path, [SUMMARY | change]).runs
    assert {name: getattr(run, name) for name in names} == pytest.approx(names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inter_token_latency": metric("ms", 0)}, "inter_token_latency: avg must be above 0, got 0"),
        ({"inter_token_latency": {"unit": "ms"}}, "inter_token_latency has none of avg"),
        (
            {"inter_token_latency": metric("parsecs", 3)},
            "the unit of inter_token_latency must be one of ns, .* 'parsecs'",
        ),
        ({"request_throughput": None}, "request_throughput must be a number of at least 0, got None"),
        ({"output_sequence_length": metric("tokens", float("nan"))}, "output_sequence_length: avg must be .* got nan"),
        ({"output_sequence_length": metric("tokens", 1)}, "answers of 1 tokens have no decoding steps"),
        (
            {"inter_chunk_latency": metric("ms", 39.0)},
            "2.5 times the time per token, as with speculation, but the file has",
        ),
        (DRAFTS | {"total_draft_tokens": metric("count", 2500.0)}, "drafts had several sizes: give nodes"),
        (DRAFTS | {"total_spec_decode_steps": metric("count", 0)}, "total_spec_decode_steps: avg must be above 0"),
    ],
)
def test_damaged_summaries_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    require_refused(tmp_path, [SUMMARY | change], message)


def test_a_metric_that_the_summary_lacks_is_named(tmp_path: Path) -> None:
    short = {name: value for name, value in SUMMARY.items() if name != "output_sequence_length"}
    require_refused(tmp_path, json.dumps(short), "has none of output_sequence_length; the nearest found are input_seq")


def request(begin: float, prompt: int, answer: int, milliseconds: float) -> dict[str, Any]:
    """A request that decodes from 1 s after its begin; the times of its requests are epoch times."""
    start, end = 1_760_000_000 + begin, 1_760_000_001 + begin + (answer - 1) * milliseconds / 1e3
    return {
        "metadata": {
            "benchmark_phase": "profiling",
            "request_start_ns": int(start * 1e9),
            "request_end_ns": int(end * 1e9),
            "was_cancelled": False,
        },
        "metrics": {
            "input_sequence_length": {"value": prompt, "unit": "tokens"},
            "output_sequence_length": {"value": answer, "unit": "tokens"},
            "inter_token_latency": {"value": milliseconds, "unit": "ms"},
        },
        "error": None,
    }


RECORDS = [request(0, 100, 101, 30.0), request(0, 300, 301, 10.0), request(1, 300, 301, 10.0)]
"""Three requests that decode for 3 s each, within 5 s."""


def test_the_records(tmp_path: Path) -> None:
    """700 steps take 9 s of the requests in 5 s."""
    file = str(tmp_path / "bench")
    found = read(tmp_path, RECORDS)
    (run,) = found.runs
    assert (run.kind, run.source, found.ignored, found.assumed) == ("plain", file, (), (ASSUMED,))
    assert run.seconds == pytest.approx(9 / 700, rel=1e-12)
    assert run.batch == pytest.approx(9 / 5, rel=1e-6)
    assert run.context == pytest.approx((100 * 149.5 + 600 * 449.5) / 700, rel=1e-12)
    assert run.prefill_tokens == pytest.approx(9 / 5 * 700 / 700, rel=1e-6)


def test_records_with_figures_of_speculation(tmp_path: Path) -> None:
    counted = {"num_spec_steps": 100, "num_accepted_draft_tokens": 150, "num_draft_tokens": 299}
    (run,) = read(tmp_path, [record | {"spec_decode_acceptance": counted} for record in RECORDS]).runs
    assert (run.kind, run.tokens, run.depth, run.tau) == ("speculative", 4, 3, 2.5)
    assert run.seconds == pytest.approx(2.5 * 9 / 700, rel=1e-12)


def test_requests_that_are_not_used(tmp_path: Path) -> None:
    failed = RECORDS[0] | {"error": {"code": 499}, "metrics": {"error_isl": {"value": 5, "unit": "tokens"}}}
    cancelled = RECORDS[0] | {"metadata": RECORDS[0]["metadata"] | {"was_cancelled": True}}
    warming = RECORDS[0] | {"metadata": RECORDS[0]["metadata"] | {"benchmark_phase": "warmup"}}
    found = read(tmp_path, [*RECORDS, failed, cancelled, warming, request(0, 9, 1, 5.0)])
    file = str(tmp_path / "bench")
    assert found.runs == read(tmp_path, RECORDS).runs
    assert found.ignored == (
        f"requests that failed or were cancelled are not used; the first is {file}, line 4",
        f"requests that are outside the phase profiling are not used; the first is {file}, line 6",
        f"requests that have an answer of one token are not used; the first is {file}, line 7",
    )
    require_refused(
        tmp_path, [failed, cancelled], "has no run that can be used: requests that failed or were cancelled"
    )


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ("metadata", {"request_end_ns": 5}, "line 2: request_end_ns must be after request_start_ns"),
        ("metadata", {"request_start_ns": None}, "line 2: request_start_ns must be a number of at least 0, got None"),
        (
            "metrics",
            {"inter_token_latency": {"value": 0, "unit": "ms"}},
            "line 2: inter_token_latency: value must be ab",
        ),
        (
            "metrics",
            {"inter_token_latency": {"value": 5, "unit": "h"}},
            "line 2: the unit of inter_token_latency must be",
        ),
        ("metrics", {"output_sequence_length": None}, "line 2: output_sequence_length must be a number of at least 0"),
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, place: str, change: dict[str, Any], message: str) -> None:
    require_refused(tmp_path, [RECORDS[0], RECORDS[1] | {place: RECORDS[1][place] | change}], message)
