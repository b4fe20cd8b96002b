"""Reports read from Python: files, several reports, totals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import spectheory as st
from tests.engines.examples import ITERATION, LOG, META_INFO, PROMETHEUS, SGLANG_METRICS, SLOT, acceptance
from tests.helpers import refuses

read = st.read_report


def test_a_text_and_its_file_give_the_same_record(tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(PROMETHEUS)
    given, saved = read(PROMETHEUS, "vllm-metrics"), read(file, "vllm-metrics")
    assert acceptance(given).table.tolist() == acceptance(saved).table.tolist()
    stamp = acceptance(saved).provenance
    assert (stamp.source, stamp.assumptions) == ("spectheory.read_report", saved.assumed)
    assert stamp.settings == {"report": "vllm-metrics", "files": str(file)}
    assert st.plan(acceptance(given), st.Latency.constant(draft_seconds=0.1)).answer == "chain"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("vllm-log", LOG),
        ("llama.cpp-log", SLOT),
        ("sglang-response", json.dumps(META_INFO)),
        ("trtllm-stats", json.dumps([ITERATION])),
    ],
)
def test_several_reports_are_read_as_one(tmp_path: Path, kind: str, text: str) -> None:
    (tmp_path / "a").write_text(text + "\n")
    one, both = read(text, kind, min_trials=1), read([tmp_path / "a", text], kind, min_trials=1, add=True)
    for name in ("drafts", "drafted", "accepted"):
        assert getattr(both, name) == 2 * getattr(one, name)
    assert any(" are added" in sentence for sentence in both.assumed)
    if one.acceptance is not None:
        assert acceptance(both).table.tolist() == one.acceptance.table.tolist()
    refuses("two of the reports are the same and would count twice", read, [text, text], kind)
    refuses("do not say that they are of one server.*or give --add", read, [tmp_path / "a", text], kind)


CONFIG = "with config: model='m', speculative_config=SpeculativeConfig(method='@', model='m', num_spec_tokens=7)\n"
ARGUMENTS = "server_args=ServerArgs(model_path='m', speculative_algorithm='@', tp_size=1)\n"
LOADED = "srv load_model: loading model 'm.gguf'\nstatistics draft-@: #calls = 1\n"
DECODED = "[2026-11-23 12:00:00] Decode batch. #running-req: 4, accept len: 1.30, gen throughput (token/s): 130.0"
RESPONSE = json.dumps({"model": "@", "id": "0", "speculative_decoding": {"acceptance_histogram": [50, 30, 20]}})
SERVED = {
    "vllm-log": CONFIG + "11-23 12:00:00 " + LOG,
    "sglang-log": ARGUMENTS + DECODED,
    "llama.cpp-log": LOADED + SLOT.replace("task 0", "task :00"),
    "vllm-response": RESPONSE.replace('"0"', '":00"'),
}
"""Reports with @ for the drafter, or the model, and :00 as a part of a time or of an id."""


@pytest.mark.parametrize("kind", SERVED)
def test_reports_of_one_server_are_added_and_those_of_two_refused(kind: str) -> None:
    """They are of one server if both say the same model and drafter. What differs is named."""
    one, again, other = (
        SERVED[kind].replace("@", drafter).replace("task :00", f"task {second}").replace(":00", f":0{second}")
        for second, drafter in enumerate(("mtp", "mtp", "suffix"))
    )
    together = read([one, again], kind, min_trials=1)
    assert together.tau == pytest.approx(read(one, kind, min_trials=1).tau, abs=0.01)
    assert read([one, other], kind, min_trials=1, add=True).tau == together.tau
    refuses("of different servers or drafters .*mtp.*suffix", read, [one, other], kind)
    if kind != "llama.cpp-log":  # one server of llama.cpp can have several drafters
        refuses("of different servers or drafters .*mtp.*suffix", read, f"{one}\n{other}", kind)
    refuses("1 lines are given twice, such as .*give each once, or --add", read, f"{one}\n{one}", kind)
    broken = re.sub(r"(Accepted:|accept len:|= [\d.]+ \() *[\d.]+", r"\1 nan", one)
    if broken != one:
        refuses("a line cannot be read: .*nan.*give the log as the engine wrote it", read, broken, kind)
    if "11-23" in one:
        later = again.replace("11-23", "11-24").replace("08-04", "11-24")
        refuses("of different days .*, .*11-24.*--add", read, [one, later], kind)


def test_a_constant_rate_stands_in_for_rates_that_are_not_reported() -> None:
    for kind, text in (
        ("sglang-metrics", SGLANG_METRICS),
        ("trtllm-stats", json.dumps(ITERATION)),
        ("sglang-response", '{"spec_verify_ct": 200, "spec_accept_token_num": 300, "spec_draft_token_num": 600}'),
        ("llama.cpp-log", "draft acceptance rate = 0.50000 (  300 accepted /   600 generated)"),
    ):
        found = read(text, kind, assume_constant=3)
        rate = acceptance(found).table[0, 0]
        assert acceptance(found).table.tolist() == [[rate]] * 3
        assert 1 + rate + rate**2 + rate**3 == pytest.approx(2.5)
        assert found.assumed[-1].startswith(f"the rate is {rate:.4f} at every position, which gives tau 2.5 with 3")
    for kind, text, length, message in (
        ("vllm-metrics", PROMETHEUS, 3, "assume_constant must be left out: the report has rates by position"),
        ("sglang-metrics", SGLANG_METRICS, 1, "assume_constant must be at least 1.5 by the report, got 1"),
        ("trtllm-stats", json.dumps(ITERATION), 1, "assume_constant must be at least 3 by the report"),
    ):
        refuses(message, read, text, kind, assume_constant=length)


def test_what_cannot_be_read_is_refused() -> None:
    refuses("unknown report 'vllm-metric': did you mean vllm-metrics", read, "x", "vllm-metric")
    refuses(r"report must be Report, got \[\]", read, [], "vllm-log")
    refuses("there is no file absent", read, Path("absent"), "vllm-log")
    refuses("trials.0. is 37, fewer than min_trials=100", read, LOG, "vllm-log")
