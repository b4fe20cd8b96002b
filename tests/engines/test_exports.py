"""What each engine gets for a plan: golden settings, the settings of each family of drafts, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given

import spectheory as st
from spectheory.engines import ChainRange, Envelope, eagle, hugging_face, llama_cpp, mlx_lm, sglang, tensorrt_llm, vllm
from spectheory.planning.fitting import FAMILIES, Fitting
from tests.engines.examples import RANGES, TREE, schedules
from tests.helpers import refuses

HEAD = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
ONE_LENGTH = [ChainRange(1, 16, 3), ChainRange(17, 64, 0)]


def test_golden_vllm() -> None:
    made = vllm.export(RANGES, version="v0.32.0", method="eagle3", model=HEAD)
    assert made.command == (
        f"""--speculative-config '{{"method": "eagle3", "model": "{HEAD}", "num_speculative_tokens": 5, """
        """"num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 64, 3], [65, 512, 0]]}'"""
    )
    assert any("#49548" in note for note in made.notes)
    assert "prompt_lookup_max" in vllm.export(RANGES[:1], version="0.32", method="ngram", model=None).notes[-1]


@pytest.mark.parametrize(("temperature", "family"), [(0.0, "eagle3"), (1.0, "ngram"), (1.0, "eagle3")])
def test_vllm_draws_drafts_where_a_plan_is_for_sampled_texts(temperature: float, family: str) -> None:
    """By default it drafts the most probable tokens, whose tau is another one."""
    rates = replace(PLAN.acceptance, provenance=st.Provenance.now("trace", temperature=temperature))
    config = json.loads(st.export(replace(PLAN, acceptance=rates), "vllm", draft=NAMES[family]).args[1])
    drawn = temperature > 0 and family == "eagle3"
    assert config.get("draft_sample_method") == ("probabilistic" if drawn else None)


def test_dspark_is_exported_from_the_version_on_that_has_it() -> None:
    assert '"method": "dspark"' in to_vllm(RANGES[:1], version="0.25.1", method="dspark").args[1]
    assert "DSPARK" in to_sglang(RANGES[:1], version="0.5.18", algorithm="DSPARK").args


def test_golden_sglang() -> None:
    made = sglang.export(RANGES, version="0.5.15.post1", algorithm="EAGLE3", model="draft")
    assert made.version == "0.5.15"
    assert made.command == (
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path draft --speculative-num-steps 5 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6 --speculative-adaptive "
        "--speculative-adaptive-config adaptive.json"
    )
    steps = {key: entry["candidate_steps"] for key, entry in json.loads(made.files["adaptive.json"]).items()}
    assert steps == {"1": [5], "17": [3], "65": [0]}
    assert "16, 64, 512 (--cuda-graph-bs)" in made.notes[0]


def config(plan: Any, version: str, model: str = "d") -> dict[str, Any]:
    text = tensorrt_llm.export(plan, version=version, model=model).files["speculative_config.yaml"]
    return yaml.safe_load(text)["speculative_config"]


def test_golden_tensorrt_llm() -> None:
    tree = tensorrt_llm.export(Envelope(6, 10, 60), version="1.3.0rc27", model=HEAD)
    assert tree.files["speculative_config.yaml"] == (
        "speculative_config:\n"
        "  decoding_type: Eagle3\n"
        f'  speculative_model: "{HEAD}"\n'
        "  max_draft_len: 6\n"
        "  use_dynamic_tree: true\n"
        "  dynamic_tree_max_topK: 10\n"
        "  max_total_draft_tokens: 60\n"
    )
    for model in ("yes", "a: b", "#x", "C:\\model", '"', "päth/1.0"):
        assert config(RANGES, "1.3", model)["speculative_model"] == model


