"""`spectheory plan --engine`: what is exported to engines."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

import spectheory as st
from spectheory.planning.schedule_record import Schedule
from tests.command_line import HEAD, MODEL, Run, refused, succeeded


def schedule_of(file: str) -> Schedule:
    return Schedule.load(file)


def test_heads_are_exported_to_the_engines_that_draft_with_them(plan: Run) -> None:
    result = plan(
        *HEAD, "--explain", "--engine", "vllm,sglang,trtllm,eagle,llama.cpp,eagle@1", "--out", "out/schedule.json"
    )
    assert result.exit_code == 0, result.output
    schedule = Schedule.load("out/schedule.json")
    tree, chain = schedule.ranges()[0][2], schedule.chain_ranges()[0][2].budget
    assert schedule.option(0).answer == "tree"
    repository = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    assert f'"method": "eagle3", "model": "{repository}", "num_speculative_tokens": {chain}' in result.stdout
    assert f"--speculative-draft-model-path {repository}" in result.stdout
    assert f'speculative_model: "{repository}"' in Path("out/speculative_config.yaml").read_text()
    assert f"--spec-type draft-eagle3 -md {repository}" in result.stdout
    assert "--speculative-algorithm EAGLE3" in result.stdout
    assert f"--spec-draft-n-max {chain} " in result.stdout
    choices = Path("out/choices.py").read_text().split(" = ")[1]
    assert st.Tree.from_paths(ast.literal_eval(choices)) == st.Tree.from_paths(tree.to_paths())
    settings = json.loads(Path("out/from_pretrained.json").read_text())
    flags = f"--speculative-num-steps {settings['depth'] + 1} --speculative-eagle-topk {settings['top_k']}"
    assert flags in result.stdout


def test_an_engine_that_cannot_does_not_keep_the_others_from_it(plan: Run) -> None:
    result = plan(*HEAD, "--explain", "--engine", "hf,eagle,mlx-lm,trtllm@1.3", "--out", "schedule.json")
    refused(
        result,
        "hf: the draft must be a whole model or n-gram lookup, got eagle3-llama-3.1-8b, by its name an EAGLE-3 head",
        "mlx-lm: the draft must be a whole model",
    )
    files = {path.name for path in Path().iterdir()} - {"acceptance.json", "latency.json", "slow.json", "schedule.json"}
    assert files == {"from_pretrained.json", "speculative_config.yaml"}
    assert "TensorRT-LLM takes, the longest at batch size 1: " in result.stdout
    refused(
        plan(*MODEL, "--engine", "trtllm"),
        "trtllm: the draft must be an EAGLE-3 head, a multi-token-prediction module or n-gram",
    )


def test_a_measured_plan_is_exported_with_the_draft_that_was_measured(plan: Run) -> None:
    named = st.Provenance.now("spectheory profile", draft="models/small")
    replace(st.Latency.load("latency.json"), provenance=named).save("named.json")
    result = succeeded(plan("--latency", "named.json", "--engine", "sglang,mlx-lm,eagle", "--out", "plan.json"))
    chosen = st.Schedule.load("plan.json")
    assert chosen.answer == "tree"
    assert f"--draft-model models/small --num-draft-tokens {chosen.chain.tree.budget}" in result.stdout
    assert "STANDALONE --speculative-draft-model-path models/small" in result.stdout
    as_json = plan("--latency", "named.json", "--engine", "sglang", "--json")
    assert json.loads(as_json.stdout)["kind"] == "schedule"
    assert "STANDALONE --speculative-draft-model-path models/small" in as_json.stderr
    unnamed = plan("--latency", "latency.json", "--engine", "hf,vllm")
    refused(unnamed, "vllm: the latency record does not name the draft model: name it with the argument draft")


@pytest.mark.parametrize(
    ("target", "hidden", "kind"),
    [("gpt-oss-20b", 2880, "sliding-window attention"), ("deepseek-v3", 7168, "multi-head latent attention")],
)
def test_tensorrt_llm_gets_no_tree_for_attention_that_it_cannot_grow_one_for(
    plan: Run, target: str, hidden: int, kind: str
) -> None:
    shapes = Path(st.__file__).parent / "data/models"
    head, config = (json.loads((shapes / f"{name}.json").read_text()) for name in ("eagle3-llama-3.1-8b", target))
    changed = {"vocab_size": config["vocab_size"], "tokenizer": config["tokenizer"], "target_hidden_size": hidden}
    Path("eagle3.json").write_text(json.dumps(head | changed))
    place = ("--gpu", "h200_sxm", "--gpus", 8, "--target", target, "--draft", "eagle3.json", "--batch", "64")
    result = succeeded(plan(*place, "--explain", "--engine", "trtllm,sglang", "--out", "schedule.json"))
    assert schedule_of("schedule.json").answer == "tree"
    assert "use_dynamic_tree" not in Path("speculative_config.yaml").read_text()
    notes = [line for line in result.stdout.splitlines() if line.startswith("  note: ")]
    lost = 1 - schedule_of("schedule.json").chain_speedups[0] / schedule_of("schedule.json").speedups[0]
    assert notes[0].endswith(f"longest at batch size 1: predicted {lost:.1%} slower at batch size 64 than the plan")
    assert notes[1] == "  note: batch sizes below 64 use the chain for batch size 64"
    assert (
        f"  note: only chains, because TensorRT-LLM drafts no trees for targets with {kind}, such as {target}" in notes
    )


def test_engines_that_draft_for_one_sequence_get_batch_size_1_alone(plan: Run) -> None:
    result = plan(*MODEL, "--batch", "1:64", "--engine", "hf,mlx-lm")
    assert result.stdout.count("note: for batch size 1: predicted ") == 2
    assert "; at batch sizes" not in result.stdout
    said = "it drafts only at batch size 1, the plan starts at 8: plan for batch size 1"
    refused(plan(*MODEL, "--batch", "8,16", "--engine", "hf,mlx-lm"), f"hf: {said}", f"mlx-lm: {said}")
