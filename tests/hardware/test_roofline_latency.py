"""Tests of latencies that a roofline computes: their parts, their provenance, and what is refused."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import spectheory as st
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.roofline import Roofline
from tests.helpers import refuses
from tests.planning.test_confidence import PUBLISHED

COSTS = EngineCosts.of("vllm")
H100 = Roofline(gpu("h100_sxm"), costs=PUBLISHED)
PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
LARGE = {"target": "llama-3.1-70b", "draft": "llama-3.2-1b"}


def test_a_roofline_latency_is_the_sum_of_its_parts() -> None:
    latency = st.Latency.roofline(**PAIR, batch=8, context=2048)
    place = Roofline(gpu("h100_sxm"), batch=8, context=2048)
    assert latency.target(7, 2048) == pytest.approx(place.forward_seconds(model("llama-3.1-8b"), [7])[0])
    assert latency.draft(3, 2048) == pytest.approx(place.forward_seconds(model("eagle3-llama-3.1-8b"), [3])[0])
    assert latency.contexts.tolist() == [2048]
    plain = COSTS.step_seconds + 8 * COSTS.sequence_seconds
    assert latency.plain_overhead_seconds == pytest.approx(plain)
    more = COSTS.spec_step_seconds + 8 * COSTS.spec_sequence_seconds
    assert latency.overhead(st.Tree.chain(3)) == pytest.approx(plain + more + 3 * COSTS.level_seconds)
    costs = dataclasses.replace(PUBLISHED, step_seconds=2e-3, level_seconds=3e-4)
    slow = st.Latency.roofline(**PAIR, costs=costs)
    assert slow.overhead(st.Tree.chain(3)) == pytest.approx(2e-3 + 3 * 3e-4)
    assert st.Latency.from_dict(latency.to_dict()).to_dict() == latency.to_dict()
    acceptance = st.Acceptance.by_rank([0.7, 0.1])
    one, many = (st.plan(acceptance, st.Latency.roofline(**PAIR, batch=batch)) for batch in (1, 256))
    assert one.speedup > many.speedup >= 1
    assert one.tree.budget > many.tree.budget


def test_the_overhead_of_a_level_is_what_three_of_them_leave_of_the_fit() -> None:
    """2.135e-3 s for the drafting of a step, as three levels of the EAGLE head and what is outside its forward."""
    forward = H100.forward_seconds(model("eagle3-llama-3.1-8b"), [1])[0]
    latency = st.Latency.roofline(**PAIR, costs=PUBLISHED)
    assert 3 * (forward + latency.level_overhead_seconds) == pytest.approx(2.135e-3, rel=0.01)
    assert latency.overhead(st.Tree.chain(5)) == pytest.approx(1.207e-3 + 5 * 0.38e-3)
    assert latency.provenance.settings["level_seconds"] == 0.00038


def test_provenance_says_that_nothing_was_measured_and_what_the_engine_costs() -> None:
    costs = dataclasses.replace(PUBLISHED, bandwidth_share=0.7)
    stamp = st.Latency.roofline(**PAIR, batch=4, engine="sglang@0.5", costs=costs).provenance
    facts = stamp.facts
    assert {"h100_sxm", "llama-3.1-8b", "eagle3-llama-3.1-8b", 4, 1024, 0.7, 0.75, "sglang@0.5"} <= set(facts.values())
    assert {name: facts[name] for name in vars(costs)} == vars(costs)
    assert "the costs of the engine (sglang@0.5) were given" in stamp.assumptions
    (said,) = [one for one in st.Latency.roofline(**PAIR).provenance.assumptions if "costs of vllm" in one]
    assert re.search(r"\d+ of 29 numbers are fitted to \d+ sources", said)
    split = st.Latency.roofline(**PAIR, gpus=4, lengths=(64, 1)).provenance.facts
    assert (split["parallel"], split["prefill_tokens"]) == ("tensor", 64.0)
    assert "aiconfigurator" in str(facts["gpu_sources"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpu": "h100"}, "unknown GPU 'h100': did you mean h100_sxm, h100_nvl, h100_pcie"),
        ({"gpu": "abacus"}, "unknown GPU 'abacus': known names are a100_40, .*rtx5090"),
        ({"target": "lama-3.1-8b"}, "unknown model 'lama-3.1-8b': did you mean llama-3.1-8b"),
        ({"draft": {"model_type": "llama"}}, "the config lacks the field 'hidden_size'"),
        ({"batch": -1}, "batch must be between 1 and 1,000,000,000, got -1"),
        ({"batch": 1.5}, "batch must be a whole number"),
        ({"gpus": 0}, "gpus must be between 1 and"),
        ({"context": -5}, "context must be between 0 and 1,000,000,000, got -5"),
        ({"parallel": "x"}, "parallel must be Parallel, got 'x'"),
        (LARGE, r"need 143.9.* GB on each GPU, gpus=1 h100_sxm offers 72 GB \(90% of 80 GB\): gpus=2 fits, or"),
        ({"batch": 1000}, "batch up to 398 fits, gpus=4 fits, or a shorter context, a larger GPU or packed weights"),
        (
            {"context": 131073},
            "context must be at most the 131,072 positions of llama-3.1-8b, got 131,073: give a shorter",
        ),
        (
            {"draft": "qwen3-0.6b"},
            "the same vocabulary, got 128256 tokens of Llama 3 for llama-3.1-8b and 151936 tokens",
        ),
        (
            {"target": "deepseek-v3", "draft": "llama-3.2-1b"},
            "must have the same vocabulary, got 129280 tokens of DeepSeek-V3 for",
        ),
        ({"target": "eagle3-llama-3.1-8b"}, "is a head, not a model: name llama-3.1-8b, on which it was trained"),
        ({"gpu": None}, "gpu must be a name, such as h100_sxm, or a Gpu, got None"),
        ({"target": None}, "a model must be a shipped name, a path, or a config.json's contents, got None"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    refuses(message, st.Latency.roofline, **PAIR | change)


def test_prompts_beside_a_step_take_their_operations() -> None:
    """400 tokens of prompts for 4 of answers: 100 beside a plain step, tau times as many beside a cycle."""
    with_prompts = st.Latency.roofline(**PAIR, context=402, lengths=(400, 4))
    peak = 989e12 * COSTS.flops_share / COSTS.prefill_share / 100
    target, draft = (model(PAIR[which]).flops_per_token(0) / peak for which in ("target", "draft"))
    assert with_prompts.prompts(2.5) == pytest.approx(2.5 * (target + draft))
    chain = st.Tree.chain(3)
    cycle = with_prompts.cycle(chain, 402)
    assert cycle == st.Latency.roofline(**PAIR, context=402).cycle(chain, 402)
    expected = 2.5 * with_prompts.plain(402) / (cycle + 2.5 * (target + draft))
    assert with_prompts.speedup(chain, 2.5, 402) == pytest.approx(expected)


def test_levels_drafted_at_once_take_one_forward_and_one_overhead() -> None:
    latency = st.Latency.roofline(**PAIR | {"draft": "dflash"})
    tree = st.Tree([-1, 0, 0, 1, 1, 3])
    assert latency.draft_levels(tree, 1024) == latency.draft(3, 1024)
    assert latency.draft_levels(st.Tree.chain(0), 1024) == 0
    assert latency.overhead(tree) == pytest.approx(latency.overhead_seconds + latency.level_overhead_seconds)
    assert st.Latency.from_dict(latency.to_dict()).drafting == "at once"
    refuses("drafting must be Drafting, got 'never'", dataclasses.replace, latency, drafting="never")
