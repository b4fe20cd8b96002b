"""`spectheory diagnose`, on the sample files of the pages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import spectheory as st
from tests.command_line import HEAD, Run, refused, succeeded

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
SCRAPES = ("vllm-metrics", "vllm-before.prom", "vllm-after.prom")
ONE = ("--model-label", "llama-3.1-8b")


@pytest.fixture
def samples(run: Run) -> Run:
    """Run the command line in a folder with the sample files."""
    shutil.copytree(SAMPLES, Path.cwd(), dirs_exist_ok=True)
    return run


def test_json_has_a_record_for_each_model(samples: Run) -> None:
    result = succeeded(samples("diagnose", *SCRAPES, "--json"))
    found = [st.Diagnosis.from_dict(record) for record in json.loads(result.stdout)]
    assert [one.model for one in found] == ["llama-3.1-8b", "qwen3-32b"]
    assert [one.causes for one in found] == [(), ("acceptance",)]
    plain = [value for side in ("before", "after") for value in ("--plain", f"vllm-off-{side}.prom")]
    faster = json.loads(samples("diagnose", *SCRAPES, *plain, "--json").stdout)
    assert [one["speedup"] > 1 for one in faster] == [True, True]


def test_a_diagnosis_says_what_to_change_and_what_to_measure(samples: Run) -> None:
    shown = samples("diagnose", *SCRAPES, "--model-label", "qwen3-32b").stdout
    assert shown.startswith("vLLM qwen3-32b: tau 1.71, speedup unknown; acceptance low; not known: draft, verification")
    assert "change (acceptance low): " in shown
    assert "to tell draft slow, verification not flat, batch too large and overhead: give forward times" in shown
    assert "to tell the speedup: repeat the traffic without speculation" in shown
    dear = samples(
        "diagnose", "trtllm-stats", "trtllm-stats.jsonl", "--min-trials", 1, *HEAD[:5], "llama-3.2-1b"
    ).stdout
    assert "draft slow               yes" in dear
    assert "fastest by these rates and times, 1.19x as fast as now: max_draft_len: 2 in speculative_config" in dear


def test_the_rates_are_written_for_a_schedule(samples: Run) -> None:
    result = succeeded(samples("diagnose", *SCRAPES, *ONE, "--acceptance-out", "rates.json"))
    assert result.stdout.endswith("wrote rates.json\n")
    rates = st.Acceptance.load("rates.json")
    assert rates.table[:, 0] == pytest.approx([0.78, 0.74, 0.71], abs=0.04), "those of the simulated server"
    refused(samples("diagnose", *SCRAPES, "--acceptance-out", "other.json"), "needs one model, but llama-3.1-8b, qwen3")
    totals = "trtllm-stats", "trtllm-stats.jsonl", "--min-trials", 1
    refused(samples("diagnose", *totals, "--acceptance-out", "other.json"), "has no acceptance rates by position here")
    refused(samples("diagnose", *SCRAPES, *ONE, "--acceptance-out", "vllm.log"), "vllm.log")


def test_forward_times_come_from_records_or_from_models_and_not_from_both(samples: Run) -> None:
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    for batch in (1, 8):
        place.latency(batch).save(f"{batch}.json")
    records = "--latency", "1.json", "--latency", "8.json"
    (found,) = json.loads(samples("diagnose", *SCRAPES, *ONE, *records, "--context", 1024, "--json").stdout)
    assert None not in [factor["gain"] for factor in found["factors"]]
    models = "--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft", "eagle3"
    refused(samples("diagnose", *SCRAPES, *models, *records), "--latency must be left out with --gpu, --target and")
    refused(samples("diagnose", *SCRAPES, "--gpu", "h100_sxm"), "--target, --draft must be given too, or none of")
    refused(samples("diagnose", *SCRAPES, "--engine", "vllm"), "need --gpu, --target and --draft")


def test_files_of_another_kind_are_refused_in_one_line(samples: Run) -> None:
    refused(samples("diagnose", "vllm-metrics", "sglang.log"), "the metrics must be in Prometheus's text format")
    refused(samples("diagnose", "sglang-log", "vllm.log"), "sglang-log shows no decoding")
    refused(samples("diagnose", "vllm", "vllm.log"), "unknown report of a server 'vllm'")
    refused(samples("diagnose", *SCRAPES[:1], *SCRAPES[:0:-1]), "or the scrapes are in the wrong order")
    refused(samples("diagnose", *SCRAPES, "--model-label", "m"), "unknown value of the label model_name 'm'")
    refused(samples("diagnose", "vllm-metrics", "absent.prom"), "there is no file absent.prom")
