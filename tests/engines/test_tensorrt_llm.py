"""TensorRT-LLM."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given

import spectheory as st
from spectheory.engines import ChainRange, Envelope, tensorrt_llm
from tests.engines.examples import RANGES, TREE, acceptance, schedules
from tests.refusals import refuses


def test_golden_tensorrt_llm() -> None:
    tree = tensorrt_llm.export(Envelope(6, 10, 60), version="1.3.0rc27", model="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    assert tree.files["speculative_config.yaml"] == (
        "speculative_config:\n"
        "  decoding_type: Eagle3\n"
        '  speculative_model: "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"\n'
        "  max_draft_len: 6\n"
        "  use_dynamic_tree: true\n"
        "  dynamic_tree_max_topK: 10\n"
        "  max_total_draft_tokens: 60\n"
    )
    static = tensorrt_llm.export(TREE, version="1.2.1", model="d").files["speculative_config.yaml"]
    assert "  max_draft_len: 3\n  eagle_choices: [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]\n" in static


def test_the_meaning_of_a_schedule_turned_round_between_two_versions_of_tensorrt_llm() -> None:
    old = tensorrt_llm.export(RANGES, version="1.2.0", model="d")
    new = tensorrt_llm.export(RANGES, version="1.4.0rc1", model="d")
    assert "  draft_len_schedule: {1: 5, 17: 3, 65: 0}\n" in old.files["speculative_config.yaml"]
    assert "  draft_len_schedule: {16: 5, 64: 3}\n" in new.files["speculative_config.yaml"]
    assert "continues to draft 0 tokens" in old.notes[0]
    assert "above batch size 64" in new.notes[0]


@given(schedules(longest_first=True))
def test_both_meanings_of_a_tensorrt_llm_schedule_say_the_same(ranges: list[ChainRange]) -> None:
    def table(version: str) -> dict[int, int]:
        text = tensorrt_llm.export(ranges, version=version, model="d").files["speculative_config.yaml"]
        config = yaml.safe_load(text)["speculative_config"]
        assert config["draft_len_schedule"][min(config["draft_len_schedule"])] == config["max_draft_len"]
        return config["draft_len_schedule"]

    lower, upper = table("1.2"), table("1.3")
    assert 1 in lower
    for item in ranges:
        for batch in {item.first_batch, (item.first_batch + item.last_batch) // 2, item.last_batch}:
            assert lower[max(key for key in lower if key <= batch)] == item.length
            above = [key for key in upper if key >= batch]
            assert (upper[min(above)] if above else 0) == item.length


@pytest.mark.parametrize("model", ["yes", "a: b", "#x", "null", "C:\\model", '"', "päth/1.0"])
def test_any_model_name_survives_yaml(model: str) -> None:
    text = tensorrt_llm.export(RANGES, version="1.3", model=model).files["speculative_config.yaml"]
    assert yaml.safe_load(text)["speculative_config"]["speculative_model"] == model


@pytest.mark.parametrize(
    ("plan", "version", "message"),
    [
        (RANGES, "0.20", r"of TensorRT-LLM .* \(1.2, 1.3, 1.4\), got '0.20'"),
        (
            Envelope(3, 4, 15),
            "1.3",
            "nodes must be between levels=3 and branching . levels=12 for TensorRT-LLM, got 15",
        ),
        (Envelope(3, 4, 2), "1.3", "nodes must be between levels=3"),
        (Envelope(3, 4, 8), "1.2", r"TensorRT-LLM 1.2, got an Envelope: dynamic trees need 1.3 or newer \(PR #13081\)"),
        (TREE, "1.4.0rc1", "TensorRT-LLM 1.4, got a Tree: PR #18210 removed eagle_choices"),
        (st.Tree.k_ary(3, 1), "1.3", r"tree must be at least 2 deep for TensorRT-LLM, got depth 1: .*\(#10323\)"),
        (
            [ChainRange(1, 4, 2), ChainRange(5, 8, 3)],
            "1.3",
            "length of the first range must be the longest of all, got 2 where another range has 3",
        ),
        ("tree", "1.3", "plan must be an Envelope, a Tree or a list of ChainRange, got str"),
    ],
)
def test_tensorrt_llm_refuses_what_it_cannot_run(plan: Any, version: str, message: str) -> None:
    refuses(message, tensorrt_llm.export, plan, version=version, model="d")


ONE_LENGTH = [ChainRange(1, 16, 3), ChainRange(17, 64, 0)]


@pytest.mark.parametrize(
    ("version", "named"),
    [("1.2", "num_nextn_predict_layers"), ("1.3.0rc27", "num_nextn_predict_layers"), ("1.4.0rc1", "max_draft_len")],
)
def test_mtp_counts_drafted_tokens_under_the_name_of_the_version(version: str, named: str) -> None:
    """`max_concurrency` is the last batch size with drafts; without a range that is off, it is left out."""
    made = tensorrt_llm.export_without_model(ONE_LENGTH, version=version, decoding_type="MTP")
    expected = {"decoding_type": "MTP", named: 3, "max_concurrency": 16}
    assert yaml.safe_load(made.files["speculative_config.yaml"]) == {"speculative_config": expected}
    always = tensorrt_llm.export_without_model(ONE_LENGTH[:1], version=version, decoding_type="MTP")
    del expected["max_concurrency"]
    assert yaml.safe_load(always.files["speculative_config.yaml"]) == {"speculative_config": expected}
    assert made.notes == ("the checkpoint of the target must contain the module",)


def test_n_gram_lookup_runs_without_the_overlap_scheduler() -> None:
    made = tensorrt_llm.export_without_model(ONE_LENGTH, version="1.3", decoding_type="NGram")
    assert yaml.safe_load(made.files["speculative_config.yaml"]) == {
        "speculative_config": {"decoding_type": "NGram", "max_draft_len": 3, "max_concurrency": 16},
        "disable_overlap_scheduler": True,
    }


@pytest.mark.parametrize(
    ("ranges", "decoding_type", "message"),
    [
        (
            RANGES,
            "MTP",
            "one length, and no speculation above .* got 5 up to batch 16, 3 up to batch 64, 0 up to batch 5",
        ),
        ([ChainRange(1, 4, 0), ChainRange(5, 8, 2)], "NGram", "one length, .* got 0 up to batch 4, 2 up to batch 8"),
        ([ChainRange(1, 4, 0)], "NGram", "ranges must have a length above 0"),
        (ONE_LENGTH, "Eagle3", "decoding_type must be one of MTP, NGram, got 'Eagle3'"),
    ],
)
def test_without_a_model_other_schedules_are_refused(
    ranges: list[ChainRange], decoding_type: str, message: str
) -> None:
    refuses(message, tensorrt_llm.export_without_model, ranges, version="1.3", decoding_type=decoding_type)


ITERATION: dict[str, Any] = {
    "iter": 7,
    "iterLatencyMS": 20.0,
    "specDecodingStats": {
        "numDraftTokens": 24,
        "numAcceptedTokens": 12,
        "numRequestsWithDraftTokens": 8,
        "acceptanceLength": 2.5,
        "draftOverhead": 0.1,
    },
}


def iteration(**changed: Any) -> dict[str, Any]:
    block = ITERATION["specDecodingStats"] | changed
    return ITERATION | {"specDecodingStats": {name: value for name, value in block.items() if value is not None}}


def test_tensorrt_llm_iterations() -> None:
    context = iteration(numDraftTokens=0, numAcceptedTokens=0, numRequestsWithDraftTokens=0, acceptanceLength=0.0)
    copy = ITERATION | {"attentionDpRank": 1}
    found = tensorrt_llm.from_iteration_stats([ITERATION, context, copy, {"iter": 8}, ITERATION])
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (16, 48, 24, 2.5)
    assert found.acceptance is None
    unnamed = tensorrt_llm.from_iteration_stats(iteration(numRequestsWithDraftTokens=None))
    assert unnamed.drafts == 8, "accepted = (acceptanceLength - 1) * requests"
    block = tensorrt_llm.from_iteration_stats(ITERATION["specDecodingStats"])
    assert block.tau == 2.5
    unknown = tensorrt_llm.from_iteration_stats(iteration(numRequestsWithDraftTokens=None, acceptanceLength=None))
    assert (unknown.tau, unknown.accepted) == (None, 12)
    single = tensorrt_llm.from_iteration_stats(
        iteration(numDraftTokens=8, numAcceptedTokens=4, acceptanceLength=1.5), min_trials=1
    )
    assert acceptance(single).table.tolist() == [[0.5]]
    read, uncounted = tensorrt_llm.from_iteration_stats, {"numRequestsWithDraftTokens": None}
    refuses("numAcceptedTokens=25 must be at most numDraftTokens=24", read, iteration(numAcceptedTokens=25))
    beyond = "acceptanceLength is {}, but 1 . numAcceptedTokens / 8 requests makes it 2.5"
    refuses(beyond.format(3.5), read, iteration(acceptanceLength=3.5))
    refuses("acceptanceLength is 2.51, but", read, iteration(acceptanceLength=2.51))
    refuses(
        "numRequestsWithDraftTokens must be from 1 to numDraftTokens=24, as each request drafted a token, got 25",
        read,
        iteration(numRequestsWithDraftTokens=25, acceptanceLength=None),
    )
    refuses(
        "number of requests, by acceptanceLength=1.001, must be from 1 to numDraftTokens=10, .* got 9000",
        read,
        iteration(numDraftTokens=10, numAcceptedTokens=9, acceptanceLength=1.001, **uncounted),
    )
    refuses(beyond.format(2.6), read, iteration(acceptanceLength=2.6, **uncounted))
    nothing = "acceptanceLength is 2.5, but numAcceptedTokens=0 makes it 1"
    refuses(nothing, read, iteration(numAcceptedTokens=0, **uncounted))
    lacking = "specDecodingStats has none of numDraftTokens, .* found are .*numAcceptedTokens"
    refuses(lacking, read, iteration(numDraftTokens=None))
    refuses("none of specDecodingStats, .* the nearest found are specDecodeStats", read, {"specDecodeStats": {}})


def test_tensorrt_llm_metrics() -> None:
    text = (
        "trtllm_spec_decode_num_draft_tokens_total 300.0\ntrtllm_spec_decode_num_accepted_tokens_total 150.0\n"
        'trtllm_spec_decode_acceptance_length{model="m"} 2.5\ntrtllm_spec_decode_draft_overhead 0.1\n'
    )
    found = tensorrt_llm.from_metrics(text)
    assert (found.drafted, found.accepted, found.tau, found.drafts) == (300, 150, 2.5, None)
    assert "do not say how many cycles" in found.assumed[1]
    ranks = text + 'trtllm_spec_decode_acceptance_length{model="m",rank="1"} 0.0\n'
    assert tensorrt_llm.from_metrics(ranks).tau == 2.5
    assert (
        "1 of 2 gauges are 0, because their ranks are idle, and are left out"
        in tensorrt_llm.from_metrics(ranks).assumed
    )
    refuses("accepted=350 must be at most drafted=300", tensorrt_llm.from_metrics, text.replace("150.0", "350.0"))
    with pytest.raises(ValueError, match="none of trtllm_spec_decode_num_draft_tokens; the nearest"):
        tensorrt_llm.from_metrics(text.replace("num_draft_tokens", "draft_count"))
