"""Tests of what is refused by name: heads whose files do not hold what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reference.heads import LAYOUTS, HeadConfig, expected_shapes, holds_head, read_head
from spectheory.core.errors import InputError
from tests.helpers import refuses
from tests.reference.head_folders import edited, retensored, written
from tests.reference.tiny_heads import EAGLE1, EAGLE3, LAYERS3, WHOLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.weight"), "fc.weight is missing"),
        (lambda t: t.update({"layers.1.mlp.up_proj.weight": torch.zeros(3)}), "layers.1.mlp.up_proj.weight is unknown"),
        (lambda t: t.update({"fc.weight": torch.zeros(3, 4)}), r"fc.weight has shape \(3, 4\), .* gives \(32, 96\)"),
        (lambda t: t.update({"t2d": ~t["t2d"]}), "d2t and t2d contradict each other"),
        (
            lambda t: t["d2t"].copy_(t["d2t"].flip(0) + 23 - 2 * torch.arange(24)),
            "must increase with i and be the tokens below 40 at which t2d is true: sort the tokens",
        ),
        (lambda t: t.update({k: v.int() for k, v in t.items() if k not in ("d2t", "t2d")}), "got I32"),
    ],
)
def test_tensors_that_are_not_the_heads_are_refused_by_name(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    refuses(message, read_head, retensored(written(tmp_path), change))


def test_a_map_of_the_whole_vocabulary_maps_every_token_to_itself(tmp_path: Path) -> None:
    folder = retensored(written(tmp_path, WHOLE, "sglang"), lambda t: t["d2t"][0].fill_(1))
    refuses("d2t and t2d contradict each other", read_head, folder)


@pytest.mark.parametrize(
    ("layout", "change", "message"),
    [
        ("speculators", {"norm_before_fc": True}, "norm_before_fc must be False for these heads, got True"),
        ("sglang", {"model_type": "qwen3"}, "model_type must be llama for these heads, got 'qwen3'"),
        ("sglang", {"norm_output": True}, "norm_output must be False for these heads"),
        ("sglang", {"target_hidden_size": 64}, "target_hidden_size must be the width of the head, got 64"),
        ("sglang", {"hidden_size": None}, "hidden_size and num_attention_heads must be whole numbers"),
        ("sglang", {"hidden_size": 48}, "has shape .*, config.json gives"),
        ("sglang", {"architectures": ["MambaForCausalLM"]}, "is of no known layout of heads"),
        ("speculators", {"speculators_model_type": "dflash"}, "speculators_model_type must be eagle3, got 'dflash'"),
        ("sglang", {"rope_theta": -1}, "rope must give frequencies above 0"),
    ],
)
def test_config_files_that_cannot_be_meant_are_refused_by_name(
    tmp_path: Path, layout: str, change: dict[str, Any], message: str
) -> None:
    refuses(message, read_head, edited(written(tmp_path, EAGLE3, layout), lambda config: config.update(change)))


WRONG = (None, [], {}, "x", -1, 0, 1.5, True, float("inf"), [None], [[1]], {"a": 1}, 10**30)
"""Values of which at most a few can be meant by a field of config.json."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value of a JSON object, those inside of others included."""
    if at:
        yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


@pytest.mark.parametrize(
    ("layout", "config"),
    [("speculators", LAYERS3), ("sglang", LAYERS3), ("eagle", EAGLE1)],
    ids=["speculators", "sglang", "eagle"],
)
def test_no_field_of_another_type_ends_in_a_traceback(tmp_path: Path, layout: str, config: HeadConfig) -> None:
    """Every field, inner ones included, replaced by values of each type: refused by name, or a head that is checked."""
    head = next(one for one in LAYOUTS if one.name == layout)
    text, refused, shaped = json.dumps(head.written(config, torch.float32)), 0, set[str]()
    for place in places(json.loads(text)):
        for wrong in WRONG:
            changed = inner = json.loads(text)
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            try:
                read = head.read(changed, own_embedding=True)
            except InputError:
                refused += 1
            else:
                if repr(read) not in shaped:
                    expected_shapes(read, layout)
                shaped.add(repr(read))
    assert refused > 200


def test_an_absent_field_that_two_libraries_read_differently_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks the field norm_before_residual: speculators takes false .* vLLM true"):
        read_head(edited(written(tmp_path), lambda config: config.pop("norm_before_residual")))


def test_pickled_weights_and_missing_files_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refuses("such as pytorch_model.bin, can run code and are never loaded", read_head, folder)
    (folder / "model.safetensors").write_text("{")
    refuses("cannot be read as safetensors", read_head, folder)
    (folder / "config.json").write_text("{")
    refuses(r"config.json cannot be read as JSON", read_head, folder)
    refuses("there is no file", read_head, tmp_path / "nothing")
    assert not holds_head(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "medusa"}, "kind must be one of eagle1, eagle3, got 'medusa'"),
        ({"num_key_value_heads": 3}, "num_attention_heads must be a multiple of num_key_value_heads .* got 4, 3"),
        ({"layers": (1, 1, 2)}, r"layers must be different layers of the target, at least one, got \(1, 1, 2\)"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number from 1e-12 to 1, got 'small'"),
        ({"rope": {"rope_type": "spiral", "rope_theta": 1e4}}, "rope must be parameters of a rotary embedding"),
        ({"kind": "eagle1"}, "draft_vocab_size is an option of the other kind, a head of kind eagle1 has none: 24"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    refuses(message, replace, EAGLE3, **change)
