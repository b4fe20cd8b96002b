"""Tests of the checkpoints of draft heads: round trips to equality, public names and shapes, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reference.heads import (
    LAYOUTS,
    HeadConfig,
    convert_head,
    expected_shapes,
    holds_head,
    inspect_head,
    read_head,
    write_head,
)
from spectheory.core.errors import InputError
from tests.tiny_heads import CONFIGS, EAGLE1, EAGLE3, EAGLE31, NORMED, WHOLE, random_head

WITHOUT = {
    **{(layout.name, kind): f"a head of kind {kind}" for layout in LAYOUTS for kind in ("mtp", "parallel")},
    ("speculators", "eagle1"): "a head of kind eagle1",
    ("speculators", "eagle1 without bias"): "a head of kind eagle1",
    ("sglang", "eagle1 without bias"): "an EAGLE-1 head whose fc has no bias",
    ("sglang", "other norms"): "norm_before_fc",
    ("eagle", "eagle3.1"): "fc_norm=True",
    ("eagle", "other norms"): "norm_before_fc=True",
}
"""What a layout cannot express of a head; every other pair of them makes the round trip."""
LLAMA_8B = HeadConfig("eagle3", 4096, 14336, 128256, 32, 8, 128, 1e-5, own_embedding=False, draft_vocab_size=32000)
QWEN_32B = HeadConfig("eagle3", 5120, 25600, 151936, 64, 8, 128, own_embedding=False, draft_vocab_size=32000)
GLM_FLASH = HeadConfig("eagle3", 2048, 8192, 154880, 16, 4, 128, 1e-5, own_embedding=False, draft_vocab_size=32000)
PUBLISHED: dict[str, tuple[HeadConfig, str, dict[str, tuple[int, ...]]]] = {
    "thoughtworks/Qwen3-32B-Eagle3 @ba10360, its safetensors header": (
        QWEN_32B,
        "sglang",
        {
            "d2t": (32000,),
            "fc.weight": (5120, 15360),
            "lm_head.weight": (32000, 5120),
            "midlayer.hidden_norm.weight": (5120,),
            "midlayer.input_layernorm.weight": (5120,),
            "midlayer.mlp.down_proj.weight": (5120, 25600),
            "midlayer.mlp.gate_proj.weight": (25600, 5120),
            "midlayer.mlp.up_proj.weight": (25600, 5120),
            "midlayer.post_attention_layernorm.weight": (5120,),
            "midlayer.self_attn.k_proj.weight": (1024, 10240),
            "midlayer.self_attn.o_proj.weight": (5120, 8192),
            "midlayer.self_attn.q_proj.weight": (8192, 10240),
            "midlayer.self_attn.v_proj.weight": (1024, 10240),
            "norm.weight": (5120,),
            "t2d": (151936,),
        },
    ),
    "SpecForge head for a target of width 2048 and 154,880 tokens, as listed in specjax": (
        GLM_FLASH,
        "sglang",
        {
            "d2t": (32000,),
            "fc.weight": (2048, 6144),
            "lm_head.weight": (32000, 2048),
            "midlayer.hidden_norm.weight": (2048,),
            "midlayer.input_layernorm.weight": (2048,),
            "midlayer.mlp.down_proj.weight": (2048, 8192),
            "midlayer.mlp.gate_proj.weight": (8192, 2048),
            "midlayer.mlp.up_proj.weight": (8192, 2048),
            "midlayer.post_attention_layernorm.weight": (2048,),
            "midlayer.self_attn.k_proj.weight": (512, 4096),
            "midlayer.self_attn.o_proj.weight": (2048, 2048),
            "midlayer.self_attn.q_proj.weight": (2048, 4096),
            "midlayer.self_attn.v_proj.weight": (512, 4096),
            "norm.weight": (2048,),
            "t2d": (154880,),
        },
    ),
}
"""Names and shapes of public checkpoints, facts copied by hand from public code that checks or lists their headers.

