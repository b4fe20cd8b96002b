"""Reports of vLLM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import vllm
from spectheory.engines.statistics import RANK_0_ONLY
from tests.engines.examples import acceptance
from tests.known import known
from tests.refusals import refuses

chains = hs.lists(hs.floats(0.3, 1), min_size=1, max_size=6)
"""Rates of acceptance by depth."""


def chain_counts(rates: list[float], drafts: int) -> list[int]:
    """Number of drafts whose first d + 1 tokens were all accepted, for each d."""
    return [int(drafts * np.prod(rates[: d + 1])) for d in range(len(rates))]


PROMETHEUS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m, {x}"} 600.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m, {x}"} 4.0e+02
vllm:spec_decode_num_drafts_created{engine="0",model_name="m, {x}"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m, {x}"} 1800.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m, {x}"} 1200.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m, {x}"} 900.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m, {x}"} 600.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="0"} 500.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="1"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="2"} 100.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="0"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="1"} 200.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="2"} 100.0
vllm:num_requests_running{engine="0"} 1.0
"""


@pytest.mark.parametrize("text", [PROMETHEUS, PROMETHEUS.replace("_total", "")], ids=["total", "without total"])
def test_vllm_counters(text: str) -> None:
    found = vllm.from_prometheus(text)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (1000, 3000, 1500, 2.5)
    assert acceptance(found).table.ravel().tolist() == [0.8, 500 / 800, 200 / 500]
    assert known(acceptance(found).trials).tolist() == [1000, 800, 500]
    assert found.assumed[0] == RANK_0_ONLY
    assert "2 label sets are summed: engine=0, model_name=m, {x}; engine=1" in found.assumed[1]
    assert "the rate at depth 3 is used for all deeper depths" in found.assumed[2]


@given(chains, hs.integers(10_000, 10**7))
def test_counters_of_a_chain_give_back_its_rates(rates: list[float], drafts: int) -> None:
    counts = chain_counts(rates, drafts)
    lines = [f"vllm:spec_decode_num_drafts_total {drafts}"]
    lines += [f"vllm:spec_decode_num_draft_tokens_total {drafts * len(rates)}"]
    lines += [f"vllm:spec_decode_num_accepted_tokens_total {sum(counts)}"]
    lines += [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate(counts)]
    found = vllm.from_prometheus("\n".join(lines), min_trials=1)
    table = acceptance(found).table[:, 0]
    reached = np.array([drafts, *counts])[: len(table)]
    assert np.all(np.abs(table - rates[: len(table)]) <= 1.001 / reached), "the counts are rounded down"
    chain = st.Tree.chain(len(rates))
    if len(table) == len(rates):
        assert st.block_efficiency(chain, acceptance(found)) == pytest.approx(known(found.tau))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "num_accepted_tokens_per_pos_total",
            "num_taken_per_pos",
            "has none of vllm:spec_decode_num_accepted_tokens_pe",
        ),
        ("vllm:spec_decode_", "vllm:speculation_", "nearest found are vllm:speculation_num_drafts"),
        ("vllm:", "sglang_", "has none of vllm:spec_decode_num_drafts"),
        ('position="0"} 500.0', 'position="0"} 700.0', "accepted_tokens is 1500, but the sum of .* makes it 1700"),
        ('position="2"', 'position="4"', r"must have positions 0, 1, ... without gaps, got \[0, 1, 4\]"),
        (' 600.0\nvllm:spec_decode_num_drafts_total{engine="1"', ' 60.5\nx{engine="1"', "must be a count, got 60.5"),
        ("_pos_total{", "_pos_total{x=", "must have positions|must have a label 'position'"),
        ("1200.0", "-1200", "must be a count, got -1200"),
        ("1200.0", "NaN", "must be a finite number, got nan"),
    ],
)
def test_vllm_counters_that_cannot_be_read(old: str, new: str, message: str) -> None:
    text = PROMETHEUS.replace('position="0"', 'place="0"') if new == "_pos_total{x=" else PROMETHEUS.replace(old, new)
    refuses(message, vllm.from_prometheus, text)


def test_counts_that_rise_and_too_few_counts_are_refused() -> None:
    risen = PROMETHEUS.replace('position="1"} 300', 'position="1"} 700').replace(
        '_tokens_total{engine="0",model_name="m, {x}"} 900', '_tokens_total{engine="0",model_name="m, {x}"} 1300'
    )
    refuses("position 1 has 900 accepted, but position 0 has 800: .* must not increase", vllm.from_prometheus, risen)
    refuses(r"trials\[0\] is 1000, fewer than min_trials=2000", vllm.from_prometheus, PROMETHEUS, min_trials=2000)
    idle = "".join(f"{line.rsplit(' ', 1)[0]} 0.0\n" for line in PROMETHEUS.splitlines() if line[0] != "#")
    refuses("vLLM has drafted nothing yet: drafts=0, drafted=0", vllm.from_prometheus, idle)


