"""`spectheory import` and `spectheory diagnose`, on the sample files of the pages."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import spectheory as st
from tests.command_line import HEAD, Run, refused, succeeded
from tests.engines.examples import LOG, PROMETHEUS

SAMPLES = Path(__file__).parents[2] / "spectheory" / "data" / "samples"
SCRAPES = ("vllm-metrics", "vllm-before.prom", "vllm-after.prom")


@pytest.fixture
def samples(run: Run) -> Run:
    """Run the command line in a folder with the sample files."""
    shutil.copytree(SAMPLES, Path.cwd(), dirs_exist_ok=True)
    return run


def test_rates_are_shown_with_their_counts_saved_and_planned_with(run: Run) -> None:
    Path("metrics.txt").write_text(PROMETHEUS)
    result = succeeded(run("import", "vllm-metrics", "metrics.txt", "--out", "acceptance.json"))
    assert [line.split() for line in result.stdout.splitlines() if line[:2] in ("1 ", "2 ", "3+")] == [
        ["1", "80.0", "80.0", "1,000"],
        ["2", "62.5", "62.5", "800"],
        ["3+", "40.0", "40.0", "500"],
    ]
    assert "vllm-metrics: tau 2.500, 1,000 cycles, 3,000 tokens drafted, 1,500 accepted" in result.stdout
    assert "assumed: chain statistics give rank 0 only: rates of other ranks are unknown" in result.stdout
    assert result.stdout.endswith("wrote acceptance.json\n")
    assert st.Acceptance.load("acceptance.json").provenance.settings["files"] == "metrics.txt"
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    succeeded(run("plan", "--acceptance", "acceptance.json", "--latency", "latency.json"))


def test_the_rates_of_a_log_with_totals_are_saved_as_assumed(samples: Run) -> None:
    """SGLang's lines have tau 2.66 and an accept rate of 0.33, so 5 drafted tokens."""
    succeeded(samples("import", "sglang-log", "sglang.log", "--out", "rates.json"))
    rates = st.Acceptance.load("rates.json")
    assert rates.depths == 5
    assert st.block_efficiency(st.Tree.chain(5), rates) == pytest.approx(2.66)
    assert "the rate is 0.6533 at every position" in rates.provenance.assumptions[-1]


def test_what_cannot_be_imported_is_refused_in_one_line(run: Run) -> None:
    refused(run("import", "vllm", "-", given=LOG), "unknown report 'vllm': did you mean vllm-log")
    refused(run("import", "vllm-log", "-", given=LOG), "fewer than min_trials=100: record more, or lower it")
    refused(run("import", "vllm-log", "-", given=""), "the report is empty: give the text that the engine reported")
    refused(run("import", "vllm-log", "absent.log"), "there is no file absent.log")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_diagnosis_shows_observed_beside_predicted(samples: Run) -> None:
    log = "llama.cpp-log", "llama-server.log", "--batch", 1
    shown = succeeded(samples("diagnose", *log, *HEAD[:5], "llama-3.2-1b")).stdout
    assert shown.startswith("Draft 2 tokens a cycle: predicted 1.39x (")
    assert "Now: llama.cpp, tau 2.67, 8 drafted tokens a cycle, batch 1, 0.40x computed plain decoding" in flat(shown)
    assert re.search(r"rates 0.65, 0.64, 0.60.* Careful: a cycle takes [2-9]\.\d times as long as", flat(shown))
    assert "--spec-draft-n-max 2" in shown
    assert " ".join(line.split()[0] for line in shown.splitlines()[-5:]) == "draft verification overhead cycle plain"
    plain = [value for side in ("before", "after") for value in ("--plain", f"vllm-off-{side}.prom")]
    (found,) = json.loads(succeeded(samples("diagnose", *SCRAPES, *plain, "--json")).stdout)
    assert found["speedup"] == pytest.approx(found["tau"] * found["observed"]["plain"] / found["observed"]["cycle"])
    assert found["predicted"]["cycle"] is None
    large = ("--gpu", "h100_sxm", "--target", "llama-3.3-70b", "--draft", "eagle3", "--gpus", 4)
    assert "computed plain decoding" in flat(succeeded(samples("diagnose", *SCRAPES, *large)).stdout)
    assert "(--batch)" in succeeded(samples("diagnose", "vllm-log", "vllm-chain.log", *HEAD)).stdout
    trtllm = succeeded(samples("diagnose", "trtllm-stats", "trtllm-stats.jsonl", *HEAD)).stdout
    assert "max_draft_len: 4" in trtllm.split("speculative_config.yaml:")[1]


def test_forward_times_come_from_records_or_from_models_and_not_from_both(samples: Run) -> None:
    st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3").latency(8).save("8.json")
    log = ("sglang-log", "sglang.log", "--tree", "15:5")
    (found,) = json.loads(succeeded(samples("diagnose", *log, "--latency", "8.json", "--json")).stdout)
    assert found["nodes"] == 15
    assert found["predicted"]["draft"] > 0
    message = "give --gpu, --target and --draft together, also with --gpus, or --latency instead"
    refused(samples("diagnose", *log, *HEAD, "--latency", "8.json"), message)
    refused(samples("diagnose", *log, "--gpus", "2"), message)
    refused(samples("diagnose", *log[:-1], "9:15"), "--tree must be K, like 5, or NODES:LEVELS, like 60:6, at most")
    refused(samples("diagnose", "vllm-metrics", "sglang.log"), "the metrics must be in Prometheus's text format")
