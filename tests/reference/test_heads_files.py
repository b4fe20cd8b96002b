"""Tests of the checkpoints of draft heads: round trips to equality, and files that are never replaced unasked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reference.heads import LAYOUTS, holds_head, read_head, write_head
from reference.models import weights_hash
from spectheory.core.errors import InputError
from tests.helpers import refuses
from tests.reference.head_folders import same, written
from tests.reference.tiny_heads import CONFIGS, EAGLE3, LAYERS3, random_head

NAMES = [layout.name for layout in LAYOUTS]
WITHOUT = {
    ("speculators", "eagle1"): "a head of kind eagle1",
    ("speculators", "eagle1 without bias"): "a head of kind eagle1",
    ("sglang", "eagle1 without bias"): "an EAGLE-1 head whose fc has no bias",
    ("sglang", "other residual"): "norm_before_residual",
    ("eagle", "chosen layers"): "layers=",
    ("eagle", "other residual"): "norm_before_residual",
}
"""What a layout cannot express of a head; every other pair of them makes the round trip."""


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_head_makes_the_round_trip_or_is_refused_by_name(tmp_path: Path, kind: str, layout: str) -> None:
    """By way of each layout that can express it."""
    head = random_head(replace(CONFIGS[kind], target="some/target"), dtype=torch.bfloat16)
    if what := WITHOUT.get((layout, kind)):
        refuses(f"the layout {layout} cannot express {what}", write_head, head, tmp_path / "head", layout)
        assert not (tmp_path / "head").exists()
        return
    write_head(head, tmp_path / "head", layout)
    assert holds_head(tmp_path / "head")
    assert same(read_head(tmp_path / "head"), head)
    for other in [other for other in NAMES if (other, kind) not in WITHOUT]:
        write_head(read_head(tmp_path / "head"), tmp_path / other, other, overwrite=True)
        assert same(read_head(tmp_path / other), head)


def test_every_setting_of_a_head_is_kept(tmp_path: Path) -> None:
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    config = replace(LAYERS3, rms_norm_eps=1e-5, rope=rope, positions=999, target="some/target")
    for layout in ("speculators", "sglang"):
        write_head(random_head(config), tmp_path / layout, layout)
        assert read_head(tmp_path / layout).config == config


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    folder = written(tmp_path)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"model.safetensors already exists: name another folder"):
        write_head(random_head(EAGLE3, seed=5), folder, "sglang")
    assert (folder / "model.safetensors").read_bytes() == before
    with pytest.raises(InputError, match="layout must be one of speculators, sglang, eagle, got 'gguf'"):
        write_head(random_head(EAGLE3), folder / "other", "gguf")


def test_heads_with_equal_weights_and_other_options_are_other_drafts() -> None:
    """Results are kept by this hash: what the head computes counts, hints to engines do not."""
    head = random_head(LAYERS3)
    same_weights = {weights_hash(head)}
    for config in (
        replace(LAYERS3, layers=(0, 1, 2)),
        replace(LAYERS3, norm_before_residual=True),
        replace(LAYERS3, rms_norm_eps=1e-5),
    ):
        other = random_head(config)
        assert all(map(torch.equal, head.state_dict().values(), other.state_dict().values()))
        same_weights.add(weights_hash(other))
    assert len(same_weights) == 4
    assert weights_hash(random_head(replace(LAYERS3, target="some/target", positions=4096))) == weights_hash(head)
