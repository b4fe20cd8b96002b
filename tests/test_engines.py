from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import (
    ChainRange,
    Envelope,
    eagle,
    hugging_face,
    llama_cpp,
    medusa,
    mlx_lm,
    sequoia,
    sglang,
    tensorrt_llm,
    vllm,
)
from spectheory.engines.names import missing
from spectheory.engines.shapes import schedule
from spectheory.engines.statistics import RANK_0_ONLY, Statistics, from_histograms

RANGES = [ChainRange(1, 16, 5), ChainRange(17, 64, 3), ChainRange(65, 512, 0)]
TREE = st.Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
TREE_PATHS = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]


@hs.composite
def schedules(draw: hs.DrawFn, *, longest_first: bool = False) -> list[ChainRange]:
    """At least two ranges that cover the batch sizes from 1 on, the lengths at most 32 and not all 0."""
    widths = draw(hs.lists(hs.integers(1, 40), min_size=2, max_size=6))
    lengths = draw(hs.lists(hs.integers(0, 32), min_size=len(widths), max_size=len(widths)).filter(any))
    if longest_first:
        lengths[0] = max(lengths)
    ends = np.cumsum(widths).tolist()
    return [ChainRange(end - width + 1, end, k) for end, width, k in zip(ends, widths, lengths, strict=True)]


envelopes = hs.builds(lambda k, levels: (k, levels), hs.integers(2, 8), hs.integers(1, 8)).flatmap(
    lambda shape: hs.builds(Envelope, hs.just(shape[1]), hs.just(shape[0]), hs.integers(1, shape[0] * shape[1]))
)
trees = (
    hs.integers(1, 25)
    .flatmap(lambda n: hs.tuples(*(hs.integers(0, u) for u in range(n))))
    .map(lambda parents: st.Tree([-1, *parents]))
)
chains = hs.lists(hs.floats(0.3, 1), min_size=1, max_size=6)
"""Rates of acceptance by depth."""


def chain_counts(rates: list[float], drafts: int) -> list[int]:
    """How often the first d + 1 of a chain were all accepted."""
    return [int(drafts * np.prod(rates[: d + 1])) for d in range(len(rates))]


def flag(export: Any, name: str) -> str:
    return export.args[export.args.index(name) + 1]


# ---------------------------------------------------------------- shapes


