"""Reports read from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.engines import Statistics
from tests.engines.examples import acceptance
from tests.engines.test_sglang import BENCH, NEW, SGLANG_METRICS
from tests.engines.test_vllm_statistics import PROMETHEUS
from tests.refusals import refuses


def read(*arguments: Any, **options: Any) -> Statistics:
    found = st.read_report(*arguments, **options)
    assert isinstance(found, Statistics)
    return found


def test_a_text_and_its_file_give_the_same_record(tmp_path: Path) -> None:
    (tmp_path / "metrics.txt").write_text(PROMETHEUS)
    given, saved = read(PROMETHEUS, "vllm-metrics"), read(tmp_path / "metrics.txt", "vllm-metrics")
    assert (given.engine, given.kind, given.tau) == ("vLLM", "prometheus", 2.5)
    assert acceptance(given).table.tolist() == acceptance(saved).table.tolist()
    stamp = acceptance(saved).provenance
    assert stamp.assumptions == saved.assumed
    assert stamp.settings == {"report": "vllm-metrics", "files": str(tmp_path / "metrics.txt")}
    assert acceptance(given).provenance.settings == {"report": "vllm-metrics"}
    assert st.plan(acceptance(given), st.Latency.constant(draft_seconds=0.1)).answer == "chain"


def test_several_reports_are_added_from_files_and_texts_alike(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(NEW))
    both = read([tmp_path / "a.json", json.dumps([NEW])], "sglang-response")
    assert (both.drafts, both.accepted) == (200, 300)
    assert "2 reports are added" in " ".join(acceptance(both).provenance.assumptions)
    points = st.read_report([BENCH, BENCH + "\n"], "sglang-bench")
    assert isinstance(points, list)
    assert len(points) == 6


def test_the_least_trials_and_a_constant_rate_are_passed_on() -> None:
    assert len(acceptance(read(json.dumps(NEW), "sglang-response", min_trials=1)).table) == 3
    constant = read(SGLANG_METRICS, "sglang-metrics", assume_constant=3)
    rate = acceptance(constant).table[0, 0]
    assert 1 + rate + rate**2 + rate**3 == pytest.approx(2.5)
    assert acceptance(constant).provenance.assumptions == constant.assumed
    assert read(SGLANG_METRICS, "sglang-metrics").acceptance is None


def test_a_binary_file_is_read_as_its_engine_writes_it(tmp_path: Path) -> None:
    np.save(tmp_path / "vector.npy", np.array([0.0, 0.6, 0.1, 0.3], np.float32))
    found = acceptance(read(tmp_path / "vector.npy", "sequoia-vector")).table
    assert np.array_equal(found[0], np.array([0.6, 0.1], np.float32).astype(np.float64)), "not a digit is lost"


def test_what_cannot_be_read_is_refused() -> None:
    refuses("unknown report 'vllm-metric': did you mean vllm-metrics", st.read_report, "x", "vllm-metric")
    refuses("report must be a text, a Path or a list of them, got an empty list", st.read_report, [], "vllm-log")
    refuses("the report is empty: give the text that the engine reported", st.read_report, "\n", "vllm-log")
    refuses("there is no file absent", st.read_report, Path("absent"), "vllm-log")
    refuses(r"\. is a folder: give a file in it", st.read_report, Path(), "vllm-log")
    refuses(r"got the name of a file as text: give pathlib.Path\('.*.py'\)", st.read_report, __file__, "vllm-log")
    refuses("report 2: the metrics must be in Prometheus's", st.read_report, [PROMETHEUS, "{"], "vllm-metrics")
    refuses("report 2 is the same report as report 1", st.read_report, [BENCH, BENCH], "sglang-bench")
    refuses("assume_constant is only for reports of", st.read_report, BENCH, "sglang-bench", assume_constant=3)


@pytest.mark.parametrize(
    "text", ["HTTP/1.1 200 OK", "{", "}", "x{", "x{a=} 1", 'x{a="b} 1', "x", "x one", "x 1_0", '{"a": 3}', "<html>"]
)
def test_text_that_is_not_prometheus_gives_an_input_error(text: str) -> None:
    refuses("the metrics", st.read_report, text, "trtllm-metrics")


def test_metrics_are_read_with_and_without_types_totals_and_timestamps() -> None:
    draft, accepted = "trtllm_spec_decode_num_draft_tokens", "trtllm_spec_decode_num_accepted_tokens"
    for text in (
        f"{draft} 300\n{accepted} 150\n",
        f"{draft}_total 300.0\n{accepted}_total 1.5e2\r\n\n",
        f"# HELP {draft} text\n# TYPE {draft} counter\n{draft} 300 1700000000000\n{accepted}{{}} 150\n",
        f"# HELP {draft}_total text\n# TYPE {draft}_total counter\n{draft}_total 300\n{accepted}_total 150\n",
        f'{draft}{{a="b, {{c}} \\"d\\""}} 200\n{draft}{{a="e",}} 100\n{accepted}_total{{a="="}} 150\nother NaN\n',
        f'{draft}{{a="b"}} 200\n# TYPE {draft} counter\n{draft} 100\n{accepted} 150\n',
    ):
        found = read(text, "trtllm-metrics")
        assert (found.drafted, found.accepted) == (300, 150)
