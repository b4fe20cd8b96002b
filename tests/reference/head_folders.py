"""Folders of tiny heads, and changes of what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from reference.heads import HeadConfig, write_head
from tests.reference.tiny_heads import EAGLE3, random_head


def edited(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))
    return folder


def retensored(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return folder


def written(folder: Path, config: HeadConfig = EAGLE3, layout: str = "speculators") -> Path:
    """Write a tiny head of a configuration in a layout to a folder in `folder`, and return it."""
    write_head(random_head(config), folder / "head", layout, overwrite=True)
    return folder / "head"


def same(one: Any, other: Any) -> bool:
    """Whether two heads have equal settings, and weights that are equal bit by bit."""
    a, b = one.state_dict(), other.state_dict()
    return (
        one.config == other.config
        and a.keys() == b.keys()
        and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)
    )