def test_drafts_of_mixed_lengths_are_named_in_what_is_assumed() -> None:
    found = vllm.from_prometheus(PROMETHEUS.replace("} 1200.0", "} 800.0"))
    assert (
        "2.6 tokens were drafted per cycle for 3 positions: a position that was not drafted counts as rejected"
        in str(found.assumed)
    )


LOG = (
    "(APIServer pid=347228) INFO 08-04 20:51:08 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.49, "
    "Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: 92 tokens, Drafted: 259 tokens, "
    "Per-position acceptance rate: 0.757, 0.622, 0.432, 0.324, 0.189, 0.108, 0.054, Avg Draft acceptance rate: 35.5%"
)


def test_vllm_log_line() -> None:
    found = vllm.from_log_line(LOG, min_trials=1)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (37, 259, 92, 3.49)
    assert known(acceptance(found).hits)[:, 0].tolist() == [28, 23, 16, 12, 7, 4, 2]
    short = "SpecDecoding metrics: Mean acceptance length: 2.40, Per-position acceptance rate: 0.800, 0.600"
    rates = vllm.from_log_line(short)
    assert acceptance(rates).table.ravel().tolist() == pytest.approx([0.8, 0.75])
    assert (rates.drafts, rates.accepted, acceptance(rates).trials) == (None, None, None)


@given(chains, hs.integers(1, 5000))
def test_log_lines_give_back_their_counts(rates: list[float], drafts: int) -> None:
    counts = chain_counts(rates, drafts)
    found = vllm.from_log_line(log_line(drafts, counts), min_trials=1)
    assert (found.accepted, found.drafted) == (sum(counts), drafts * len(rates))
    assert found.drafts == drafts
    kept = known(acceptance(found).hits)
    assert np.all(np.abs(kept[:, 0] - counts[: len(kept)]) <= 0.001 * drafts), "exact below 1000 cycles"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Mean acceptance length", "Mean accepted length", "the line has none of Mean acceptance length"),
        ("3.49", "4.49", "mean acceptance length is 4.49, but 1 . the sum of the rates makes it 3.486"),
        ("0.622", "0.822", "rate of position 1 must be between 0 and the rate of position 0, 0.757, got 0.822"),
        ("35.5%", "45.5%", "in % is 45.5, but Accepted=92 / Drafted=259 makes it 35.52"),
        ("35.5%", "35.6%", "in % is 35.6, but Accepted=92 / Drafted=259 makes it 35.52"),
        ("Accepted: 92", "Accepted: 592", "in % is 35.5"),
        ("92 tokens, Drafted: 259", "92 tokens, Drafted: 260", "in % is 35.5, but"),
        ("92 tokens, Drafted: 259", "98 tokens, Drafted: 276", "accepted=98 of drafted=276, tau=3.49 .* fit no number"),
        (
            "92 tokens, Drafted: 259",
            "96 tokens, Drafted: 270",
            "in % is 35.5, but Accepted=96 / Drafted=270 makes it 35.5556",
        ),
        ("INFO", LOG, "line must have 'Mean acceptance length' once, got it 2 times"),
    ],
)
def test_log_lines_that_contradict_themselves(old: str, new: str, message: str) -> None:
    refuses(message, vllm.from_log_line, LOG.replace(old, new))


SHORT = "SpecDecoding metrics: Mean acceptance length: 2.20, Per-position acceptance rate: 0.600, 0.400, 0.200"


@pytest.mark.parametrize("percent", ["39.9", "40.0", "75.0", "75.1"])
def test_a_percentage_that_the_rates_allow_is_taken(percent: str) -> None:
    assert vllm.from_log_line(f"{SHORT}, Avg Draft acceptance rate: {percent}%").tau == 2.2


@pytest.mark.parametrize("percent", ["39.8", "75.3", "95.0"])
def test_a_percentage_that_the_rates_do_not_allow_is_refused(percent: str) -> None:
    with pytest.raises(
        ValueError, match=f"rate in % is {percent.removesuffix('.0')}, but the rates 0.6, 0.4, 0.2 makes"
    ):
        vllm.from_log_line(f"{SHORT}, Avg Draft acceptance rate: {percent}%")


def log_line(drafts: int, counts: list[int]) -> str:
    accepted, drafted = sum(counts), drafts * len(counts)
    return (
        f"INFO SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {', '.join(f'{n / drafts:.3f}' for n in counts)}, "
        f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
    )


