"""Several reports of one engine, through the command that adds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectheory import Acceptance
from tests.command_line import Run, refused, succeeded
from tests.engines.test_sglang import BENCH, NEW, SGLANG_METRICS
from tests.engines.test_tensorrt_llm import ITERATION
from tests.engines.test_vllm_statistics import PROMETHEUS, REQUEST

SAID = "2 reports are added, as if each had counted its own cycles"


def test_counts_of_several_files_are_added(run: Run) -> None:
    Path("a").write_text(PROMETHEUS)
    Path("b").write_text(PROMETHEUS + "\n")
    succeeded(run("import", "vllm-metrics", "a", "b", "--out", "both.json", "--json"))
    one, both = (json.loads(run("import", "vllm-metrics", *names, "--json").stdout) for names in ("a", ("a", "b")))
    assert [both[name] for name in ("drafts", "drafted", "accepted")] == [2000, 6000, 3000]
    assert both["tau"] == one["tau"] == 2.5
    assert both["acceptance"]["hits"] == [[1600], [1000], [400]]
    assert both["acceptance"]["table"] == one["acceptance"]["table"]
    labels = next(sentence for sentence in one["assumed"] if "label sets are summed" in sentence)
    assert set(both["assumed"]) == {*one["assumed"], SAID}
    assert both["assumed"][-2:] == [SAID, labels], "what each report assumes is kept"
    stamp = Acceptance.load("both.json").provenance
    assert stamp.settings["files"] == "a, b"
    assert SAID in stamp.assumptions


def test_the_least_trials_are_those_of_all_reports_together(run: Run) -> None:
    for name, spec in (("a", {"speculative_decoding": REQUEST}), ("b", REQUEST)):
        Path(name).write_text(json.dumps(spec))
    refused(run("import", "vllm-response", "a", "b", "--min-trials", 87), "trials[0] is 86, fewer than min_trials=87")
    assert run("import", "vllm-response", "a", "b", "--min-trials", 86).exit_code == 0


def test_totals_are_added_and_what_cannot_be_is_refused(run: Run) -> None:
    for name, text in (("a", json.dumps(ITERATION)), ("b", json.dumps([ITERATION]))):
        Path(name).write_text(text)
    found = json.loads(run("import", "trtllm-stats", "a", "b", "--json").stdout)
    assert (found["drafts"], found["tau"], found["acceptance"]) == (16, 2.5, None)
    assert found["assumed"] == ["only totals are reported: rates by position are unknown", SAID]
    for name, text in (("c", SGLANG_METRICS), ("d", SGLANG_METRICS + "\n"), ("e", BENCH), ("f", BENCH + "\n")):
        Path(name).write_text(text)
    refused(run("import", "sglang-metrics", "c", "d"), "can only be added if they have counts, SGLang metrics has none")
    assert len(json.loads(run("import", "sglang-bench", "e", "f", "--json").stdout)) == 6


def test_one_report_does_not_count_twice(run: Run) -> None:
    Path("a").write_text(PROMETHEUS)
    Path("b").write_text(PROMETHEUS)
    for names in (("a", "a"), ("a", "b"), ("a", "./a")):
        refused(run("import", "vllm-metrics", *names), "is the same report as a and would count twice: give it once")
    refused(run("import", "vllm-metrics", "-", "-", given=PROMETHEUS), "report 2 is the same report as report 1")
    Path("empty").touch()
    refused(run("import", "vllm-metrics", "a", "empty"), "empty is empty: give the text that the engine reported")


@pytest.mark.parametrize(
    ("source", "reports", "said"),
    [
        ("sglang-response", [NEW, NEW], "2 responses are added"),
        ("trtllm-stats", [ITERATION] * 3, "3 iterations are added"),
    ],
)
def test_reports_in_one_file_are_counted(run: Run, source: str, reports: list[object], said: str) -> None:
    found = json.loads(run("import", source, "-", "--min-trials", 1, "--json", given=json.dumps(reports)).stdout)
    assert said in found["assumed"]


def test_what_is_wrong_with_a_report_is_named(run: Run) -> None:
    refused(
        run("import", "vllm-log", "-", given="Mean acceptance length: abc, Per-position acceptance rate: 0.5"),
        "the line has Mean acceptance length, but no number for it: pass the report as the engine wrote it",
    )
    refused(
        run("import", "vllm-log", "-", given="Mean acceptance length: nan, x\n" * 2),
        "vLLM has drafted nothing yet: the mean acceptance length is",
    )
    refused(
        run("import", "vllm-metrics", "-", given="vllm:spec_decode_num_drafts_total abc"),
        "the metrics must be in Prometheus's text format, as the server gives them: could not convert",
    )
    refused(
        run("import", "llama.cpp-log", "-", given="draft acceptance = 0.0 (0 accepted / 0 generated)"),
        "llama.cpp has drafted nothing yet: drafted=0",
    )
    refused(
        run(
            "import",
            "vllm-response",
            "-",
            given=json.dumps({"acceptance_histogram": [1, 1], "per_step_accepted": [1, 1], "per_step_drafted": [1, 1]}),
        ),
        "the sum of per_step_accepted is 2, but acceptance_histogram makes it 1: these contradict each other",
    )
