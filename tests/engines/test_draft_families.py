"""Which settings each engine gets for each family of drafts, and which families it refuses."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from spectheory.engines import Export, vllm_config
from spectheory.planning.fitting import FAMILIES, Fitting
from tests.engines.examples import RANGES
from tests.refusals import refuses

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
    "eagle3": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    "eagle": "yuhuili/EAGLE-LLaMA3-Instruct-8B",
    "dflash": "dflash-qwen3-8b",
    "dspark": "dspark-qwen3-8b",
    "medusa": "FasterDecoding/medusa-vicuna-7b-v1.3",
    "pard": "amd/PARD-Qwen3-0.6B",
    "mtp": "deepseek-v3-mtp",
    "model": "llama-3.2-1b",
}
VLLM = {
    "ngram": {"method": "ngram"},
    "suffix": {"method": "suffix"},
    "p-eagle": {"method": "eagle3", "model": NAMES["p-eagle"], "parallel_drafting": True},
    "eagle3": {"method": "eagle3", "model": NAMES["eagle3"]},
    "eagle": {"method": "eagle", "model": NAMES["eagle"]},
    "dflash": {"method": "dflash", "model": NAMES["dflash"]},
    "dspark": {"method": "dspark", "model": NAMES["dspark"]},
    "medusa": {"method": "medusa", "model": NAMES["medusa"]},
    "pard": {"method": "draft_model", "model": NAMES["pard"], "parallel_drafting": True},
    "mtp": {"method": "mtp"},
    "model": {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B"},
}
STEPS = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
SGLANG = {
    "ngram": "NGRAM --speculative-num-draft-tokens 4 --speculative-ngram-max-bfs-breadth 1",
    "eagle3": f"EAGLE3 --speculative-draft-model-path {NAMES['eagle3']} {STEPS}",
    "eagle": f"EAGLE --speculative-draft-model-path {NAMES['eagle']} {STEPS}",
    "dflash": "DFLASH --speculative-draft-model-path dflash-qwen3-8b --speculative-num-draft-tokens 4",
    "dspark": "DSPARK --speculative-draft-model-path dspark-qwen3-8b --speculative-num-draft-tokens 4",
    "mtp": f"NEXTN {STEPS}",
    "model": f"STANDALONE --speculative-draft-model-path meta-llama/Llama-3.2-1B {STEPS}",
}
LLAMA_CPP = {
    "eagle3": "draft-eagle3 -md",
    "mtp": "draft-mtp --spec-draft-n-max 3",
    "model": "draft-simple -md",
    "ngram": "ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 3 --spec-draft-n-max 3",
}
TENSORRT_LLM = {
    "eagle3": f'decoding_type: Eagle3\n  speculative_model: "{NAMES["eagle3"]}"\n  max_draft_len: 3\n',
    "mtp": "decoding_type: MTP\n  max_draft_len: 3\n",
    "ngram": "decoding_type: NGram\n  max_draft_len: 3\ndisable_overlap_scheduler: true\n",
}


@pytest.mark.parametrize("family", NAMES)
def test_the_family_is_read_from_the_name(family: str) -> None:
    assert Fitting.of(PLAN, draft=NAMES[family]).family == family
    assert list(NAMES) == list(FAMILIES)


@pytest.mark.parametrize(
    ("name", "family"),
    [("mymodels/leopard-1b", "model"), ("smtp-1b", "model"), ("my/EAGLE-3", "eagle3"), ("lmsys/DeepSeek-NextN", "mtp")],
)
def test_names_that_look_like_others(name: str, family: str) -> None:
    assert Fitting.of(PLAN, draft=name).family == family


def taken(engine: str, family: str, families: Collection[str], message: str) -> Export | None:
    """The export of a draft of this family, or None where the engine does not take it, and says so."""
    if family in families:
        return st.export(PLAN, engine, draft=NAMES[family])
    refuses(message, st.export, PLAN, engine, draft=NAMES[family])
    return None


@pytest.mark.parametrize("family", NAMES)
def test_vllm(family: str) -> None:
    made = taken("vllm", family, VLLM, "the draft must be a whole model, .* or suffix lookup, got none, by its na")
    assert made is None or json.loads(made.args[1]) == VLLM[family] | {"num_speculative_tokens": 3}


@pytest.mark.parametrize("family", NAMES)
def test_sglang(family: str) -> None:
    made = taken("sglang", family, SGLANG, f"the draft must be .*, got {NAMES[family]}, by its name")
    assert made is None or made.command == f"--speculative-algorithm {SGLANG[family]}"


@pytest.mark.parametrize("family", NAMES)
def test_llama_cpp(family: str) -> None:
    message = "the draft must be a whole model, an EAGLE-3 head, a multi-token-pred"
    made = taken("llama.cpp", family, LLAMA_CPP, message)
    assert made is None or made.command.startswith(f"--spec-type {LLAMA_CPP[family]}")


@pytest.mark.parametrize("family", NAMES)
def test_tensorrt_llm(family: str) -> None:
    message = "the draft must be an EAGLE-3 head, a multi-token-prediction module or n-g"
    made = taken("trtllm", family, TENSORRT_LLM, message)
    if made is not None:
        text = made.files["speculative_config.yaml"]
        assert text.startswith(f"speculative_config:\n  {TENSORRT_LLM[family]}")


@pytest.mark.parametrize("family", NAMES)
def test_transformers_and_mlx(family: str) -> None:
    message = f"the draft must be .*, got {NAMES[family]}, by its name"
    made = taken("hf", family, ("model", "ngram"), message)
    assert made is None or made.files
    taken("mlx-lm", family, ("model",), message)


def test_transformers_looks_up_drafts_without_an_assistant() -> None:
    assert json.loads(st.export(PLAN, "hf", draft="ngram").files["generation_config.json"]) == {
        "prompt_lookup_num_tokens": 3
    }


def test_a_module_of_its_own_is_named() -> None:
    made = st.export(PLAN, "sglang", draft="lmsys/DeepSeek-V3-NextN")
    assert "NEXTN --speculative-draft-model-path lmsys/DeepSeek-V3-NextN" in made.command
    other = st.export(PLAN, "trtllm", draft="lmsys/DeepSeek-V3-NextN")
    assert "the module is read from the checkpoint of the target, not from lmsys/DeepSeek-V3-NextN" in other.notes


def test_a_derived_head_is_said_to_be_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    note = (
        "dflash-qwen3-8b is not a checkpoint: write the folder or repository of a DFlash head for this target instead"
    )
    assert note in st.export(PLAN, "sglang", draft="dflash-qwen3-8b").notes
    for draft in ("eagle3-llama-3.1-8b", "z-lab/Qwen3-8B-DFlash-b16", "n-gram"):
        assert not any("not a checkpoint" in note for note in st.export(PLAN, "vllm", draft=draft).notes)
    Path("dflash-qwen3-8b").mkdir()
    assert note not in st.export(PLAN, "sglang", draft="dflash-qwen3-8b").notes


def test_parallel_drafting_is_refused_where_vllm_has_none() -> None:
    export = partial(vllm_config.export, RANGES[:1], model="m", parallel=True)
    refuses("parallel must be False for vLLM 0.15: it needs 0.16 or newer", export, method="eagle3", version="0.15")
    refuses("parallel must be False for method='medusa'", export, method="medusa", version="0.32")