def test_the_lines_of_a_log_are_added() -> None:
    idle = "INFO SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens"
    lines = [log_line(100, [80, 50]), "INFO Engine 000: Avg prompt throughput", idle, log_line(60, [30, 20, 10])]
    found = vllm.from_log("\n".join(lines))
    assert (found.drafts, found.drafted, found.accepted) == (160, 380, 190)
    counted = known(vllm.from_log("\n".join(lines), min_trials=1).acceptance)
    assert known(counted.hits)[:, 0].tolist() == [110, 70, 10]
    assert known(counted.trials).tolist() == [160, 110, 20], "position 2 counts in the interval that has it"
    assert "2 lines of the log are added" in found.assumed
    single = vllm.from_log(f"{lines[0]}\n{lines[1]}")
    assert acceptance(single).table.tolist() == acceptance(vllm.from_log_line(lines[0])).table.tolist()
    added = "line 2 of 2 must have Accepted and Drafted to be added: pass this line alone"
    refuses(added, vllm.from_log, f"{lines[0]}\n{SHORT}")
    refuses("the line has none of Mean acceptance length", vllm.from_log, "INFO nothing")
    refuses("mean acceptance length is 4.49, but", vllm.from_log, f"{lines[0]}\n{LOG.replace('3.49', '4.49')}")


def test_a_series_that_is_there_twice_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"each series once, got vllm:spec_decode_num_drafts_total\{engine=.* twice: pass"
    ):
        vllm.from_prometheus(PROMETHEUS * 2)


REQUEST: dict[str, Any] = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]},
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}


def test_vllm_request_metrics() -> None:
    for data in (REQUEST, {"speculative_decoding": REQUEST}, {"metrics": {"speculative_decoding": REQUEST}}):
        found = vllm.from_request_metrics(data, min_trials=1)
        assert (found.drafts, found.drafted, found.accepted) == (43, 129, 10)
        assert found.tau == pytest.approx(REQUEST["mean_acceptance_length"])
        assert acceptance(found).table.ravel().tolist() == pytest.approx([4 / 43, 3 / 4, 1])
    mixed = {
        "acceptance_histogram": [5, 30, 20],
        "acceptance_histogram_by_draft_length": {"1": [3, 20], "2": [2, 10, 20]},
    }
    detailed = {
        "acceptance_histogram": [5, 30, 20],
        "per_step_accepted": [0] * 3 + [1] * 20 + [0] * 2 + [1] * 10 + [2] * 20,
        "per_step_drafted": [1] * 23 + [2] * 32,
    }
    for data in (mixed, detailed):
        table = acceptance(vllm.from_request_metrics(data, min_trials=1)).table.ravel()
        assert table.tolist() == pytest.approx([50 / 55, 20 / 30]), "position 1 counts only where it was drafted"


NO_LENGTHS = {"acceptance_histogram_by_draft_length": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"acceptance_histogram": None, "accept_histogram": [1]},
            "the response has acceptance_histogram, but no number for it",
        ),
        ({"num_spec_steps": 44}, "num_spec_steps is 44, but acceptance_histogram makes it 43"),
        ({"num_accepted_draft_tokens": 11}, "num_accepted_draft_tokens is 11, but acceptance_histogram makes it 10"),
        ({"mean_acceptance_length": 1.5}, "mean_acceptance_length is 1.5, but acceptance_histogram makes it 1.23256"),
        ({"num_draft_tokens": 9}, "num_draft_tokens=9 must be at least accepted=10"),
        ({"num_draft_tokens": 9999}, "num_draft_tokens is 9999, but the steps by draft length makes it 129"),
        ({"num_draft_tokens": 130, **NO_LENGTHS}, "must be at most 129, the longest draft in every step .* got 130"),
        ({"draft_acceptance_rate": 0.9}, "draft_acceptance_rate is 0.9, but 10 accepted of 129 drafted makes it 0.07"),
        ({"num_spec_tokens": 5}, "num_spec_tokens is 5, but acceptance_histogram makes it 3"),
        (
            {**NO_LENGTHS, "per_step_accepted": [0, 1], "per_step_drafted": [3]},
            "per_step_accepted and per_step_drafted must be equally long, got 2 and 1",
        ),
        ({"acceptance_histogram_by_draft_length": {"x": [1]}}, "must have draft lengths as keys, such as '3', got 'x'"),
        ({"acceptance_histogram_by_draft_length": [1]}, "by_draft_length must be a dictionary, got list"),
        ({"acceptance_histogram_by_draft_length": {"3": [39, 2, 0, 2]}}, "by_draft_length is 8, but .* makes it 10"),
        ({"acceptance_histogram": [39, -1, 0, 3]}, r"acceptance_histogram\[1\] must be a count, got -1"),
        ({"acceptance_histogram": 3}, "acceptance_histogram must be a list of counts, got 3"),
        ({"acceptance_histogram_by_draft_length": {"2": [39, 1, 0, 3]}}, r"length\[2\] must have 3 entries, got 4"),
    ],
)
def test_request_metrics_that_cannot_be_read(change: dict[str, Any], message: str) -> None:
    refuses(message, vllm.from_request_metrics, REQUEST | change, min_trials=1)
