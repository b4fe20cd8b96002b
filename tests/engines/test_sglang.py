"""SGLang."""

from __future__ import annotations

from typing import Any

import pytest

from spectheory.engines import Envelope, sglang
from spectheory.engines.report_values import missing
from tests.engines.examples import RANGES, TREE, acceptance
from tests.refusals import refuses


def test_golden_sglang() -> None:
    made = sglang.export(RANGES, version="0.5.15.post1", algorithm="EAGLE3", model="draft")
    assert made.version == "0.5.15"
    assert made.command == (
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path draft --speculative-num-steps 5 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --speculative-adaptive "
        "--speculative-adaptive-config adaptive.json"
    )
    assert made.files["adaptive.json"] == (
        '{\n "1": {\n  "candidate_steps": [\n   5\n  ]\n },\n "17": {\n  "candidate_steps": [\n   3\n  ]\n },\n'
        ' "65": {\n  "candidate_steps": [\n   0\n  ]\n }\n}\n'
    )
    assert "16, 64, 512 (--cuda-graph-bs)" in made.notes[0]


@pytest.mark.parametrize(
    ("plan", "change", "message"),
    [
        (RANGES, {"version": "0.6.0"}, r"of SGLang .* \(0.5.12 to 0.5.23\), got '0.6.0'"),
        (RANGES, {"version": "0.5.14"}, r"SGLang 0.5.14, got 3: .* use SGLang 0.5.15 or newer \(PR #24055\)"),
        (
            RANGES,
            {"algorithm": "STANDALONE"},
            "algorithm must be EAGLE, EAGLE3 or NEXTN for chains by batch size, got 'STANDALONE'",
        ),
        (RANGES, {"algorithm": "MEDUSA"}, "algorithm must be one of EAGLE, .*, got 'MEDUSA'"),
        (
            RANGES,
            {"algorithm": "NGRAM"},
            "plan must be one ChainRange for NGRAM of SGLang, got .*: it drafts one chain",
        ),
        (Envelope(2, 2, 3), {"algorithm": "DFLASH"}, "plan must be one ChainRange for DFLASH of SGLang, got Envelope"),
        (
            RANGES[:1],
            {"algorithm": "DSPARK", "version": "0.5.17"},
            "algorithm must be another than DSPARK for SGLang 0.5.17: it needs 0.5.18 or newer",
        ),
        (
            Envelope(4, 1, 3),
            {},
            "nodes must be levels=4 for branching=1, got 3: with topk 1 SGLang always verifies steps",
        ),
        (TREE, {}, "plan must be an Envelope or a list of ChainRange for SGLang, got a Tree"),
        ([3], {}, "plan must be an Envelope or a list of ChainRange, got list"),
    ],
)
def test_sglang_refuses_what_it_cannot_run(plan: Any, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"version": "0.5.23", "algorithm": "EAGLE3", "model": "d"} | change
    refuses(message, sglang.export, plan, **given)


NEW = {
    "id": "a",
    "completion_tokens": 251,
    "spec_verify_ct": 100,
    "spec_num_correct_drafts": 150,
    "spec_num_proposed_drafts": 300,
    "spec_accept_length": 2.51,
    "spec_accept_rate": 0.5,
    "spec_correct_drafts_histogram": [20, 40, 10, 30],
}
ALIASES = [
    ("spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_correct_drafts_histogram"),
    ("spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"),
    ("spec_accept_token_num", "spec_draft_token_num", "spec_accept_histogram"),
]