The header of the first is quoted there without its `t2d`."""
OLMOE_KEYS = [
    "d2t",
    "fc.weight",
    "lm_head.weight",
    "midlayer.hidden_norm.weight",
    "midlayer.input_layernorm.weight",
    "midlayer.mlp.down_proj.weight",
    "midlayer.mlp.gate_proj.weight",
    "midlayer.mlp.up_proj.weight",
    "midlayer.post_attention_layernorm.weight",
    "midlayer.self_attn.k_proj.weight",
    "midlayer.self_attn.o_proj.weight",
    "midlayer.self_attn.q_proj.weight",
    "midlayer.self_attn.v_proj.weight",
    "norm.weight",
    "t2d",
]
"""Keys of wantsleep/OLMoE_1B_7B_Eagle3, listed in SafeAILab/EAGLE issue 265."""
EAGLE1_BILLIONS = {
    "llama-2-7b": (HeadConfig("eagle1", 4096, 11008, 32000, 32, 32, 128), 0.24),
    "llama-2-13b": (HeadConfig("eagle1", 5120, 13824, 32000, 40, 40, 128), 0.37),
    "llama-2-70b": (HeadConfig("eagle1", 8192, 28672, 32000, 64, 8, 128), 0.99),
    "llama-3-8b": (HeadConfig("eagle1", 4096, 14336, 128256, 32, 8, 128), 0.25),
}
"""Billions of parameters in the table of the EAGLE repository, without embeddings and output head."""


def edited(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The folder after a change of its config.json."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))
    return folder


def retensored(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    """The folder after a change of its tensors."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a tiny head of a configuration in a layout, and return its folder."""

    def write(config: HeadConfig = EAGLE3, layout: str = "speculators", **options: Any) -> Path:
        write_head(random_head(config, **options), tmp_path / "head", layout, overwrite=True)
        return tmp_path / "head"

    return write


def same(one: Any, other: Any) -> bool:
    """Whether two heads have equal settings, and weights that are equal bit by bit."""
    a, b = one.state_dict(), other.state_dict()
    return (
        one.config == other.config
        and a.keys() == b.keys()
        and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)
    )


@pytest.mark.parametrize("layout", [layout.name for layout in LAYOUTS])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_head_makes_the_round_trip_or_is_refused_by_name(tmp_path: Path, kind: str, layout: str) -> None:
    head = random_head(replace(CONFIGS[kind], target="some/target"), dtype=torch.bfloat16)
    if what := WITHOUT.get((layout, kind)):
        with pytest.raises(InputError, match=f"the layout {layout} cannot express {what}"):
            write_head(head, tmp_path / "head", layout)
        assert not (tmp_path / "head").exists()
        return
    write_head(head, tmp_path / "head", layout)
    assert holds_head(tmp_path / "head") or (layout, head.config.kind) == ("eagle", "eagle1")
    assert same(read_head(tmp_path / "head"), head)
    for other in (layout.name for layout in LAYOUTS):
        if (other, kind) not in WITHOUT:
            convert_head(tmp_path / "head", other, tmp_path / other)
            assert inspect_head(tmp_path / other).layout == other
            assert same(read_head(tmp_path / other), head)


def test_every_setting_of_a_head_is_kept(tmp_path: Path) -> None:
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    head = random_head(
        replace(
            EAGLE31,
            rms_norm_eps=1e-5,
            hidden_act="gelu",
            rope=rope,
            positions=999,
            attention_bias=True,
            mlp_bias=True,
            target="some/target",
            target_architectures=("LlamaForCausalLM",),
            speculative_tokens=7,
        )
    )
    write_head(head, tmp_path, "speculators")
    assert read_head(tmp_path).config == head.config
    write_head(head, tmp_path / "other", "sglang")
    assert read_head(tmp_path / "other").config == replace(
        head.config, target_architectures=(), speculative_tokens=3
    ), "the other layout has no place for these two hints to engines"


@pytest.mark.parametrize("name", PUBLISHED)
def test_names_and_shapes_are_those_of_public_checkpoints(name: str) -> None:
    config, layout, shapes = PUBLISHED[name]
    assert expected_shapes(config, layout) == shapes
    assert expected_shapes(config, "speculators") == {
        key.replace("midlayer.", "layers.0."): shape for key, shape in shapes.items()
    }


def test_keys_are_those_of_public_checkpoints() -> None:
    assert sorted(expected_shapes(LLAMA_8B, "eagle")) == OLMOE_KEYS
    assert sorted(expected_shapes(replace(EAGLE1, own_embedding=False), "eagle")) == [
        "fc.bias",
        "fc.weight",
        "layers.0.mlp.down_proj.weight",
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.post_attention_layernorm.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.o_proj.weight",
        "layers.0.self_attn.q_proj.weight",
        "layers.0.self_attn.v_proj.weight",
    ], "as in cnets1.py: no input_layernorm in layer 0, no norm, no output head"
    more = expected_shapes(EAGLE31, "speculators").keys() - expected_shapes(EAGLE3, "speculators").keys()
    assert more == {"fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"}
    more = expected_shapes(NORMED, "speculators").keys() - expected_shapes(EAGLE3, "speculators").keys()
    assert more == {"input_norm.weight"}


