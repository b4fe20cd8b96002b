"""Reading a config.json, with the quantisation that is stated in a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import from_json


def read_config(path: Path) -> tuple[Mapping[str, Any], str]:
    """The contents of a config.json, given as a file or as its folder, and its path.

    Raises:
        InputError: the file does not exist or is not a config.json.
    """
    try:
        path = path / "config.json" if path.is_dir() else path
        config = from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: give a config.json, its folder, or a shipped name") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a config.json: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a config.json: it must contain an object, got {type(config).__name__}")
    return _with_quantisation(config, path.with_name("hf_quant_config.json")), str(path)


def _with_quantisation(config: Mapping[str, Any], beside: Path) -> Mapping[str, Any]:
    """`config` with the quantisation that NVIDIA Model Optimizer writes into a file of its own beside the config."""
    if "quantization_config" in config or not beside.is_file():
        return config
    try:
        found = from_json(beside.read_text(encoding="utf-8"))["quantization"]
        return {**config, "quantization_config": {"quant_method": "modelopt", **found}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{beside} cannot be read as a hf_quant_config.json: {error!r:.80}") from error
