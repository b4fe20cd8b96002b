"""What each engine's log, metrics and responses say about its drafts, and what contradicts itself."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import diagnose, report_names, sglang, tensorrt_llm, vllm
from spectheory.engines.prometheus import Metrics
from spectheory.engines.statistics import RANK_0_ONLY, from_histograms
from tests.engines.examples import (
    ITERATION,
    LOG,
    META_INFO,
    PROMETHEUS,
    REPORTS,
    REQUEST,
    SERVER,
    SGLANG_METRICS,
    SLOT,
    acceptance,
)
from tests.helpers import known, refuses

chains = hs.lists(hs.floats(0.3, 1), min_size=1, max_size=6)
"""Rates of acceptance by depth."""
read = partial(st.read_report, min_trials=1)


def chain_counts(rates: list[float], drafts: int) -> list[int]:
    """Number of drafts whose first d + 1 tokens were all accepted, for each d."""
    return [int(drafts * np.prod(rates[: d + 1])) for d in range(len(rates))]


@pytest.mark.parametrize("kind", REPORTS)
def test_every_report_is_read(kind: str) -> None:
    text, drafts, tau, rates = REPORTS[kind]
    found = read(text, kind)
    assert (found.drafts, found.tau) == (drafts, tau)
    assert found.assumed
    assert (found.acceptance is None) == (rates is None)
    if rates is not None:
        assert acceptance(found).table[: len(rates), 0].tolist() == pytest.approx(rates)
    assert sorted(report_names()) == sorted(REPORTS)
    refuses("the report is empty: give the text that the engine reported", read, " \n", kind)
    refuses("the report has a number of 400 digits", read, "9" * 400, kind)


def test_vllm_counters() -> None:
    for text in (PROMETHEUS, PROMETHEUS.replace("_total", "")):
        found = read(text, "vllm-metrics")
        assert (found.drafts, found.drafted, found.accepted, found.tau) == (1000, 3000, 1500, 2.5)
        assert known(acceptance(found).trials).tolist() == [1000, 800, 500]
        assert found.assumed[0] == RANK_0_ONLY
        assert "2 label sets are summed" in found.assumed[1]
        assert "the rate at depth 3 is used for all deeper depths" in found.assumed[2]
    mixed = read(PROMETHEUS.replace("} 1200.0", "} 800.0"), "vllm-metrics")
    assert "a position that was not drafted counts as rejected" in str(mixed.assumed)


@given(chains, hs.integers(10_000, 10**7))
def test_counters_of_a_chain_give_back_its_rates(rates: list[float], drafts: int) -> None:
    counts = chain_counts(rates, drafts)
    lines = [f"vllm:spec_decode_num_drafts_total {drafts}"]
    lines += [f"vllm:spec_decode_num_draft_tokens_total {drafts * len(rates)}"]
    lines += [f"vllm:spec_decode_num_accepted_tokens_total {sum(counts)}"]
    lines += [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate(counts)]
    found = read("\n".join(lines), "vllm-metrics")
    table = acceptance(found).table[:, 0]
    reached = np.array([drafts, *counts])[: len(table)]
    assert np.all(np.abs(table - rates[: len(table)]) <= 1.001 / reached), "the counts are rounded down"
    if len(table) == len(rates):
        assert st.block_efficiency(st.Tree.chain(len(rates)), acceptance(found)) == pytest.approx(known(found.tau))


def log_line(drafts: int, counts: list[int]) -> str:
    accepted, drafted = sum(counts), drafts * len(counts)
    return (
        f"INFO SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {', '.join(f'{n / drafts:.3f}' for n in counts)}"
    )


SHORT = "SpecDecoding metrics: Mean acceptance length: 2.20, Per-position acceptance rate: 0.600, 0.400, 0.200"


def test_vllm_logs() -> None:
    found = read(LOG, "vllm-log")
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (37, 259, 92, 3.49)
    assert known(acceptance(found).hits)[:, 0].tolist() == [28, 23, 16, 12, 7, 4, 2]
    rates = read(SHORT, "vllm-log")
    assert acceptance(rates).table.ravel().tolist() == pytest.approx([0.6, 2 / 3, 0.5])
    assert (rates.drafts, rates.accepted, acceptance(rates).trials) == (None, None, None)
    idle = "INFO SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens"
    lines = [log_line(100, [80, 50]), "INFO Engine 000: Avg prompt throughput", idle, log_line(60, [30, 20, 10])]
    both = read("\n".join(lines), "vllm-log")
    assert (both.drafts, both.drafted, both.accepted) == (160, 380, 190)
    assert known(acceptance(both).hits)[:, 0].tolist() == [110, 70, 10]
    assert known(acceptance(both).trials).tolist() == [160, 110, 20], "position 2 counts in the line that has it"
    refuses("nothing was drafted yet: the mean acceptance length is nan in every line", read, idle, "vllm-log")
    refuses("line 2 of 2 must have Accepted and Drafted", read, f"{lines[0]}\n{SHORT}", "vllm-log")


def test_vllm_responses() -> None:
    for data in (REQUEST, {"speculative_decoding": REQUEST}, {"metrics": {"speculative_decoding": REQUEST}}):
        found = vllm.from_request_metrics([data], min_trials=1)
        assert (found.drafts, found.drafted, found.accepted) == (43, 129, 10)
    histogram = {"acceptance_histogram": [5, 30, 20]}
    mixed = {"acceptance_histogram_by_draft_length": {"1": [3, 20], "2": [2, 10, 20]}}
    table = acceptance(read(json.dumps(histogram | mixed), "vllm-response")).table.ravel()
    assert table.tolist() == pytest.approx([50 / 55, 20 / 30]), "position 1 counts only where it was drafted"


ALIASES = [
    ("spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_correct_drafts_histogram"),
    ("spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"),
    ("spec_accept_token_num", "spec_draft_token_num", "spec_accept_histogram"),
]


@pytest.mark.parametrize("names", ALIASES, ids=["new", "middle", "old"])
def test_sglang_responses_under_all_their_names(names: tuple[str, ...]) -> None:
    info = {dict(zip(ALIASES[0], names, strict=True)).get(name, name): value for name, value in META_INFO.items()}
    found = sglang.from_meta_info([info])
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (100, 300, 150, 2.5)
    assert acceptance(found).table.tolist() == [[0.8]], "rows of fewer than 100 trials are left out"
    idle = {"meta_info": {"id": "b", "spec_verify_ct": 0}}
    both = sglang.from_meta_info([{"text": "x", "meta_info": info}, info, idle])
    assert (both.drafts, both.accepted, both.tau) == (200, 300, 2.5)
    del info[names[2]]
    totals = sglang.from_meta_info([info])
    assert (totals.acceptance, totals.tau) == (None, 2.5)
    mtp = {"spec_verify_ct": 200, names[0]: 150, names[1]: 200}
    assert acceptance(sglang.from_meta_info([mtp])).table.tolist() == [[0.75]], "one token in each draft"
    tree = sglang.from_meta_info([META_INFO | {"spec_num_proposed_drafts": 1500, "spec_accept_rate": 0.1}])
    assert "15 tokens were drafted per cycle, but only 3 positions" in str(tree.assumed)


def test_gauges_of_several_ranks_are_averaged_without_the_idle() -> None:
    ranks = SGLANG_METRICS + 'sglang:spec_accept_length{tp_rank="1"} 0.0\nsglang:spec_accept_length{tp_rank="2"} 3.5\n'
    assert read(ranks, "sglang-metrics").tau == 3.0


def iteration(**changed: Any) -> dict[str, Any]:
    block = ITERATION["specDecodingStats"] | changed
    return ITERATION | {"specDecodingStats": {name: value for name, value in block.items() if value is not None}}


UNCOUNTED: dict[str, Any] = {"numRequestsWithDraftTokens": None}


def test_tensorrt_llm_iterations() -> None:
    context = iteration(numDraftTokens=0, numAcceptedTokens=0, numRequestsWithDraftTokens=0, acceptanceLength=0.0)
    copy = ITERATION | {"attentionDpRank": 1}
    found = tensorrt_llm.from_iteration_stats([ITERATION, context, copy, {"iter": 8}, ITERATION])
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (16, 48, 24, 2.5)
    unnamed = tensorrt_llm.from_iteration_stats([iteration(**UNCOUNTED)])
    assert unnamed.drafts == 8, "accepted = (acceptanceLength - 1) * requests"
    assert tensorrt_llm.from_iteration_stats([ITERATION["specDecodingStats"]]).tau == 2.5
    unknown = tensorrt_llm.from_iteration_stats([iteration(acceptanceLength=None, **UNCOUNTED)])
    assert (unknown.tau, unknown.accepted) == (None, 12)


NEWER = SLOT.split(", mean acceptance")[0] + ", mean len =  2.92"
OLD_SERVER = "statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98"
LOOKUP = "statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73"
TRACE = NEWER + "\n0.06.9 T slot print_timing: id  1 | task 0 |      acc per pos = (0.805, 0.632, 0.483)"


@pytest.mark.parametrize(
    "log", [SLOT, SERVER, TRACE, f"{SLOT}\n{SERVER}\n", f"{NEWER}\n{SERVER}\n", f"{SLOT}\n{OLD_SERVER}\n{LOOKUP}"]
)
def test_llama_cpp_logs_of_all_builds(log: str) -> None:
    """The line with rates by position is read, and a request does not count twice."""
    found = read(log, "llama.cpp-log")
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (87, 259, 167, 2.92)
    assert known(acceptance(found).hits)[:, 0].tolist() == [70, 55, 42]


def test_llama_cpp_logs_without_positions() -> None:
    for log, figures in {
        OLD_SERVER: (10, 110, 98, 10.8),
        LOOKUP: (5, 187, 73, 15.6),
        "draft acceptance rate = 0.57576 (  171 accepted /   297 generated)": (None, 297, 171, None),
        NEWER: (None, 259, 167, 2.92),
        f"{NEWER}\n{OLD_SERVER}\n{LOOKUP}": (None, 259, 167, 2.92),
        f"{SLOT}\n{OLD_SERVER}\n{SLOT}\n{OLD_SERVER}": (174, 518, 334, pytest.approx(2 * 167 / 174 + 1)),
    }.items():
        found = read(log, "llama.cpp-log", add=True)
        assert (found.drafts, found.drafted, found.accepted, found.tau) == figures
    assert "10 of 15 cycles drafted nothing and are not counted" in read(LOOKUP, "llama.cpp-log").assumed
    refuses("one line of running totals, got 2", read, f"{OLD_SERVER}\n{LOOKUP}", "llama.cpp-log")


@given(hs.dictionaries(hs.integers(1, 5), hs.lists(hs.integers(0, 50), min_size=6, max_size=6), min_size=1))
def test_histograms_count_every_cycle_at_every_position_it_drafted(rows: dict[int, list[int]]) -> None:
    by_length = {k: row[: k + 1] for k, row in rows.items()}
    hits, trials = from_histograms(by_length)
    for d in range(max(by_length)):
        cycles = [(k, j) for k, row in by_length.items() for j, n in enumerate(row) for _ in range(n)]
        assert trials[d] == sum(k > d and j >= d for k, j in cycles)
        assert hits[d] == sum(k > d and j > d for k, j in cycles)


def prometheus(old: str, new: str) -> tuple[str, str]:
    return "vllm-metrics", PROMETHEUS.replace(old, new)


def response(**change: Any) -> tuple[str, str]:
    return "vllm-response", json.dumps(REQUEST | change)


def meta_info(**change: Any) -> tuple[str, str]:
    return "sglang-response", json.dumps(META_INFO | change)


def statistics(**change: Any) -> tuple[str, str]:
    return "trtllm-stats", json.dumps(iteration(**change))


def log(text: str) -> tuple[str, str]:
    return "llama.cpp-log", text


CONTRADICTIONS: list[tuple[tuple[str, str], str]] = [
    (prometheus("num_accepted_tokens_per_pos_total", "num_taken_per_pos"), "has none of vllm:spec_decode_num_accepted"),
    (prometheus('position="0"} 500.0', 'position="0"} 700.0'), "is 1500, but the sum of .* makes it 1700"),
    (prometheus('position="2"', 'position="4"'), r"must have positions 0, 1, ... without gaps, got \[0, 1, 4\]"),
    (("vllm-log", LOG.replace("Mean acceptance", "Mean accepted")), "the line has none of Mean acceptance length"),
    (("vllm-log", LOG.replace("92 tokens", "98 tokens")), "accepted=98 of drafted=259, tau=3.49 .* fit no number"),
    (response(num_spec_steps=44), "num_spec_steps is 44, but acceptance_histogram makes it 43"),
    (response(acceptance_histogram_by_draft_length={"3": [39, 2, 0, 2]}), "by_draft_length is 8, but .* makes it 10"),
    (meta_info(spec_num_correct_drafts=151), "spec_num_correct_drafts is 151, but the histogram makes it 150"),
    (meta_info(spec_num_proposed_drafts=100), "accepted=150 must be at most drafted=100"),
    (meta_info(spec_verify_ct=0, spec_correct_drafts_histogram=None), "nothing was drafted yet: drafts=0$"),
    (("sglang-metrics", SGLANG_METRICS.replace("2.5", "4.5")), "is 4.5, more than sglang:spec_num_draft_tokens=4"),
    (("sglang-log", "#running-req: 4, gen throughput (token/s): 9.0"), "nothing was drafted, no line has accept len"),
    (statistics(numAcceptedTokens=25, acceptanceLength=None), "accepted=25 must be at most drafted=24"),
    (statistics(acceptanceLength=3.5), "acceptanceLength is 3.5, but 1 . numAcceptedTokens / 8 requests makes it 2.5"),
    (("trtllm-stats", '{"specDecodeStats": {}}'), "none of specDecodingStats; .* found are specDecodeStats"),
    (log(NEWER.replace("2.92", "1.2")), "mean acceptance length is 1.2, but 167 of 259 makes it 1.64479 to 168"),
]


@pytest.mark.parametrize(("report", "message"), CONTRADICTIONS)
def test_reports_that_contradict_themselves_are_refused(report: tuple[str, str], message: str) -> None:
    kind, text = report
    refuses(message, read, text, kind)


def test_metrics_are_read_with_and_without_types_totals_and_timestamps() -> None:
    for text in (
        "drafts 300\n",
        "# HELP drafts text\n# TYPE drafts counter\ndrafts 300 1700000000000\n",
        'drafts{a="b, {c} \\"d\\""} 200\ndrafts{a="e",} 100\nother NaN\n',
        'drafts_total{a="="} 300\n',
    ):
        assert Metrics.parse(text).counter("drafts") == 300


def answered(*scrapes: str, kind: str = "matrix") -> str:
    """What Prometheus's HTTP API answers about these scrapes of one server, one after another."""
    found: dict[str, dict[str, Any]] = {}
    for time, scrape in enumerate(scrapes):
        for line in scrape.splitlines():
            series, value = line.rsplit(" ", 1)
            labels = dict(re.findall(r'(\w+)="([^"]*)"', series)) | {"__name__": series.partition("{")[0]}
            found.setdefault(series, {"metric": labels, "values": []})["values"].append([time, value])
    rows = list(found.values())
    if kind == "vector":
        rows = [{"metric": row["metric"], "value": row["values"][-1]} for row in rows]
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": rows}})