@pytest.mark.parametrize("target", EAGLE1_BILLIONS)
def test_eagle1_heads_have_the_published_size(target: str) -> None:
    config, billions = EAGLE1_BILLIONS[target]
    shapes = expected_shapes(replace(config, own_embedding=False), "eagle").values()
    assert round(sum(torch.Size(shape).numel() for shape in shapes) / 1e9, 2) == billions


def test_layer_numbers_mean_what_each_library_means(written: Callable[..., Path]) -> None:
    """A head that reads the inputs of layers 1, 2 and 3: speculators numbers these layers, SGLang the ones before."""
    assert json.loads((written(EAGLE31) / "config.json").read_text())["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]
    config = json.loads((written(EAGLE31, "sglang") / "config.json").read_text())
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2]


def test_public_config_files_are_read(written: Callable[..., Path]) -> None:
    """Fields of vllm-project/speculators pull request 53 and of SpecForge's configs, with the sizes of a tiny head."""
    folder = written(EAGLE3)

    def older(config: dict[str, Any]) -> None:
        for name in ("norm_before_fc", "fc_norm", "norm_output", "eagle_aux_hidden_state_layer_ids", "dtype"):
            del config[name]
        config |= {
            "architectures": ["Eagle3Speculator"],
            "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"},
            "has_no_defaults_at_init": False,
            "speculators_version": "0.1.0.dev21",
            "torch_dtype": "float32",
        }
        config["transformer_layer_config"] |= {"attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True}

    assert same(read_head(edited(folder, older)), random_head(EAGLE3))
    folder = written(EAGLE3, "sglang")

    def bare(config: dict[str, Any]) -> None:
        for name in ("base_model", "bias", "fc_norm", "norm_output", "attention_bias", "mlp_bias", "rope_scaling"):
            del config[name]
        config |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "max_window_layers": 36}
        config |= {"use_sliding_window": False, "sliding_window": None, "use_cache": True}

    assert same(read_head(edited(folder, bare)), random_head(EAGLE3))


