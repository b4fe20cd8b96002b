"""One plan in every engine's own counting, and back."""

from __future__ import annotations

import ast
import json

import yaml
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import ChainRange, Envelope, eagle, sglang, tensorrt_llm, vllm
from tests.engines.examples import flag, schedules

envelopes = hs.builds(lambda k, levels: (k, levels), hs.integers(2, 8), hs.integers(1, 8)).flatmap(
    lambda shape: hs.builds(Envelope, hs.just(shape[1]), hs.just(shape[0]), hs.integers(1, shape[0] * shape[1]))
)
trees = (
    hs.integers(1, 25)
    .flatmap(lambda n: hs.tuples(*(hs.integers(0, u) for u in range(n))))
    .map(lambda parents: st.Tree([-1, *parents]))
)


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


@given(envelopes)
def test_envelopes_come_back(plan: Envelope) -> None:
    made = sglang.export(plan, version="0.5.15", algorithm="EAGLE", model="d")
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
    if tree.max_depth > 1 and tree.rank.max() < 10:
        made = eagle.export(tree, version="1")
        assert st.Tree.from_paths(ast.literal_eval(made.files["choices.py"].split(" = ")[1])) == same