def test_the_shapes_check_themselves() -> None:
    assert Envelope(levels=3, branching=2, nodes=10).pool == 2 + 2 * 4
    assert [r.length for r in schedule(RANGES[::-1])] == [5, 3, 0]
    for make, message in [
        (lambda: Envelope(3, 2, 11), r"nodes must be at most .* = 10, .* levels=3 and branching=2, got 11"),
        (lambda: Envelope(0, 2, 1), "levels must be at least 1, got 0"),
        (lambda: Envelope(1, 2, 1.5), "nodes must be a whole number, got 1.5"),  # pyright: ignore[reportArgumentType]
        (lambda: ChainRange(5, 4, 1), "last_batch must be at least first_batch=5, got 4"),
        (lambda: ChainRange(1, 4, -1), "length must be at least 0, got -1"),
        (lambda: schedule([]), "ranges must hold at least one ChainRange, got none"),
        (lambda: schedule([ChainRange(2, 4, 1)]), "ranges must cover every batch size from 1 on once: .* start at 1"),
        (lambda: schedule([ChainRange(1, 4, 1), ChainRange(6, 8, 0)]), "should start at 5"),
        (lambda: schedule([ChainRange(1, 4, 1), ChainRange(4, 8, 0)]), "should start at 5"),
        (lambda: schedule([ChainRange(1, 4, 0)]), "got length 0 throughout: leave speculation out"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


# ---------------------------------------------------------------- off by one (engines.md 1.8), one plan everywhere


def test_one_plan_in_the_counting_of_each_engine() -> None:
    levels, branching, nodes = 4, 3, 11
    plan, chain = Envelope(levels, branching, nodes), [ChainRange(1, 8, levels)]
    flags = sglang.export(plan, version="0.5.23", algorithm="EAGLE3", model="d")
    assert flag(flags, "--speculative-num-steps") == "4"
    assert flag(flags, "--speculative-eagle-topk") == "3"
    assert flag(flags, "--speculative-num-draft-tokens") == "12", "SGLang counts the root"
    tree = yaml.safe_load(tensorrt_llm.export(plan, version="1.4.0rc1", model="d").files["speculative_config.yaml"])
    assert tree["speculative_config"]["max_draft_len"] == 4
    assert tree["speculative_config"]["dynamic_tree_max_topK"] == 3
    assert tree["speculative_config"]["max_total_draft_tokens"] == 11, "TensorRT-LLM does not count the root"
    settings = json.loads(eagle.export(plan, version="3").files["from_pretrained.json"])
    assert settings == {"total_token": 12, "depth": 3, "top_k": 3}, "EAGLE counts the root, and not the first level"
    config = json.loads(flag(vllm.export(chain, version="0.32.0", method="eagle3", model="d"), "--speculative-config"))
    assert config["num_speculative_tokens"] == 4
    assert (
        json.loads(hugging_face.export(4, version="5.23.0").files["generation_config.json"])["num_assistant_tokens"]
        == 4
    )
    assert flag(llama_cpp.export(4, version="b11000"), "--spec-draft-n-max") == "4"
    assert flag(mlx_lm.export(4, version="0.32.2", model="d"), "--num-draft-tokens") == "4"
    static = sglang.export(chain, version="0.5.12", algorithm="EAGLE", model=None)
    assert static.args[2:] == (
        *("--speculative-num-steps", "4", "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", "5"),
    )


# ---------------------------------------------------------------- golden texts


def test_golden_vllm() -> None:
    made = vllm.export(RANGES, version="v0.32.0", method="eagle3", model="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    assert made.command == (
        """--speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", """
        """"num_speculative_tokens": 5, """
        """"num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 64, 3], [65, 512, 0]]}'"""
    )
    assert any("#49548" in note for note in made.notes)
    rated = vllm.export([ChainRange(1, 8, 2)], version="0.21.0", method="mtp", model=None, synthetic_rates=[0.9, 0.5])
    assert json.loads(rated.args[1]) == {
        "method": "mtp",
        "num_speculative_tokens": 2,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.9, 0.5],
    }
    tree = vllm.export(TREE, version="0.20.1", method="eagle", model="d")
    assert json.loads(tree.args[1]) == {
        "method": "eagle",
        "model": "d",
        "num_speculative_tokens": 6,
        "speculative_token_tree": "[(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]",
    }
    assert "verifies a chain only (#20401" in tree.notes[0]
    assert "prompt_lookup_max" in vllm.export(RANGES[:1], version="0.32", method="ngram", model=None).notes[-1]


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
    assert "goes on with 0 tokens" in old.notes[0]
    assert "above batch size 64" in new.notes[0]


def test_golden_eagle_medusa_and_the_chains() -> None:
    assert eagle.export(TREE, version="1").files["choices.py"] == (
        "spectheory_6 = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]\n"
    )
    assert medusa.choices(TREE) == TREE_PATHS
    assert "[0, 0, 0]]" in medusa.export(TREE, version="1.0", heads=3).files["choices.py"]
    assert hugging_face.export(4, version="5.23.0").files["generation_config.json"] == (
        '{\n "num_assistant_tokens": 4,\n "num_assistant_tokens_schedule": "constant",\n'
        ' "assistant_confidence_threshold": 0.0\n}\n'
    )
    assert llama_cpp.export(6, version="b9085").command == "--spec-draft-n-max 6 --spec-draft-p-min 0"
    assert mlx_lm.export(3, version="0.32.2", model="a b").command == "--draft-model 'a b' --num-draft-tokens 3"


# ---------------------------------------------------------------- round trips


@given(schedules())
def test_schedules_come_back_from_vllm_and_sglang(ranges: list[ChainRange]) -> None:
    config = json.loads(vllm.export(ranges, version="0.24", method="eagle3", model="d").args[1])
    assert [ChainRange(*row) for row in config["num_speculative_tokens_per_batch_size"]] == ranges
    assert config["num_speculative_tokens"] == max(r.length for r in ranges)
    made = sglang.export(ranges, version="0.5.23", algorithm="EAGLE3", model="d")
    tiers = {int(key): entry["candidate_steps"] for key, entry in json.loads(made.files["adaptive.json"]).items()}
    for item in ranges:
        for batch in (item.first_batch, item.last_batch):
            assert tiers[max(key for key in tiers if key <= batch)] == [item.length]
    assert int(flag(made, "--speculative-num-steps")) in {steps for (steps,) in tiers.values()}, "SGLang demands it"


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


@given(envelopes)
def test_envelopes_come_back(plan: Envelope) -> None:
    made = sglang.export(plan, version="0.5.12", algorithm="EAGLE", model="d")
    flags = [int(flag(made, f"--speculative-{name}")) for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
    assert Envelope(flags[0], flags[1], flags[2] - 1) == plan
    settings = json.loads(eagle.export(plan, version="2").files["from_pretrained.json"])
    assert Envelope(settings["depth"] + 1, settings["top_k"], settings["total_token"] - 1) == plan
    if plan.nodes >= plan.levels:
        text = tensorrt_llm.export(plan, version="1.3", model="d").files["speculative_config.yaml"]
        config = yaml.safe_load(text)["speculative_config"]
        names = ("max_draft_len", "dynamic_tree_max_topK", "max_total_draft_tokens")
        assert Envelope(*(config[name] for name in names)) == plan


@given(trees)
def test_static_trees_come_back(tree: st.Tree) -> None:
    same = st.Tree.from_paths(tree.to_paths())
    assert st.Tree.from_paths(medusa.choices(tree)) == same
    config = json.loads(vllm.export(tree, version="0.20", method="eagle", model="d").args[1])
    assert st.Tree.from_paths(ast.literal_eval(config["speculative_token_tree"])) == same
    assert config["num_speculative_tokens"] == tree.budget
    if tree.max_depth > 1 and tree.rank.max() < 10:
        text = eagle.export(tree, version="1").files["choices.py"]
        assert st.Tree.from_paths(ast.literal_eval(text.split(" = ")[1])) == same
        stored = yaml.safe_load(tensorrt_llm.export(tree, version="1.3", model="d").files["speculative_config.yaml"])
        assert st.Tree.from_paths(stored["speculative_config"]["eagle_choices"]) == same


@pytest.mark.parametrize("model", ["yes", "a: b", "#x", "null", "C:\\model", '"', "päth/1.0"])
def test_any_model_name_survives_yaml(model: str) -> None:
    text = tensorrt_llm.export(RANGES, version="1.3", model=model).files["speculative_config.yaml"]
    assert yaml.safe_load(text)["speculative_config"]["speculative_model"] == model


# ---------------------------------------------------------------- refusals of plans


def refusal(call: Any, message: str) -> Any:
    return pytest.param(call, message, id=message[:60])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        refusal(
            lambda: vllm.export(RANGES, version="0.99", method="eagle3", model="d"), r"\(0.11 to 0.32\), got '0.99'"
        ),
        refusal(lambda: vllm.export(RANGES, version="main", method="eagle3", model="d"), "got 'main'"),
        refusal(
            lambda: vllm.export(RANGES, version="0.23.0", method="eagle3", model="d"),
            r"single range for vLLM 0.23, got 3: .* came with 0.24 \(PR #32374\)",
        ),
        refusal(
            lambda: vllm.export(TREE, version="0.21", method="eagle3", model="d"),
            "vLLM 0.21, got a tree: PR #42121 removed tree attention",
        ),
        refusal(
            lambda: vllm.export(TREE, version="0.20", method="medusa", model="d"),
            "method must be eagle or eagle3 for a tree, got 'medusa'",
        ),
        refusal(
            lambda: vllm.export(Envelope(3, 2, 6), version="0.32", method="eagle3", model="d"),
            "plan must be ranges of chains for vLLM, got Envelope",
        ),
        refusal(
            lambda: vllm.export([ChainRange(1, 8, 33)], version="0.32", method="eagle3", model="d"),
            "length must be at most MAX_SPEC_LEN=32 of vLLM's sampler, got 33",
        ),
        refusal(
            lambda: vllm.export(st.Tree.k_ary(33, 1), version="0.20", method="eagle3", model="d"),
            "nodes of the tree must be at most MAX_SPEC_LEN=32",
        ),
        refusal(
            lambda: vllm.export(RANGES, version="0.32", method="tree", model="d"),
            "method must be one of eagle, .* or .*_mtp, got 'tree'",
        ),
        refusal(
            lambda: vllm.export(RANGES, version="0.32", method="eagle3", model=None),
            "model must name the draft for method='eagle3', got None",
        ),
        refusal(
            lambda: vllm.export(RANGES, version="0.32", method="mtp", model=None, synthetic_rates=[0.5]),
            "synthetic_rates must have 5 entries, one for each position, got 1",
        ),
        refusal(
            lambda: vllm.export(
                RANGES[:1], version="0.32", method="mtp", model=None, synthetic_rates=[0.5] * 4 + [0.6]
            ),
            r"synthetic_rates\[4\] must be a probability and not above the one before, got 0.6",
        ),
        refusal(
            lambda: vllm.export(RANGES[:1], version="0.20", method="mtp", model=None, synthetic_rates=[0.5] * 5),
            "synthetic_rates must be None for vLLM 0.20",
        ),
        refusal(
            lambda: vllm.export(st.Tree.chain(0), version="0.20", method="eagle", model="d"),
            "tree must have a drafted node for vLLM, got the root alone",
        ),
        refusal(
            lambda: sglang.export(RANGES, version="0.6.0", algorithm="EAGLE3", model="d"),
            r"of SGLang .* \(0.5.12 to 0.5.23\), got '0.6.0'",
        ),
        refusal(
            lambda: sglang.export(RANGES, version="0.5.14", algorithm="EAGLE3", model="d"),
            r"SGLang 0.5.14, got 3: .* that of 0.5.15 does \(PR #24055\)",
        ),
        refusal(
            lambda: sglang.export(RANGES, version="0.5.23", algorithm="STANDALONE", model="d"),
            "algorithm must be EAGLE or EAGLE3 for chains by batch size, got 'STANDALONE'",
        ),
        refusal(
            lambda: sglang.export(RANGES, version="0.5.23", algorithm="NGRAM", model="d"),
            "algorithm must be one of EAGLE, .*, got 'NGRAM'",
        ),
        refusal(
            lambda: sglang.export(Envelope(4, 1, 3), version="0.5.23", algorithm="EAGLE3", model="d"),
            "nodes must be levels=4 for branching=1, got 3: with topk 1 SGLang verifies steps",
        ),
        refusal(
            lambda: sglang.export(TREE, version="0.5.23", algorithm="EAGLE3", model="d"),
            "plan must be an envelope or ranges for SGLang, got a tree",
        ),
        refusal(
            lambda: sglang.export([3], version="0.5.23", algorithm="EAGLE3", model="d"),  # pyright: ignore[reportArgumentType]
            "plan must be an Envelope or a list of ChainRange, got list",
        ),
        refusal(
            lambda: tensorrt_llm.export(RANGES, version="0.20", model="d"),
            r"of TensorRT-LLM .* \(1.2, 1.3, 1.4\), got '0.20'",
        ),
        refusal(
            lambda: tensorrt_llm.export(Envelope(3, 4, 15), version="1.3", model="d"),
            "nodes must be between levels=3 and branching . levels=12 for TensorRT-LLM, got 15",
        ),
        refusal(
            lambda: tensorrt_llm.export(Envelope(3, 4, 2), version="1.3", model="d"),
            "nodes must be between levels=3",
        ),
        refusal(
            lambda: tensorrt_llm.export(Envelope(3, 4, 8), version="1.2", model="d"),
            r"TensorRT-LLM 1.2, got an envelope: dynamic trees came with 1.3 \(PR #13081\)",
        ),
        refusal(
            lambda: tensorrt_llm.export(TREE, version="1.4.0rc1", model="d"),
            "TensorRT-LLM 1.4, got a static tree: PR #18210 removed eagle_choices",
        ),
        refusal(
            lambda: tensorrt_llm.export(st.Tree.k_ary(3, 1), version="1.3", model="d"),
            r"tree must be at least 2 deep for TensorRT-LLM, got depth 1: .*\(#10323\)",
        ),
        refusal(
            lambda: tensorrt_llm.export([ChainRange(1, 4, 2), ChainRange(5, 8, 3)], version="1.3", model="d"),
            "length of the first range must be the longest, 3, got 2",
        ),
        refusal(
            lambda: tensorrt_llm.export("tree", version="1.3", model="d"),  # pyright: ignore[reportArgumentType]
            "plan must be an Envelope, a Tree or a list of ChainRange, got str",
        ),
        refusal(lambda: eagle.export(TREE, version="3"), "plan must be an Envelope for EAGLE-3, got Tree"),
        refusal(lambda: eagle.export(Envelope(3, 4, 8), version="1"), "plan must be a Tree for EAGLE-1, got Envelope"),
        refusal(lambda: eagle.export(TREE, version="4"), r"of EAGLE .* \(1, 2, 3\), got '4'"),
        refusal(lambda: eagle.export(st.Tree.k_ary(2, 1), version="1"), "at least 2 deep for EAGLE-1, got depth 1"),
        refusal(
            lambda: eagle.export(st.Tree([-1, *[0] * 11, 1]), version="1"),
            "at most TOPK=10 children at a node for EAGLE-1, got 11",
        ),
        refusal(
            lambda: medusa.export(TREE, version="1.0", heads=2),
            "tree must be at most heads=2 deep for Medusa, got depth 3",
        ),
        refusal(lambda: hugging_face.export(0, version="5.23"), "length must be a whole number of at least 1, got 0"),
        refusal(lambda: hugging_face.export(3, version="4.57"), r"of transformers .* \(5.23\), got '4.57'"),
        refusal(lambda: llama_cpp.export(3, version="b8000"), r"of llama.cpp .* \(9085 to 11382\), got 'b8000'"),
        refusal(lambda: mlx_lm.export(3, version="0.20", model="d"), r"of mlx-lm .* \(0.32\), got '0.20'"),
    ],
)
def test_refuses_what_an_engine_cannot_run(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- vLLM statistics

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


def acceptance(statistics: Statistics) -> st.Acceptance:
    assert statistics.acceptance is not None
    return statistics.acceptance


@pytest.mark.parametrize("text", [PROMETHEUS, PROMETHEUS.replace("_total", "")], ids=["total", "without total"])
def test_vllm_counters(text: str) -> None:
    found = vllm.from_prometheus(text)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (1000, 3000, 1500, 2.5)
    assert acceptance(found).table.ravel().tolist() == [0.8, 500 / 800, 200 / 500]
    assert acceptance(found).trials is not None
    assert acceptance(found).trials.tolist() == [1000, 800, 500]  # pyright: ignore[reportOptionalMemberAccess]
    assert found.assumed[0] == RANK_0_ONLY
    assert "2 label sets are summed: engine=0, model_name=m, {x}; engine=1" in found.assumed[1]
    assert "position 2 is taken for all deeper ones" in found.assumed[2]


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
    assert found.tau is not None
    if len(table) == len(rates):
        assert st.block_efficiency(chain, acceptance(found)) == pytest.approx(found.tau)


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
        ("_pos_total{", "_pos_total{x=", "must have positions|must have a label position"),
        ("1200.0", "-1200", "must be a count, got -1200"),
        ("1200.0", "NaN", "must be a finite number, got nan"),
    ],
)
def test_vllm_counters_that_cannot_be_read(old: str, new: str, message: str) -> None:
    text = PROMETHEUS.replace('position="0"', 'place="0"') if new == "_pos_total{x=" else PROMETHEUS.replace(old, new)
    with pytest.raises(ValueError, match=message):
        vllm.from_prometheus(text)