def test_weights_in_several_files_are_read(written: Callable[..., Path]) -> None:
    folder = written()
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for part, listed in parts.items():
        save_file({name: tensors[name] for name in listed}, folder / part)
    index = {"weight_map": {name: part for part, listed in parts.items() for name in listed}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert same(read_head(folder), random_head(EAGLE3))
    del index["weight_map"][names[0]]
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=r"index.json and a.safetensors do not list the same tensors: d2t"):
        read_head(folder)
    index["weight_map"][names[0]] = "../a.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="must name a file of the folder for each tensor"):
        read_head(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.weight"), r"missing: fc.weight"),
        (lambda t: t.update({"layers.1.mlp.up_proj.weight": torch.zeros(3)}), r"unknown: layers.1.mlp.up_proj.weight"),
        (
            lambda t: t.update({"fc.weight": torch.zeros(3, 4)}),
            r"fc.weight in .* has shape \(3, 4\), .* gives \(32, 96\)",
        ),
        (lambda t: t.pop("t2d"), "a draft vocabulary of 24 of 40 tokens without its map: the tensors t2d are missing"),
        (lambda t: (t.pop("t2d"), t.pop("d2t")), "without its map: the tensors d2t, t2d are missing"),
        (lambda t: t.update({"t2d": t["t2d"].float()}), "t2d in .* must be of type BOOL, got F32"),
        (lambda t: t.update({"d2t": t["d2t"].float()}), "d2t in .* must be of type I64, got F32"),
        (lambda t: t.update({"t2d": ~t["t2d"]}), "d2t and t2d contradict each other"),
        (lambda t: t["d2t"].fill_(1000), "d2t and t2d contradict each other"),
        (
            lambda t: t.update({"fc.weight": t["fc.weight"].half()}),
            "must have one type of F16, BF16, F32, F64, got F16",
        ),
        (lambda t: t.update({k: v.int() for k, v in t.items() if k not in ("d2t", "t2d")}), "got I32"),
    ],
)
def test_tensors_that_are_not_the_heads_are_refused_by_name(
    written: Callable[..., Path], change: Callable[[Any], None], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_head(retensored(written(), change))


def test_a_map_of_the_whole_vocabulary_maps_every_token_to_itself(written: Callable[..., Path]) -> None:
    folder = retensored(written(WHOLE, "sglang"), lambda t: t["d2t"][0].fill_(1))
    with pytest.raises(InputError, match="must map every token to itself"):
        read_head(folder)


@pytest.mark.parametrize(
    ("layout", "change", "message"),
    [
        ("speculators", {"mystery": 1}, "fields that are unknown for this layout: mystery"),
        ("sglang", {"qk_norm": True}, "fields that are unknown for this layout: qk_norm"),
        ("sglang", {"num_hidden_layers": 2}, "num_hidden_layers in .* must be 1 for these heads"),
        ("sglang", {"sliding_window": 512}, "sliding_window in .* must be None for these heads"),
        ("sglang", {"model_type": "qwen3"}, "model_type in .* must be llama for these heads"),
        ("sglang", {"tie_word_embeddings": True}, "tie_word_embeddings in .* must be False"),
        ("sglang", {"fc_norm": "yes"}, "fc_norm in .* must be true or false, got 'yes'"),
        ("sglang", {"hidden_size": None}, "hidden_size in .* must be a whole number, got None"),
        ("sglang", {"hidden_size": 48}, "has shape .*, the config.json of this head gives"),
        ("sglang", {"draft_vocab_size": 41}, "draft_vocab_size must be between 1 and 40, got 41"),
        ("sglang", {"architectures": ["MambaForCausalLM"]}, "is of no known layout of heads"),
        ("eagle", {"fc_norm": True}, "fields that are unknown for this layout: fc_norm"),
        ("speculators", {"speculators_model_type": "dflash"}, "speculators_model_type must be eagle3, got 'dflash'"),
        ("speculators", {"transformer_layer_config": []}, "transformer_layer_config in .* must be a JSON object"),
        ("speculators", {"norm_before_fc": True, "fc_norm": True}, "norm_before_fc and fc_norm exclude each other"),
    ],
)
def test_config_files_that_cannot_be_meant_are_refused_by_name(
    written: Callable[..., Path], layout: str, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_head(edited(written(EAGLE3, layout), lambda config: config.update(change)))


def test_an_absent_field_that_two_libraries_read_differently_is_refused(written: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="lacks the field norm_before_residual: speculators takes false .* vLLM true"):
        read_head(edited(written(), lambda config: config.pop("norm_before_residual")))


def test_lossy_proposals_are_refused(written: Callable[..., Path]) -> None:
    def tolerant(config: dict[str, Any]) -> None:
        config["speculators_config"]["proposal_methods"][0]["accept_tolerance"] = 0.1

    with pytest.raises(InputError, match=r"accept_tolerance in proposal_methods\[0\] .* must be 0.0, got 0.1"):
        read_head(edited(written(), tolerant))


def test_pickled_weights_and_missing_files_are_refused(written: Callable[..., Path], tmp_path: Path) -> None:
    folder = written()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="such as pytorch_model.bin, can run code and are never loaded"):
        read_head(folder)
    (folder / "model.safetensors").write_text("{")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_head(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config.json cannot be read as JSON"):
        read_head(folder)
    with pytest.raises(InputError, match="there is no file"):
        read_head(tmp_path / "nothing")
    assert not holds_head(tmp_path / "nothing")


def test_nothing_is_replaced_unasked(written: Callable[..., Path]) -> None:
    folder = written()
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"model.safetensors already exists: name another folder"):
        write_head(random_head(EAGLE3, seed=5), folder, "sglang")
    assert (folder / "model.safetensors").read_bytes() == before
    with pytest.raises(InputError, match="is the folder of the head itself"):
        convert_head(folder, "sglang", folder, overwrite=True)
    with pytest.raises(InputError, match="layout must be one of speculators, sglang, eagle, got 'gguf'"):
        convert_head(folder, "gguf", folder / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "medusa"}, "kind must be one of eagle1, eagle3, mtp, parallel, got 'medusa'"),
        ({"hidden_size": 0}, "hidden_size must be at least 1, got 0"),
        ({"num_key_value_heads": 3}, "num_attention_heads must be a multiple of num_key_value_heads, got 4 and 3"),
        ({"head_dim": 7}, "head_dim must be even for the rotary embedding, got 7"),
        ({"draft_vocab_size": 41}, "draft_vocab_size must be between 1 and 40, got 41"),
        ({"layers": (1, 1, 2)}, r"layers must be different layers of the target, at least one, got \(1, 1, 2\)"),
        ({"depths": 3}, "depths must be given for parallel heads and for no others, got 3"),
        ({"kind": "parallel", "draft_vocab_size": None}, "depths must be given for parallel heads .* got None"),
        ({"layers": ()}, "layers must be different layers"),
        ({"layers": (-1,)}, "a number in layers must be at least 0, got -1"),
        ({"kind": "eagle1"}, "draft_vocab_size is an option of eagle3 heads, a head of kind eagle1 has none, got 24"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(EAGLE3, **change)
