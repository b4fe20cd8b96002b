"""Exports to vLLM."""

from __future__ import annotations

import json
from typing import Any

import pytest

import spectheory as st
from spectheory.engines import ChainRange, Envelope, vllm
from tests.engines.examples import RANGES, TREE
from tests.refusals import refuses


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


@pytest.mark.parametrize(
    ("plan", "change", "message"),
    [
        (RANGES, {"version": "0.99"}, r"\(0.11 to 0.32\), got '0.99'"),
        (RANGES, {"version": "main"}, "got 'main'"),
        (RANGES, {"version": "0.23.0"}, r"single range for vLLM 0.23, got 3: .* needs 0.24 or newer \(PR #32374\)"),
        (TREE, {"version": "0.21"}, "vLLM 0.21, got a Tree: PR #42121 removed tree attention"),
        (TREE, {"version": "0.20", "method": "medusa"}, "method must be eagle or eagle3 for a tree, got 'medusa'"),
        (Envelope(3, 2, 6), {}, "plan must be a list of ChainRange for vLLM, got Envelope"),
        ([ChainRange(1, 8, 129)], {}, "length must be at most MAX_SPEC_LEN=128 of vLLM's sampler, got 129"),
        (st.Tree.k_ary(129, 1), {"version": "0.20"}, "nodes of the tree must be at most MAX_SPEC_LEN=128"),
        (RANGES[:1], {"method": "mlp_speculator"}, "method must be one of eagle, .* got 'mlp_speculator'"),
        (RANGES, {"method": "tree"}, "method must be one of eagle, .* or .*_mtp, got 'tree'"),
        (RANGES, {"model": None}, "model must name the draft for method='eagle3', got None"),
        (
            RANGES,
            {"method": "mtp", "model": None, "synthetic_rates": [0.5]},
            "synthetic_rates must have 5 entries, one for each position, got 1",
        ),
        (
            RANGES[:1],
            {"method": "mtp", "model": None, "synthetic_rates": [0.5] * 4 + [0.6]},
            r"synthetic_rates\[4\] must be a probability, and at most the entry before it, got 0.6",
        ),
        (
            RANGES[:1],
            {"version": "0.20", "method": "mtp", "model": None, "synthetic_rates": [0.5] * 5},
            "synthetic_rates must be None for vLLM 0.20",
        ),
        (
            st.Tree.chain(0),
            {"version": "0.20", "method": "eagle"},
            "tree must have a drafted node for vLLM, got the root alone",
        ),
    ],
)
def test_vllm_refuses_what_it_cannot_run(plan: Any, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"version": "0.32", "method": "eagle3", "model": "d"} | change
    refuses(message, vllm.export, plan, **given)


@pytest.mark.parametrize(
    ("method", "first"), [("suffix", 12), ("draft_model", 15), ("ngram_gpu", 18), ("dflash", 20), ("dspark", 25)]
)
def test_a_method_is_exported_from_the_version_on_that_runs_it(method: str, first: int) -> None:
    plan, model = [ChainRange(1, 8, 3)], "d" if method[0] == "d" else None
    assert f'"method": "{method}"' in vllm.export(plan, version=f"0.{first}.1", method=method, model=model).args[1]
    message = f"vLLM 0.{first - 1} runs .*eagle3.*, got '{method}', which needs 0.{first} or newer"
    refuses(message, vllm.export, plan, version=f"0.{first - 1}.0", method=method, model=model)
    for old in ("eagle", "eagle3", "medusa"):
        vllm.export(plan, version="0.11.0", method=old, model="d")
    for old in ("mtp", "ngram"):
        vllm.export(plan, version="0.11.0", method=old, model=None)