@pytest.mark.parametrize("names", ALIASES, ids=["new", "middle", "old"])
def test_sglang_meta_info_under_all_its_names(names: tuple[str, ...]) -> None:
    info = {dict(zip(ALIASES[0], names, strict=True)).get(name, name): value for name, value in NEW.items()}
    found = sglang.from_meta_info(info)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (100, 300, 150, 2.5)
    assert acceptance(found).table.ravel().tolist() == pytest.approx([0.8]), (
        "rows of fewer than 100 trials are left out"
    )
    every = sglang.from_meta_info(info, min_trials=1)
    assert acceptance(every).table.ravel().tolist() == pytest.approx([0.8, 0.5, 0.75])
    idle = {"meta_info": {"id": "b", "spec_verify_ct": 0}}
    both = sglang.from_meta_info([{"text": "x", "meta_info": info}, info, idle])
    assert (both.drafts, both.accepted, both.tau) == (200, 300, 2.5)
    del info[names[2]]
    totals = sglang.from_meta_info(info)
    assert totals.acceptance is None
    assert totals.tau == 2.5
    assert "rates by position are unknown" in totals.assumed[0]


def test_sglang_trees_and_single_tokens() -> None:
    tree = NEW | {"spec_num_proposed_drafts": 1500, "spec_accept_rate": 0.1}
    assert "15 tokens were drafted per cycle, but only 3 positions" in str(sglang.from_meta_info(tree).assumed)
    mtp = {"spec_verify_ct": 200, "spec_num_correct_drafts": 150, "spec_num_proposed_drafts": 200}
    assert acceptance(sglang.from_meta_info(mtp)).table.tolist() == [[0.75]]


BARE = {"spec_verify_ct": 10, "spec_num_correct_drafts": 50, "spec_accept_length": 2.0}
"""Totals with a length that they contradict."""


def test_the_length_counts_the_token_of_each_prefill_and_not_those_cut_at_the_end() -> None:
    for length, info in [
        (6.1, BARE),
        (6.2, BARE | {"num_retractions": 1}),
        (5.5, BARE | {"spec_num_proposed_drafts": 60}),
    ]:
        assert sglang.from_meta_info(info | {"spec_accept_length": length}).tau == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec_num_correct_drafts": 151}, "spec_num_correct_drafts is 151, but the histogram makes it 150"),
        ({"spec_verify_ct": 99}, "spec_verify_ct is 99, but the histogram makes it 100"),
        (
            {"spec_accepted_drafts": 140},
            "spec_num_correct_drafts=150 and spec_accepted_drafts=140 are two names of the same statistic",
        ),
        ({"spec_num_proposed_drafts": 100}, "accepted=150 must be at most drafted=100"),
        ({"spec_accept_length": 2.52}, "spec_accept_length is 2.52, but 100 cycles with 150 .* makes it 2.47 to 2.51"),
        ({"spec_accept_length": 2.46}, "at most 3 cut at the end, makes it 2.47 to 2.51"),
        ({"spec_accept_rate": 0.1}, "spec_accept_rate is 0.1, but accepted=150 of drafted=300 makes it 0.5"),
        (dict.fromkeys(NEW) | BARE | {"spec_accept_length": 2.0}, "at most 32 cut at the end, makes it 2.8 to 6.1"),
        (dict.fromkeys(NEW) | BARE | {"spec_num_proposed_drafts": 60}, "at most 6 cut at the end, makes it 5.4 to 6.1"),
        ({"spec_verify_ct": 0, "spec_correct_drafts_histogram": None}, "SGLang has drafted nothing yet: drafts=0$"),
        (
            {"spec_verify_ct": None, "spec_correct_drafts_histogram": None},
            "meta_info has spec_verify_ct, but no number for it",
        ),
    ],
)
def test_sglang_meta_info_that_contradicts_itself(change: dict[str, Any], message: str) -> None:
    refuses(message, sglang.from_meta_info, NEW | change)


def test_sglang_fails_loudly_when_no_known_name_is_there() -> None:
    with pytest.raises(ValueError, match="none of spec_verify_ct, .* the nearest found are spec_verify_count"):
        sglang.from_meta_info({"spec_verify_count": 3, "spec_correct": 4})
    refuses("nothing found has a name like these", sglang.from_meta_info, {"id": "a"})
    assert "a, b; nothing found" in str(missing("x", ["a", "b"], []))


