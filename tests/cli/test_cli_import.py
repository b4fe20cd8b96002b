"""`spectheory import`: what engines report."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import spectheory as st
from spectheory.engines import report_names
from tests.command_line import Run, refused, succeeded
from tests.engines.test_llama_cpp import OLD_SERVER, SERVER, SLOT
from tests.engines.test_sglang import BENCH, NEW, SGLANG_METRICS
from tests.engines.test_tensorrt_llm import ITERATION
from tests.engines.test_vllm_statistics import LOG, PROMETHEUS, REQUEST

TRTLLM_METRICS = "trtllm_spec_decode_num_draft_tokens_total 300\ntrtllm_spec_decode_num_accepted_tokens_total 150\n"


REPORTS = {
    "vllm-metrics": (PROMETHEUS, 1000, 2.5, [0.8, 0.625, 0.4]),
    "vllm-log": (LOG, 37, 3.49, [28 / 37, 23 / 28, 16 / 23]),
    "vllm-response": (json.dumps({"metrics": {"speculative_decoding": REQUEST}}), 43, 53 / 43, [4 / 43, 3 / 4, 1]),
    "sglang-response": (json.dumps(NEW, indent=1) + json.dumps(NEW), 200, 2.5, [0.8, 0.5, 0.75]),
    "sglang-metrics": (SGLANG_METRICS, 40, 2.5, None),
    "trtllm-stats": (json.dumps([ITERATION, ITERATION]), 16, 2.5, None),
    "trtllm-metrics": (TRTLLM_METRICS, None, None, None),
    "llama.cpp-log": (SERVER, 87, 2.92, [70 / 87, 55 / 70, 42 / 55]),
    "sequoia-vector": ("0 0.6 0.2 0.05 0.15", None, None, [0.6]),
}


@pytest.mark.parametrize("source", REPORTS)
def test_every_report_is_read(run: Run, source: str) -> None:
    text, drafts, tau, rates = REPORTS[source]
    result = succeeded(run("import", source, "-", "--json", "--min-trials", 1, given=text))
    found = json.loads(result.stdout)
    assert (found["drafts"], found["tau"]) == (drafts, tau)
    assert found["assumed"]
    table = found["acceptance"] and [row[0] for row in found["acceptance"]["table"]]
    assert table is None if rates is None else table[: len(rates)] == pytest.approx(rates)


def test_every_source_is_tested() -> None:
    assert sorted(report_names()) == sorted([*REPORTS, "sglang-bench"])


def test_rates_are_shown_with_their_counts_saved_and_planned_with(run: Run) -> None:
    Path("metrics.txt").write_text(PROMETHEUS)
    result = succeeded(run("import", "vllm-metrics", "metrics.txt", "--out", "acceptance.json"))
    assert [line.split() for line in result.stdout.splitlines() if line[:2] in ("1 ", "2 ", "3+")] == [
        ["1", "80.0", "80.0", "1,000"],
        ["2", "62.5", "62.5", "800"],
        ["3+", "40.0", "40.0", "500"],
    ]
    assert "tau 2.500, 1,000 cycles, 3,000 tokens drafted, 1,500 accepted" in result.stdout
    assert "assumed: chain statistics give rank 0 only: rates of other ranks are unknown" in result.stdout
    assert "label sets are summed: engine=0, model_name=m, {x}" in result.stdout
    assert result.stdout.endswith("wrote acceptance.json\n")
    provenance = st.Acceptance.load("acceptance.json").provenance
    assert provenance.source == "spectheory.read_report"
    assert provenance.settings["report"] == "vllm-metrics"
    assert provenance.settings["files"] == "metrics.txt"
    assert provenance.assumptions[0].startswith("chain statistics give rank 0 only")
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    planned = run("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--out", "plan.json")
    assert planned.exit_code == 0
    assert st.Schedule.load("plan.json").answer == "chain"


def test_vectors_are_read_from_files_also(run: Run) -> None:
    Path("vector.csv").write_text("0, 0.6, 0.2, 0.05, 0.15")
    result = run("import", "sequoia-vector", "vector.csv", "--out", "acceptance.json")
    assert "Sequoia vector: no totals" in result.stdout
    assert st.Acceptance.load("acceptance.json").table.tolist() == [[0.6, 0.2, 0.05]]


def test_measured_points_are_a_table(run: Run) -> None:
    shown = run("import", "sglang-bench", "-", given=BENCH).stdout.splitlines()
    assert [line.split() for line in shown[3:6]] == [
        ["1", "-", "-", "-", "1.000", "10.00", "100.0"],
        ["1", "3", "4", "7", "2.500", "12.50", "200.0"],
        ["8", "3", "1", "3", "2.200", "20.00", "110.0"],
    ]
    points = json.loads(run("import", "sglang-bench", "-", "--json", given=BENCH).stdout)
    assert points[0]["envelope"] is None
    assert points[1] == {
        "batch_size": 1,
        "envelope": {"levels": 3, "branching": 4, "nodes": 7},
        "tau": 2.5,
        "step_seconds": 0.0125,
        "tokens_per_second": 200.0,
    }


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ("vllm", PROMETHEUS, "unknown report 'vllm': did you mean vllm-log"),
        ("sglang-metrics", PROMETHEUS, "none of sglang:spec_accept_length; the nearest found are vllm:spec_decode_num"),
        ("vllm-metrics", "", "the report is empty: give the text that the engine reported"),
        ("vllm-log", LOG + LOG, "line must have 'Mean acceptance length' once, got it 2"),
        ("vllm-log", LOG + "\n" + LOG, "trials[0] is 74, fewer than min_trials=100"),
        ("vllm-log", LOG, "trials[0] is 37, fewer than min_trials=100"),
        ("sglang-response", '{"id": 1}\n{"id": }', "the report must hold JSON: Expecting value: line 2 column 8"),
        ("sglang-response", '{"id": 1}\n{"id": 2}', "meta_info has none of spec_verify_ct"),
        ("sglang-bench", BENCH, "sglang-bench reports no acceptance rates by position here: leave out --out"),
        ("llama.cpp-log", OLD_SERVER, "llama.cpp-log reports no acceptance rates by position here: leave out --out"),
        ("sequoia-vector", "0.6 half", "text must hold only numbers"),
    ],
)
def test_reports_that_give_no_rates_are_refused_and_nothing_is_written(
    run: Run, source: str, text: str, message: str
) -> None:
    refused(run("import", source, "-", "--out", "acceptance.json", given=text), message)
    assert not list(Path().iterdir())


def test_several_reports_add_up(run: Run) -> None:
    for source, text, one in (
        ("llama.cpp-log", SLOT + "\n" + SLOT, SLOT),
        ("llama.cpp-log", "\n".join((SLOT, OLD_SERVER, SLOT, OLD_SERVER)), SLOT),
        ("vllm-response", json.dumps(REQUEST) + "\n" + json.dumps(REQUEST), json.dumps(REQUEST)),
    ):
        single, both = (
            json.loads(run("import", source, "-", "--min-trials", 1, "--json", given=report).stdout)
            for report in (one, text)
        )
        assert [both[name] for name in ("drafts", "drafted", "accepted")] == [
            2 * single[name] for name in ("drafts", "drafted", "accepted")
        ]
        assert both["acceptance"]["table"] == single["acceptance"]["table"]
        assert both["acceptance"]["trials"] == [2 * trials for trials in single["acceptance"]["trials"]]
        assert any(" are added" in sentence for sentence in both["assumed"])


def test_a_constant_rate_stands_in_for_rates_that_are_not_reported(run: Run) -> None:
    for source, text in (
        ("sglang-metrics", SGLANG_METRICS),
        ("trtllm-stats", json.dumps(ITERATION)),
        ("sglang-response", '{"spec_verify_ct": 200, "spec_accept_token_num": 300, "spec_draft_token_num": 600}'),
        ("llama.cpp-log", "draft acceptance rate = 0.50000 (  300 accepted /   600 generated)"),
    ):
        result = succeeded(run("import", source, "-", "--assume-constant", 3, "--out", "made.json", given=text))
        made = st.Acceptance.load("made.json")
        rate = made.table[0, 0]
        assert made.table.shape == (1, 1)
        assert 1 + rate + rate**2 + rate**3 == pytest.approx(2.5)
        assert f"the rate is {rate:.4f} at every position, which gives tau 2.5 with 3" in result.stdout
        assert made.provenance.assumptions[-1].startswith("the rate is ")
    for source, text, length, message in (
        ("vllm-metrics", PROMETHEUS, 3, "assume_constant must be left out: vLLM prometheus reports rates by position"),
        ("sglang-bench", BENCH, 3, "assume_constant is only for reports of totals, sglang-bench reports measured"),
        ("sglang-metrics", SGLANG_METRICS, 1, "tau must be from 1 to 2 for assume_constant=1, got 2.5"),
        (
            "trtllm-stats",
            json.dumps(ITERATION),
            1,
            "assume_constant must be at least 3, the tokens drafted per cycle, got 1",
        ),
    ):
        refused(run("import", source, "-", "--assume-constant", length, given=text), message)


def test_empty_reports_and_too_few_trials_are_refused_with_the_repair(run: Run) -> None:
    for source, nothing in itertools.product(report_names(), ("", " \n")):
        refused(
            run("import", source, "-", given=nothing), "the report is empty: give the text that the engine reported"
        )
    Path("empty.txt").touch()
    refused(run("import", "sequoia-vector", "empty.txt"), "empty.txt is empty: give the text that the engine reported")
    refused(run("import", "vllm-log", "-", given=LOG), "fewer than min_trials=100: record more text, or lower min_t")
    out = ("--out", "made.json")
    refused(
        run("import", "trtllm-stats", "-", *out, given=json.dumps(ITERATION)), "in each draft with --assume-constant"
    )


def test_a_file_that_is_not_there_is_named(run: Run) -> None:
    for source in ("vllm-metrics", "sequoia-vector"):
        refused(run("import", source, "absent.npy"), "there is no file absent.npy")