@given(schedules(longest_first=True))
def test_the_batch_sizes_of_a_tensorrt_llm_schedule_are_upper_bounds(ranges: list[ChainRange]) -> None:
    found = config(ranges, "1.3")
    upper = found["draft_len_schedule"]
    assert upper[min(upper)] == found["max_draft_len"]
    for item in ranges:
        for batch in {item.first_batch, (item.first_batch + item.last_batch) // 2, item.last_batch}:
            above = [key for key in upper if key >= batch]
            assert (upper[min(above)] if above else 0) == item.length


@pytest.mark.parametrize(
    ("version", "named"), [("1.3.0rc27", "num_nextn_predict_layers"), ("1.4.0rc1", "max_draft_len")]
)
def test_mtp_counts_drafted_tokens_under_the_name_of_the_version(version: str, named: str) -> None:
    """`max_concurrency` is the last batch size with drafts; without a range that is off, it is left out."""
    for ranges, last in ((ONE_LENGTH, {"max_concurrency": 16}), (ONE_LENGTH[:1], {})):
        made = tensorrt_llm.export(ranges, version=version, decoding_type="MTP")
        found = yaml.safe_load(made.files["speculative_config.yaml"])["speculative_config"]
        assert found == {"decoding_type": "MTP", named: 3} | last


@pytest.mark.parametrize(("length", "looked_up"), [(1, 1), (5, 5), (12, 12), (40, 12)])
def test_n_gram_lookup_of_llama_cpp_looks_for_no_more_tokens_than_it_drafts(length: int, looked_up: int) -> None:
    """If fewer tokens than it looks for follow the match, ngram-simple drafts nothing."""
    made = llama_cpp.export(length, version="b11000", model=None, spec_type="ngram-simple")
    assert made.command == (
        f"--spec-type ngram-simple --spec-ngram-simple-size-n {looked_up} --spec-ngram-simple-size-m {length} "
        f"--spec-draft-n-max {length}"
    )


def test_golden_others() -> None:
    made = llama_cpp.export(6, version="b9235", model="draft.gguf")
    assert made.command == "--spec-type draft-simple -md draft.gguf --spec-draft-n-max 6 --spec-draft-p-min 0", (
        "without --spec-type a draft is loaded and never used (#25345)"
    )
    head = llama_cpp.export(3, version="b11000", model="owner/head", spec_type="draft-eagle3")
    assert "-md takes a GGUF file: convert owner/head" in head.notes[1]
    choices = "spectheory_6 = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]\n"
    assert eagle.export(TREE, version="1").files["choices.py"] == choices
    assert mlx_lm.export(3, version="0.32.2", model="a b").command == "--draft-model 'a b' --num-draft-tokens 3"
    assert json.loads(hugging_face.export(4, version="5.23.0").files["generation_config.json"]) == {
        "num_assistant_tokens": 4,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


to_vllm = partial(vllm.export, **{"version": "0.32", "method": "eagle3", "model": "d"})
to_sglang = partial(sglang.export, **{"version": "0.5.23", "algorithm": "EAGLE3", "model": "d"})
to_trtllm = partial(tensorrt_llm.export, **{"version": "1.3", "model": "d"})
to_llama_cpp = partial(llama_cpp.export, **{"version": "b11000", "model": "d.gguf"})
REFUSED: list[tuple[Callable[..., object], Any, dict[str, Any], str]] = [
    (to_vllm, RANGES, {"version": "0.99"}, r"version must be a version of vLLM .* \(0.24 to 0.33\), got '0.99'"),
    (to_vllm, RANGES, {"version": "0.24.0", "method": "dspark"}, "method 'dspark' needs vLLM 0.25 or newer, got 0.24"),
    (to_vllm, [ChainRange(1, 8, 129)], {}, "length must be at most MAX_SPEC_LEN=128 of vLLM's sampler, got 129"),
    (to_sglang, RANGES, {"algorithm": "STANDALONE"}, "algorithm must be EAGLE, EAGLE3 or NEXTN for"),
    (to_sglang, Envelope(4, 1, 3), {}, "nodes must be levels=4 for branching=1, got 3: with topk 1 SGLang always"),
    (to_trtllm, Envelope(3, 4, 15), {}, "nodes must be from levels=3 to branching . levels=12 for Te"),
    (to_trtllm, [ChainRange(1, 4, 2), ChainRange(5, 8, 3)], {}, "first range must be the longest of all, 3, got 2"),
    (to_llama_cpp, 1025, {"spec_type": "ngram-simple", "model": None}, "length must be at most 1024 for ngram-simple"),
    (eagle.export, TREE, {"version": "3"}, "plan must be an Envelope for EAGLE-3, got Tree"),
    (eagle.export, st.Tree.k_ary(2, 1), {"version": "1"}, "at least 2 deep for EAGLE-1, got depth 1"),
    (eagle.export, st.Tree([-1, *[0] * 11, 1]), {"version": "1"}, "at most TOPK=10 children at a node for"),
]


@pytest.mark.parametrize(("export", "plan", "change", "message"), REFUSED)
def test_an_engine_refuses_what_it_cannot_run(
    export: Callable[..., object], plan: Any, change: dict[str, Any], message: str
) -> None:
    refuses(message, export, plan, **change)


PLAN = st.evaluate(
    st.Tree.chain(3),
    st.Acceptance.by_depth_and_rank([[0.8], [0.7], [0.6]]),
    st.Latency(np.array([1, 4]), np.array([100]), np.array([[1.0, 1.01]]), np.array([[0.01, 0.01]])),
)
"""A chain; it is exported with the fastest length up to 3."""
NAMES = {
    "none": "none",
    "ngram": "n-gram",
    "suffix": "suffix",
    "p-eagle": "amazon/gpt-oss-20b-p-eagle",
    "eagle3": HEAD,
    "eagle": "yuhuili/EAGLE-LLaMA3-Instruct-8B",
    "dflash": "dflash-qwen3-8b",
    "dspark": "dspark-qwen3-8b",
    "medusa": "FasterDecoding/medusa-vicuna-7b-v1.3",
    "pard": "amd/PARD-Qwen3-0.6B",
    "mtp": "deepseek-v3-mtp",
    "model": "llama-3.2-1b",
}
STEPS = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
DRAFT = "--speculative-draft-model-path"
LLAMA = "meta-llama/Llama-3.2-1B"
SETTINGS = {
    "vllm": {
        "ngram": '{"method": "ngram", ',
        "suffix": '{"method": "suffix", ',
        "p-eagle": f'{{"method": "eagle3", "model": "{NAMES["p-eagle"]}", "parallel_drafting": true, ',
        "eagle3": f'{{"method": "eagle3", "model": "{HEAD}", ',
        "eagle": f'{{"method": "eagle", "model": "{NAMES["eagle"]}", ',
        "dflash": f'{{"method": "dflash", "model": "{NAMES["dflash"]}", ',
        "dspark": f'{{"method": "dspark", "model": "{NAMES["dspark"]}", ',
        "medusa": f'{{"method": "medusa", "model": "{NAMES["medusa"]}", ',
        "pard": f'{{"method": "draft_model", "model": "{NAMES["pard"]}", "parallel_drafting": true, ',
        "mtp": '{"method": "mtp", ',
        "model": f'{{"method": "draft_model", "model": "{LLAMA}", ',
    },
    "sglang": {
        "ngram": "NGRAM --speculative-num-draft-tokens 4 --speculative-ngram-max-bfs-breadth 1",
        "eagle3": f"EAGLE3 {DRAFT} {HEAD} {STEPS}",
        "eagle": f"EAGLE {DRAFT} {NAMES['eagle']} {STEPS}",
        "dflash": f"DFLASH {DRAFT} dflash-qwen3-8b --speculative-num-draft-tokens 4",
        "dspark": f"DSPARK {DRAFT} dspark-qwen3-8b --speculative-num-draft-tokens 4",
        "mtp": f"NEXTN {STEPS}",
        "model": f"STANDALONE {DRAFT} {LLAMA} {STEPS}",
    },
    "llama.cpp": {
        "eagle3": f"draft-eagle3 -md {HEAD} --spec-draft-n-max 3 --spec-draft-p-min 0",
        "mtp": "draft-mtp --spec-draft-n-max 3 --spec-draft-p-min 0",
        "model": f"draft-simple -md {LLAMA} --spec-draft-n-max 3 --spec-draft-p-min 0",
        "ngram": "ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 3 --spec-draft-n-max 3",
    },
    "trtllm": {
        "eagle3": f'decoding_type: Eagle3\n  speculative_model: "{HEAD}"\n  max_draft_len: 3\n',
        "mtp": "decoding_type: MTP\n  max_draft_len: 3\n",
        "ngram": "decoding_type: NGram\n  max_draft_len: 3\ndisable_overlap_scheduler: true\n",
    },
    "hf": {"model": '"num_assistant_tokens": 3', "ngram": '"prompt_lookup_num_tokens": 3'},
    "mlx-lm": {"model": f"--draft-model {LLAMA} --num-draft-tokens 3"},
}


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("engine", SETTINGS)
def test_each_engine_gets_the_settings_of_the_family_of_the_draft(engine: str, family: str) -> None:
    if family in SETTINGS[engine]:
        made = st.export(PLAN, engine, draft=NAMES[family])
        assert SETTINGS[engine][family] in "\n".join([*made.args[1:2], made.command, *made.files.values()])
    else:
        refuses(f"the draft must be .*, got {NAMES[family]}, by its name", st.export, PLAN, engine, draft=NAMES[family])


def test_the_family_is_read_from_the_name() -> None:
    others = {"mymodels/leopard-1b": "model", "smtp-1b": "model", "my/EAGLE-3": "eagle3", "lmsys/V3-NextN": "mtp"}
    for name, family in {**{name: family for family, name in NAMES.items()}, **others}.items():
        assert Fitting.of(PLAN, draft=name).family == family
    assert list(NAMES) == list(FAMILIES)


def test_a_derived_head_is_said_to_be_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    note = "dflash-qwen3-8b is not a checkpoint: write the folder or repository of a DFlash head for this target"
    assert any(note in each for each in st.export(PLAN, "sglang", draft="dflash-qwen3-8b").notes)
    for draft in ("eagle3-llama-3.1-8b", "z-lab/Qwen3-8B-DFlash-b16", "n-gram"):
        assert not any("not a checkpoint" in note for note in st.export(PLAN, "vllm", draft=draft).notes)
    Path("dflash-qwen3-8b").mkdir()
    assert not any(note in each for each in st.export(PLAN, "sglang", draft="dflash-qwen3-8b").notes)