def test_prometheus_answers_and_several_replicas_are_read_as_scrapes() -> None:
    one, other = ([counters(n, label) for n in (100, 400)] for label in ("a", "b"))
    between = read(one, "vllm-metrics", min_trials=1)
    assert (between.drafts, between.accepted) == (300, 450)
    for report in (answered(*one), [answered(one[0], kind="vector"), answered(one[1], kind="vector")]):
        assert read(report, "vllm-metrics", min_trials=1).tau == between.tau
    for report in (
        [one[0], other[0], one[1], other[1]],
        answered(*("\n".join(pair) for pair in zip(one, other, strict=True))),
    ):
        assert read(report, "vllm-metrics", min_trials=1).drafts == 600
    refuses("two of each replica, the earlier ones first, got 3", read, [*one, other[0]], "vllm-metrics")
    refuses("the JSON must hold series under data.result", read, '{"status": "error"}', "vllm-metrics")


def counters(drafts: int, instance: str) -> str:
    """A scrape after `drafts` cycles of 3 tokens, of which 1, 1/2 and 0 are accepted on average."""
    counts = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": 3 * drafts // 2}
    lines = [f'vllm:spec_decode_num_{name}_total{{instance="{instance}"}} {n}' for name, n in counts.items()]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [f'{name}{{instance="{instance}",position="{d}"}} {n}' for d, n in enumerate((drafts, drafts // 2, 0))]
    return "\n".join(lines)


def test_a_log_of_llama_cpp_has_one_tau() -> None:
    """Of the running totals, 1 + 361 / 151; without them, of the tokens that were timed, 511 for 150 cycles."""
    lines = [
        "eval time =    6000.00 ms /   512 tokens",
        "draft acceptance rate = 0.71203 (  361 accepted /   507 generated)",
        "statistics draft: #calls = 151, #gen drafts = 151, #acc drafts = 130, #gen tokens = 507, #acc tokens = 361",
    ]
    for log, tau in (("\n".join(lines), 1 + 361 / 151), ("\n".join(lines[:2]), 511 / 150)):
        (seen,) = diagnose(log, "llama.cpp-log")
        assert read(log, "llama.cpp-log").tau == seen.tau == pytest.approx(tau)