def test_counts_that_rise_and_too_few_counts_are_refused() -> None:
    risen = PROMETHEUS.replace('position="1"} 300', 'position="1"} 700').replace(
        '_tokens_total{engine="0",model_name="m, {x}"} 900', '_tokens_total{engine="0",model_name="m, {x}"} 1300'
    )
    with pytest.raises(ValueError, match="position 1 has 900 accepted, but position 0 has 800: .* must not rise"):
        vllm.from_prometheus(risen)
    with pytest.raises(ValueError, match=r"trials\[0\] is 1000, fewer than min_trials=2000"):
        vllm.from_prometheus(PROMETHEUS, min_trials=2000)
    idle = "".join(f"{line.rsplit(' ', 1)[0]} 0.0\n" for line in PROMETHEUS.splitlines() if line[0] != "#")
    with pytest.raises(ValueError, match="vllm has drafted nothing yet: drafts=0, drafted=0"):
        vllm.from_prometheus(idle)


def test_drafts_of_mixed_lengths_are_named_in_what_is_assumed() -> None:
    found = vllm.from_prometheus(PROMETHEUS.replace("} 1200.0", "} 800.0"))
    assert "2.6 tokens were drafted a cycle for 3 positions: one that was not drafted counts as refused" in str(
        found.assumed
    )


