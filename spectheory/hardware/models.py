"""A language model by its name, its config.json or its GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.hardware.draft_heads import draft_of_kind, kind_and_target
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.named_formats import quantisations
from spectheory.hardware.shipped_models import model_names, shipped_model, shipped_name


def model(source: str | Path | Mapping[str, Any] | ModelConfig) -> ModelConfig:
    """A model from its shipped name or its repository, from a config.json (path, folder, contents), or a GGUF file.

    A draft head that is not shipped is named by its kind and its target, as in `dflash-qwen3-8b`; see `draft_of_kind`.
    After a name, a quantisation can follow, as in `llama-3.1-8b-nvfp4` or `llama-3.1-8b q4_0`.

    >>> model("llama-3.1-8b").parameters
    8030261248
    >>> round(model("llama-3.1-8b-q4_k_m").weight_bytes / 2**30, 2)
    4.58

    Raises:
        InputError: there is no shipped model of this name (the message lists similar names), or the config.json cannot
            be used, see `ModelConfig.from_hf`.
    """
    if isinstance(source, ModelConfig):
        return source
    if isinstance(source, str | Path) and str(source).lower().endswith(".gguf"):
        return ModelConfig.from_gguf(source)
    if not isinstance(source, str):
        return ModelConfig.from_hf(source)
    if known := _known(source) or _packed(source):
        return known
    if not {"/", "\\"} & set(source) and not source.endswith(".json") and not Path(source).is_dir():
        raise InputError(f"{unknown('model', source, model_names())}; the path of a config.json works too")
    return ModelConfig.from_hf(source)


def _known(name: str) -> ModelConfig | None:
    """The shipped model, or the draft for a shipped target, of this name; None if there is none."""
    if shipped := shipped_name(name):
        return shipped_model(shipped)
    head = kind_and_target(name)
    target = shipped_name(head[1]) if head else None
    return draft_of_kind(shipped_model(target), head[0]) if head and target else None


def _packed(name: str) -> ModelConfig | None:
    """The model whose name and quantisation are in `name`; None if it does not consist of these."""
    for quantisation in quantisations():
        base = name.lower().removesuffix(quantisation)
        if base != name.lower() and base[-1:] in ("-", " ") and (known := _known(base[:-1])):
            return known.quantised(quantisation)
    return None


def known_model(source: str | None) -> ModelConfig | None:
    """The model of this name or path, as `model` finds it; None if there is no such model."""
    try:
        return None if source is None else model(source)
    except InputError:
        return None
