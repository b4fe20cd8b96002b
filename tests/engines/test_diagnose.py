"""`diagnose`: the figures of a planted server are found in its reports, beside those of forward times."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.engines import ALL, Diagnosis, diagnose, read_report
from tests.helpers import known, refuses

SERVED = 'model_name="m"'
CYCLES, BATCH, LENGTH = 600, 8, 4
"""Cycles of all sequences, sequences that decode together, and drafted tokens: a cycle of 20 ms with tau 2.5."""


def vllm_scrape(times: int, *, drafts: bool = True, label: str = SERVED, rate: int = 1) -> str:
    """A scrape after `times` times the traffic, in which the drafts accept `rate` times as much as usual."""
    cycles = CYCLES * times
    counts = {"drafts": cycles, "draft_tokens": 4 * cycles, "accepted_tokens": cycles * 3 * rate // 2}
    per_position = [cycles * share * rate // 12 for share in (9, 6, 3, 0)]
    lines = [
        "process_start_time_seconds 1790000000",
        f"vllm:inter_token_latency_seconds_sum{{{label}}} {0.02 * cycles}",
        f"vllm:inter_token_latency_seconds_count{{{label}}} {cycles}",
        f"vllm:iteration_tokens_total_count{{{label}}} {cycles // BATCH}",
        f"vllm:prefix_cache_queries_total{{{label}}} {100 * times}",
        f"vllm:prefix_cache_hits_total{{{label}}} {50 * times}",
    ]
    for name, mean in (("prompt", 200), ("generation", 100)):
        lines.append(f"vllm:request_{name}_tokens_sum{{{label}}} {10 * mean * times}")
        lines.append(f"vllm:request_{name}_tokens_count{{{label}}} {10 * times}")
    if drafts:
        lines += [f"vllm:spec_decode_num_{name}_total{{{label}}} {value}" for name, value in counts.items()]
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines += [f'{name}{{{label},position="{i}"}} {value}' for i, value in enumerate(per_position)]
    return "\n".join(lines) + "\n"


SGLANG_LINE = "Decode batch, #running-req: 8, {}gen throughput (token/s): {}, #queue-req: 0"
ITERATION: dict[str, Any] = {"iterLatencyMS": 20.0, "inflightBatchingStats": {"numGenRequests": BATCH}}
BLOCK = {"numDraftTokens": 32, "numAcceptedTokens": 12, "numRequestsWithDraftTokens": 8, "iterLatencyMS": 6.0}
TIMED = " eval time = {} ms / {} tokens"
DRAFTED = {
    "vllm-metrics": [vllm_scrape(1), vllm_scrape(2)],
    "vllm-log": "Avg generation throughput: 1000.0 tokens/s, Running: 8 reqs\nMean acceptance length: 2.50, Accepted: "
    "900 tokens, Drafted: 2400 tokens, Per-position acceptance rate: 0.750, 0.500, 0.250, 0.000",
    "sglang-metrics": 'sglang:inter_token_latency_seconds_sum{model_name="m"} 12\nsglang:num_running_reqs'
    '{model_name="m"} 8\nsglang:inter_token_latency_seconds_count{model_name="m"} 1500\nsglang:spec_accept_length'
    '{model_name="m"} 2.5\nsglang:spec_num_draft_tokens{model_name="m"} 5\n',
    "sglang-log": SGLANG_LINE.format("accept len: 2.50, accept rate: 0.375, ", 1000.0),
    "trtllm-stats": json.dumps(ITERATION | {"specDecodingStats": BLOCK}),
    "llama.cpp-log": TIMED.format(12000.0, 1501) + "\ndraft acceptance = 0.37500 (900 accepted / 2400 generated), mean "
    "acceptance length = 2.50, acceptance rate per position = (0.750, 0.500, 0.250, 0.000)\nstatistics draft-simple: "
    "#calls(b,g,a) = 1 600 600, #gen drafts = 600, #acc drafts = 450, #gen tokens = 2400, #acc tokens = 900, "
    "dur(b,g,a) = 0.005, 3600.0, 0.500 ms",
}
PLAIN = {
    "vllm-metrics": vllm_scrape(1, drafts=False),
    "vllm-log": "Avg generation throughput: 400.0 tokens/s, Running: 8 reqs",
    "sglang-metrics": 'sglang:inter_token_latency_seconds_sum{model_name="m"} 12\n'
    'sglang:inter_token_latency_seconds_count{model_name="m"} 600\n',
    "sglang-log": SGLANG_LINE.format("", 400.0),
    "trtllm-stats": json.dumps(ITERATION),
    "llama.cpp-log": TIMED.format(12000.0, 601),
}


def latency(batch: int = BATCH, level: float = 1.5) -> st.Latency:
    """Forward times: a level of the draft of 1.5 ms, and a forward of t tokens of 9 + t ms."""
    tokens = np.arange(1, 10)
    target, draft = (9e-3 + tokens / 1e3)[None], np.full((1, 9), level / 1e3)
    stamp = st.Provenance("planted", batch=batch)
    return st.Latency(tokens, np.array([100]), target, draft, overhead_seconds=1e-3, provenance=stamp)


def one(kind: str, **given: Any) -> Diagnosis:
    (found,) = diagnose(DRAFTED[kind], kind, batch=BATCH if kind == "llama.cpp-log" else None, **given)
    return found


@pytest.mark.parametrize("kind", DRAFTED)
def test_the_figures_of_the_server_are_read_and_set_beside_those_of_forward_times(kind: str) -> None:
    assert list(DRAFTED) == [name for each in ALL for name, reader in each.readers.items() if reader.observe]
    found = one(kind, times=[latency(1, 9.0), latency()], plain=PLAIN[kind])
    assert (found.tau, found.nodes, found.batch) == (pytest.approx(2.5), pytest.approx(LENGTH, rel=1e-6), BATCH)
    assert (found.observed.cycle, found.observed.plain) == (pytest.approx(0.02), pytest.approx(0.02))
    assert found.observed.draft == (pytest.approx(0.006) if kind in ("trtllm-stats", "llama.cpp-log") else None)
    assert found.speedup == pytest.approx(2.5)
    assert astuple(found.predicted) == pytest.approx((6e-3, 14e-3, 1e-3, 0.0, 21e-3, 10e-3))
    if kind in ("vllm-metrics", "vllm-log", "llama.cpp-log"):
        assert found.rates == pytest.approx([3 / 4, 2 / 3, 1 / 2, 0])
    (off,) = diagnose(PLAIN[kind], kind)
    assert (off.tau, off.nodes, off.observed.plain, off.speedup) == (1.0, 0.0, pytest.approx(0.02), 1.0)
    assert "nothing was drafted" in off.notes[-1]


def test_steps_without_a_match_are_counted() -> None:
    """600 of 1,500 steps draft, and the rest emit one token each: tau is 1 + 0.4 * 1.5."""
    counters = {"generation_tokens_total": 1500 + 900 + 10, "time_to_first_token_seconds_count": 10}
    more = ["".join(f"vllm:{name}{{{SERVED}}} {n * each}\n" for name, each in counters.items()) for n in (1, 2)]
    scrapes = [vllm_scrape(1) + more[0], vllm_scrape(2) + more[1]]
    rates = known(read_report(scrapes, "vllm-metrics").acceptance)
    assert rates.drafted_share == 0.4
    assert rates.of_all_steps.table[:, 0] == pytest.approx([0.3, 2 / 3, 1 / 2, 0])
    assert known(rates.of_all_steps.trials).tolist() == [1500, 450, 300, 150]
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "ngram", context=100)
    (found,) = diagnose(scrapes, "vllm-metrics", times=place)
    assert (found.tau, found.nodes) == (pytest.approx(1.6), LENGTH)
    planned = place.latency(BATCH, drafted_share=0.4)
    assert found.predicted.verification == pytest.approx(planned.target(LENGTH + 1, 100))


def test_the_fastest_length_is_that_of_the_rates_and_forward_times() -> None:
    found = one("sglang-log", times=latency())
    (rate, *_), cycles = found.rates, [1.5 * n + 10 + n + (n > 0) for n in range(9)]
    speeds = [sum(rate**i for i in range(n + 1)) / cycles[n] for n in range(9)]
    assert found.best_length == int(np.argmax(speeds))
    assert found.best_speedup == pytest.approx(max(speeds) / speeds[LENGTH])
    assert found.answer.startswith(f"Draft {found.best_length} tokens a cycle: predicted ")
    slow = one("sglang-log", times=latency(level=30.0))
    assert (slow.best_length, slow.best_speedup) == (0, pytest.approx(0.1 / (2.5 / 135)))
    assert slow.answer.startswith("Turn speculation off: predicted 1.00x plain decoding and ")
    assert one("llama.cpp-log").predicted.cycle is None


def test_a_diagnosis_and_a_schedule_of_one_server_agree() -> None:
    """The same counts, batch size, lengths of requests and times, so the same chain at the same speed."""
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3", engine="vllm")
    found = one("vllm-metrics", times=place)
    counts = known(st.read_report(DRAFTED["vllm-metrics"], "vllm-metrics").acceptance)
    planned = replace(place, prompt_tokens=100, output_tokens=100).schedule(counts, [BATCH])
    assert known(found.plan).summary == planned.summary
    assert f"predicted as by spectheory schedule --batch {BATCH} --lengths 100,100" in found.notes


def test_scrapes_are_subtracted_and_models_kept_apart() -> None:
    two = [vllm_scrape(n) + vllm_scrape(n, label='model_name="poor"', rate=0).partition("\n")[2] for n in (1, 3)]
    good, poor = diagnose(two, "vllm-metrics")
    assert (good.model, good.tau, poor.model, poor.tau) == ("m", 2.5, "poor", 1.0)
    rates = st.read_report(two, "vllm-metrics", model="m")
    assert (rates.drafts, rates.accepted) == (2 * CYCLES, 3 * CYCLES)
    refuses("is of the models m, poor, which must not be added", st.read_report, two, "vllm-metrics")
    refuses("unknown value of the label model_name 'por'", diagnose, two, "vllm-metrics", model="por")
    (whole,) = diagnose(vllm_scrape(2), "vllm-metrics")
    assert whole.notes[0].startswith("a single scrape counts everything since the server started")


def test_a_deployment_gets_the_lengths_of_the_requests_and_trees_their_levels() -> None:
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    prompts = one("vllm-metrics", times=place).predicted.prompts
    assert prompts is not None
    assert prompts > 0
    line = SGLANG_LINE.format("accept len: 3.00, ", 8)
    (tree,) = diagnose(line, "sglang-log", shape=(7, 3), times=latency())
    assert tree.nodes == 7.0
    assert tree.predicted.draft == pytest.approx(3 * 1.5e-3), "one forward of the draft for each level"
    (unknown,) = diagnose(line, "sglang-log", times=latency())
    assert unknown.predicted.cycle is None
    assert "does not say how many tokens were drafted" in unknown.notes[-1]
    (far,) = diagnose(DRAFTED["llama.cpp-log"], "llama.cpp-log", times=latency(64))
    assert "the forward times are of batch size 64, that of the server is not known" in far.notes


def test_what_cannot_be_diagnosed_is_refused() -> None:
    first, second = DRAFTED["vllm-metrics"]
    for reports, message in (
        ([second, first], "was reset, or the scrapes are in the wrong order"),
        ([second.replace(SERVED, 'model_name="b"'), second], "the later scrape has no vllm:.* with the labels .*b"),
        ([text.replace("_total{", "{") for text in (first, second)], "must end in _total, or be declared as a co"),
    ):
        refuses(message, diagnose, reports, "vllm-metrics")
    refuses("the report shows no decoding", diagnose, first, "sglang-log")
    refuses("vllm-response has no times", diagnose, "{}", "vllm-response")
    refuses("plain must be without speculation", diagnose, [first, second], "vllm-metrics", plain=second)
    refuses("levels must be from tau - 1 = 1.5 to nodes=4, got 1", diagnose, second, "vllm-metrics", shape=(4, 1))