SGLANG_METRICS = """\
sglang:spec_accept_length{tp_rank="0"} 2.5
sglang:spec_accept_rate{tp_rank="0"} 0.5
sglang:spec_num_draft_tokens{tp_rank="0"} 4
sglang:spec_verify_calls_total{engine_type="unified"} 40
"""


def test_sglang_metrics() -> None:
    found = sglang.from_metrics(SGLANG_METRICS)
    assert (found.tau, found.drafts, found.acceptance, found.accepted) == (2.5, 40, None, None)
    assert "gauge of the last batches" in found.assumed[1]
    ranks = SGLANG_METRICS + 'sglang:spec_accept_length{tp_rank="1"} 0.0\nsglang:spec_accept_length{tp_rank="2"} 3.5\n'
    several = sglang.from_metrics(ranks)
    assert several.tau == 3.0, "the mean of the ranks that are not idle"
    assert several.assumed[2:] == (
        "1 of 3 gauges are 0, because their ranks are idle, and are left out",
        "tau is the unweighted mean of the gauges of 2 ranks",
    )
    for old, new, message in [
        ("2.5", "0.0", "must be a finite number above 0, got 0.0: nothing has been verified yet"),
        ("2.5", "4.5", "accept_length is 4.5, more than sglang:spec_num_draft_tokens=4"),
        ("2.5", "0", "nothing has been verified yet"),
        ("2.5", "0.4", "tau must be at least 1, because each target call emits a token of its own, got 0.4"),
        ("accept_length", "acceptance_length", "none of sglang:spec_accept_length; .* sglang:spec_acceptance_length"),
    ]:
        refuses(message, sglang.from_metrics, SGLANG_METRICS.replace(old, new))


BENCH = """\
{"batch_size": 1, "steps": 0, "topk": 0, "num_draft_tokens": 0, "acc_length": 1.0, "step_time": 0.01, "speed": 100.0, "completion_tokens": 512.0}
{"batch_size": 1, "steps": 3, "topk": 4, "num_draft_tokens": 8, "acc_length": 2.5, "step_time": 0.0125, "speed": 200.0, "completion_tokens": 512.0}

{"batch_size": 8, "steps": 3, "topk": 1, "num_draft_tokens": 2, "acc_length": 2.2, "step_time": 0.02, "speed": 110.0, "completion_tokens": 512.0}
"""  # noqa: E501


NINE = '"acc_length": 9.0, "step_time": 0.02, "speed": 450.0'


def test_sglang_bench_speculative() -> None:
    plain, tree, chain = sglang.from_bench_speculative(BENCH)
    assert (plain.envelope, plain.tau, plain.tokens_per_second) == (None, 1.0, 100.0)
    assert (tree.envelope, tree.tau, tree.step_seconds) == (Envelope(3, 4, 7), 2.5, 0.0125)
    assert (chain.envelope, chain.batch_size) == (Envelope(3, 1, 3), 8), "with topk 1 SGLang always verifies steps + 1"
    for old, new, message in [
        ("200.0", "300.0", "line 2: speed is 300, but acc_length / step_time makes it 200"),
        ('"acc_length": 2.5', '"accept_length": 2.5', "line 2 has none of acc_length; the nearest found are accept_l"),
        ('"step_time": 0.0125', '"step_time": 0', "line 2 must have batch_size >= 1, step_time > 0"),
        ('"num_draft_tokens": 8', '"num_draft_tokens": 64', "nodes must be at most"),
        (
            '"acc_length": 2.2, "step_time": 0.02, "speed": 110.0',
            NINE,
            "line 4: acc_length is 9, but steps=3, .* 4.00783",
        ),
        ('"acc_length": 1.0, "step_time": 0.01, "speed": 100.0', NINE, "line 1: acc_length is 9, but steps=0"),
    ]:
        refuses(message, sglang.from_bench_speculative, BENCH.replace(old, new))