LOG = (
    "(APIServer pid=347228) INFO 08-04 20:51:08 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.49, "
    "Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: 92 tokens, Drafted: 259 tokens, "
    "Per-position acceptance rate: 0.757, 0.622, 0.432, 0.324, 0.189, 0.108, 0.054, Avg Draft acceptance rate: 35.5%"
)


def test_vllm_log_line() -> None:
    found = vllm.from_log_line(LOG, min_trials=1)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (37, 259, 92, 3.49)
    assert acceptance(found).hits is not None
    assert acceptance(found).hits[:, 0].tolist() == [28, 23, 16, 12, 7, 4, 2]  # pyright: ignore[reportOptionalSubscript]
    short = "SpecDecoding metrics: Mean acceptance length: 2.40, Per-position acceptance rate: 0.800, 0.600"
    rates = vllm.from_log_line(short)
    assert acceptance(rates).table.ravel().tolist() == pytest.approx([0.8, 0.75])
    assert (rates.drafts, rates.accepted, acceptance(rates).trials) == (None, None, None)


@given(chains, hs.integers(1, 5000))
def test_log_lines_give_back_their_counts(rates: list[float], drafts: int) -> None:
    counts, k = chain_counts(rates, drafts), len(rates)
    accepted, printed = sum(counts), ", ".join(f"{n / drafts:.3f}" for n in counts)
    line = (
        f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted: {accepted} tokens, "
        f"Drafted: {drafts * k} tokens, Per-position acceptance rate: {printed}, "
        f"Avg Draft acceptance rate: {100 * accepted / (drafts * k):.1f}%"
    )
    found = vllm.from_log_line(line, min_trials=1)
    assert (found.accepted, found.drafted) == (sum(counts), drafts * k)
    assert found.drafts == drafts
    kept = acceptance(found).hits
    assert kept is not None
    assert np.all(np.abs(kept[:, 0] - counts[: len(kept)]) <= 0.001 * drafts), "exact below 1000 cycles"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Mean acceptance length", "Mean accepted length", "the line has none of Mean acceptance length"),
        ("3.49", "4.49", "mean acceptance length is 4.49, but 1 . the sum of the rates makes it 3.486"),
        ("0.622", "0.822", "rate of position 1 is 0.822, but must be at most that of position 0, 0.757"),
        ("35.5%", "45.5%", "in % is 45.5, but Accepted / Drafted makes it 35.52"),
        ("Accepted: 92", "Accepted: 592", "in % is 35.5"),
        ("92 tokens, Drafted: 259", "96 tokens, Drafted: 270", "accepted=96 of drafted=270, tau=3.49 .* fit no number"),
        ("INFO", LOG, "must be a single one, got 2 of Mean acceptance length"),
    ],
)
def test_log_lines_that_contradict_themselves(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vllm.from_log_line(LOG.replace(old, new))


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"acceptance_histogram": None, "accept_histogram": [1]},
            "none of acceptance_histogram; .* found are acceptance_h",
        ),
        ({"num_spec_steps": 44}, "num_spec_steps is 44, but acceptance_histogram makes it 43"),
        ({"num_accepted_draft_tokens": 11}, "num_accepted_draft_tokens is 11, but acceptance_histogram makes it 10"),
        ({"mean_acceptance_length": 1.5}, "mean_acceptance_length is 1.5, but acceptance_histogram makes it 1.23256"),
        ({"num_draft_tokens": 9}, "accepted=10 must be at most drafted=9"),
        ({"acceptance_histogram_by_draft_length": {"3": [39, 2, 0, 2]}}, "by_draft_length is 8, but .* makes it 10"),
        ({"acceptance_histogram": [39, -1, 0, 3]}, r"acceptance_histogram\[1\] must be a count, got -1"),
        ({"acceptance_histogram": 3}, "acceptance_histogram must be a list of counts, got 3"),
        ({"acceptance_histogram_by_draft_length": {"2": [39, 1, 0, 3]}}, r"length\[2\] must have 3 entries, got 4"),
    ],
)
def test_request_metrics_that_cannot_be_read(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vllm.from_request_metrics(REQUEST | change, min_trials=1)


@given(hs.dictionaries(hs.integers(1, 5), hs.lists(hs.integers(0, 50), min_size=6, max_size=6), min_size=1))
def test_histograms_count_every_cycle_at_every_position_it_drafted(rows: dict[int, list[int]]) -> None:
    by_length = {k: row[: k + 1] for k, row in rows.items()}
    hits, trials = from_histograms(by_length)
    for d in range(max(by_length)):
        cycles = [(k, j) for k, row in by_length.items() for j, n in enumerate(row) for _ in range(n)]
        assert trials[d] == sum(k > d and j >= d for k, j in cycles)
        assert hits[d] == sum(k > d and j > d for k, j in cycles)


# ---------------------------------------------------------------- SGLang statistics

NEW = {
    "id": "a",
    "completion_tokens": 252,
    "spec_verify_ct": 100,
    "spec_num_correct_drafts": 150,
    "spec_num_proposed_drafts": 300,
    "spec_accept_length": 2.52,
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
    assert "15 tokens were drafted a cycle, but only 3 positions" in str(sglang.from_meta_info(tree).assumed)
    mtp = {"spec_verify_ct": 200, "spec_num_correct_drafts": 150, "spec_num_proposed_drafts": 200}
    assert acceptance(sglang.from_meta_info(mtp)).table.tolist() == [[0.75]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec_num_correct_drafts": 151}, "spec_num_correct_drafts is 151, but the histogram makes it 150"),
        ({"spec_verify_ct": 99}, "spec_verify_ct is 99, but the histogram makes it 100"),
        ({"spec_accepted_drafts": 140}, "spec_num_correct_drafts=150 and spec_accepted_drafts=140 are one statistic"),
        ({"spec_num_proposed_drafts": 100}, "accepted=150 must be at most drafted=100"),
        ({"spec_accept_length": 3.5}, "spec_accept_length is 3.5, but 1 . accepted / cycles, .* makes it 2.5"),
        ({"spec_verify_ct": 0, "spec_correct_drafts_histogram": None}, "sglang has drafted nothing yet"),
        ({"spec_verify_ct": None, "spec_correct_drafts_histogram": None}, "meta_info has none of spec_verify_ct"),
    ],
)
def test_sglang_meta_info_that_contradicts_itself(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sglang.from_meta_info(NEW | change)


def wrong(data: Any) -> Any:
    """`data`, its type hidden from the type checker."""
    return data


def test_what_is_not_a_dictionary_is_refused() -> None:
    for call, message in [
        (lambda: sglang.from_meta_info(wrong(["a"])), "data must be a dictionary, got str: parse the JSON first"),
        (lambda: sglang.from_meta_info({"meta_info": 3}), "meta_info must be a dictionary, got int"),
        (lambda: vllm.from_request_metrics(wrong([REQUEST])), "data must be a dictionary, got list"),
        (lambda: tensorrt_llm.from_iteration_stats(wrong([3])), "data must be a dictionary, got int"),
        (lambda: sglang.from_bench_speculative("{"), "line 1 must be JSON, got '{'"),
        (lambda: sglang.from_bench_speculative("\n3"), "line 2 must be a dictionary, got int"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_sglang_fails_loudly_when_no_known_name_is_there() -> None:
    with pytest.raises(ValueError, match="none of spec_verify_ct, .* the nearest found are spec_verify_count"):
        sglang.from_meta_info({"spec_verify_count": 3, "spec_correct": 4})
    with pytest.raises(ValueError, match="nothing found has a name like these"):
        sglang.from_meta_info({"id": "a"})
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
    for old, new, message in [
        ("2.5", "4.5", "accept_length is 4.5, more than sglang:spec_num_draft_tokens=4"),
        ("2.5", "0", "nothing has been verified yet"),
        ("2.5", "0.4", "tau must be at least 1, the token of the target itself, got 0.4"),
        ("accept_length", "acceptance_length", "none of sglang:spec_accept_length; .* sglang:spec_acceptance_length"),
    ]:
        with pytest.raises(ValueError, match=message):
            sglang.from_metrics(SGLANG_METRICS.replace(old, new))


BENCH = """\
{"batch_size": 1, "steps": 0, "topk": 0, "num_draft_tokens": 0, "acc_length": 1.0, "step_time": 0.01, "speed": 100.0, "completion_tokens": 512.0}
{"batch_size": 1, "steps": 3, "topk": 4, "num_draft_tokens": 8, "acc_length": 2.5, "step_time": 0.0125, "speed": 200.0, "completion_tokens": 512.0}

{"batch_size": 8, "steps": 3, "topk": 1, "num_draft_tokens": 2, "acc_length": 2.2, "step_time": 0.02, "speed": 110.0, "completion_tokens": 512.0}
"""  # noqa: E501


def test_sglang_bench_speculative() -> None:
    plain, tree, chain = sglang.from_bench_speculative(BENCH)
    assert (plain.envelope, plain.tau, plain.tokens_per_second) == (None, 1.0, 100.0)
    assert (tree.envelope, tree.tau, tree.step_seconds) == (Envelope(3, 4, 7), 2.5, 0.0125)
    assert (chain.envelope, chain.batch_size) == (Envelope(3, 1, 3), 8), "with topk 1 SGLang verifies steps + 1"
    for old, new, message in [
        ("200.0", "300.0", "line 2: speed is 300, but acc_length / step_time makes it 200"),
        ('"acc_length": 2.5', '"accept_length": 2.5', "line 2 has none of acc_length; the nearest found are accept_l"),
        ('"step_time": 0.0125', '"step_time": 0', "line 2 must have batch_size >= 1, step_time > 0"),
        ('"num_draft_tokens": 8', '"num_draft_tokens": 64', "nodes must be at most"),
    ]:
        with pytest.raises(ValueError, match=message):
            sglang.from_bench_speculative(BENCH.replace(old, new))


# ---------------------------------------------------------------- TensorRT-LLM, llama.cpp, Sequoia

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
    for data, message in [
        (iteration(numAcceptedTokens=25), "numAcceptedTokens=25 must be at most numDraftTokens=24"),
        (iteration(acceptanceLength=3.5), "acceptanceLength is 3.5, but 1 . numAcceptedTokens / requests makes it 2.5"),
        (
            iteration(numDraftTokens=None),
            "specDecodingStats has none of numDraftTokens, .* found are .*numAcceptedTokens",
        ),
        ({"specDecodeStats": {}}, "none of specDecodingStats, .* the nearest found are specDecodeStats"),
    ]:
        with pytest.raises(ValueError, match=message):
            tensorrt_llm.from_iteration_stats(data)


def test_tensorrt_llm_metrics() -> None:
    text = (
        "trtllm_spec_decode_num_draft_tokens_total 300.0\ntrtllm_spec_decode_num_accepted_tokens_total 150.0\n"
        'trtllm_spec_decode_acceptance_length{model="m"} 2.5\ntrtllm_spec_decode_draft_overhead 0.1\n'
    )
    found = tensorrt_llm.from_metrics(text)
    assert (found.drafted, found.accepted, found.tau, found.drafts) == (300, 150, 2.5, None)
    assert "do not say how many cycles" in found.assumed[1]
    with pytest.raises(ValueError, match="accepted=350 must be at most drafted=300"):
        tensorrt_llm.from_metrics(text.replace("150.0", "350.0"))
    with pytest.raises(ValueError, match="none of trtllm_spec_decode_num_draft_tokens; the nearest"):
        tensorrt_llm.from_metrics(text.replace("num_draft_tokens", "draft_count"))


SLOT = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
)
SERVER = (
    "statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, #gen drafts =     87, #acc drafts =    70, "
    "#gen tokens =    259, #acc tokens =   167, #mean acc len = 2.92, #acc rate/pos = (0.805, 0.632, 0.483), "
    "dur(b,g,a) = 0.005, 325.555, 0.114 ms"
)
OLD_SERVER = "statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98"


@pytest.mark.parametrize("line", [SLOT, SERVER], ids=["request", "server"])
def test_llama_cpp_log(line: str) -> None:
    found = llama_cpp.from_log_line(line, min_trials=1)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (87, 259, 167, 2.92)
    assert acceptance(found).hits is not None
    assert acceptance(found).hits[:, 0].tolist() == [70, 55, 42]  # pyright: ignore[reportOptionalSubscript]


def test_llama_cpp_log_before_positions() -> None:
    found = llama_cpp.from_log_line(OLD_SERVER)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (10, 110, 98, 10.8)
    slot = llama_cpp.from_log_line("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)")
    assert (slot.drafts, slot.drafted, slot.accepted, slot.tau) == (None, 297, 171, None)
    for text, message in [
        (OLD_SERVER.replace("#acc drafts = 10", "#acc drafts = 11"), "#gen drafts=10, #acc drafts=11, .* contradict"),
        (SLOT.replace("0.64479", "0.7"), "draft acceptance is 0.7, but accepted / generated makes it 0.644788"),
        (SLOT.replace("0.632", "0.9"), "rate of position 1 is 0.9, but must be at most that of position 0, 0.805"),
        (SLOT.replace("2.92", "3.92"), "mean acceptance length is 3.92, but"),
        (SLOT + "\n" + SERVER, "text must hold one line of statistics, got 2"),
        ("draft acceptance ratio = 0.5", "the log has none of draft acceptance, .* found are draft acceptance ratio"),
    ]:
        with pytest.raises(ValueError, match=message):
            llama_cpp.from_log_line(text)


def test_sequoia_vectors(tmp_path: Path) -> None:
    measured = [0.0, 0.6, 0.2, 0.05, 0.15]
    for vector in (measured, measured[:-1], measured[1:], measured[1:-1], np.array(measured, np.float32)):
        assert acceptance(sequoia.from_vector(vector)).table[0].tolist() == pytest.approx([0.6, 0.2, 0.05], abs=1e-6)
    assert "the last entry, 0.15, is how often no child was accepted" in sequoia.from_vector(measured).assumed[-1]
    assert sequoia.from_vector([1.0]).acceptance is not None
    np.save(tmp_path / "v.npy", np.array(measured))
    (tmp_path / "v.csv").write_text("0,0.6, 0.2\n0.05,0.15\n")
    for name in ("v.npy", "v.csv"):
        assert acceptance(sequoia.from_file(tmp_path / name)).ranks == 3
    (tmp_path / "bad.txt").write_text("0.6 half")
    for call, message in [
        (lambda: sequoia.from_vector([0.6, 0.6]), r"table\[0\] must sum to at most 1 .*, got 1.2"),
        (lambda: sequoia.from_vector(np.array([[0.6]])), "vector must be a row of rates, got shape"),
        (
            lambda: sequoia.from_file("a/acceptance-rate-vector.pt"),
            "PyTorch's .pt, which only torch reads, .*numpy.save",
        ),
        (lambda: sequoia.from_file(tmp_path / "bad.txt"), "must hold numbers alone that are rates: .*half"),
        (lambda: sequoia.from_file("v.json"), "path must end in .npy, .csv or .txt, got v.json"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@given(hs.lists(hs.floats(0.01, 1), min_size=2, max_size=8))
def test_a_vector_as_sequoia_saves_it_gives_back_its_rates(weights: list[float]) -> None:
    shares = np.array(weights) / sum(weights)
    found = acceptance(sequoia.from_vector(np.concatenate([[0], shares]).astype(np.float32)))
    assert found.table[0] == pytest.approx(shares[:-1], abs=1e-6)
