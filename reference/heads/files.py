"""Reading and writing the folders of draft heads: config.json and weights in safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from reference.heads.config import HeadConfig
from reference.heads.layouts import LAYOUTS, layout_named, tensor_names
from reference.heads.modules import Eagle3Head, Head, new_head
from spectheory.core.errors import InputError
from spectheory.core.files import read_json, whole_file, write_whole

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def holds_head(folder: str | Path) -> bool:
    """Whether a folder holds a draft head rather than a model; a config.json that cannot be read counts as a model.

    A head has a draft vocabulary, an architecture of SGLang's heads, or one layer and a tensor `fc.weight`.
    """
    folder = Path(folder)
    try:
        config = _json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        if "draft_vocab_size" in config or "Eagle" in str(config.get("architectures")):
            return True
        return config.get("num_hidden_layers") == 1 and "fc.weight" in _tensors(folder)
    except InputError:
        return False


def _inspected(folder: Path) -> tuple[str, HeadConfig, torch.dtype]:
    config = _json(folder / CONFIG)
    layout = next((layout for layout in LAYOUTS if layout.owns(config)), None)
    if layout is None:
        raise InputError(
            f"{folder / CONFIG} is of no known layout of heads ({', '.join(layout.name for layout in LAYOUTS)}): its "
            f"architectures are {config.get('architectures')!r:.80}"
        )
    found = _tensors(folder)
    head = layout.read(config, own_embedding="embed_tokens.weight" in found)
    expected = expected_shapes(head, layout.name)
    wrong = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    wrong += [f"{name} is unknown" for name in sorted(found.keys() - expected.keys())]
    wrong += [
        f"{name} has shape {found[name][0]}, config.json gives {shape}"
        for name, shape in expected.items()
        if name in found and found[name][0] != shape
    ]
    if wrong:
        raise InputError(f"{folder} does not hold the tensors of this head: {'; '.join(wrong[:5])}")
    if (kind := found["fc.weight"][1]) not in FLOATS:
        raise InputError(f"the weights in {folder} must be of one of the types {', '.join(FLOATS)}, got {kind}")
    return layout.name, head, FLOATS[kind]


def expected_shapes(config: HeadConfig, layout: str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor in the file of a head, under its name in this layout."""
    with torch.device("meta"):
        state = new_head(config).state_dict()
    names = tensor_names(layout, state, config)
    return {stored: tuple(state[name].shape) for name, stored in names.items()}


def read_head(
    folder: str | Path, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None, attention: str = "sdpa"
) -> Head:
    """The head in a folder, in evaluation mode, with weights of type `dtype`, by default as in the file.

    Raises:
        InputError: the folder holds no head of a known layout, a field or tensor is missing, unknown or of another
            shape, `d2t` and `t2d` contradict each other, or the weights are pickled, which can run code.
    """
    folder = Path(folder)
    layout, config, stored_type = _inspected(folder)
    tensors, head = load_file(folder / WEIGHTS), new_head(config, attention).to(dtype or stored_type)
    state = head.state_dict()
    names = tensor_names(layout, state, config)
    head.load_state_dict(state | {name: tensors[stored] for name, stored in names.items()})
    if isinstance(head, Eagle3Head):
        head.check_vocabulary()
    return head.to(device).eval().requires_grad_(False)


def write_head(head: Head, folder: str | Path, layout: str, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write a head in a layout; return the paths of the weights and of config.json.

    Raises:
        InputError: the layout cannot express the head, or a file exists and `overwrite` is False.
    """
    place, folder, config = layout_named(layout), Path(folder), head.config
    if what := place.refusal(config):
        raise InputError(f"the layout {layout} cannot express {what}: write another layout")
    files = folder / WEIGHTS, folder / CONFIG
    if not overwrite and (taken := next((file for file in files if file.exists()), None)):
        raise InputError(f"{taken} already exists: name another folder, or replace it with overwrite=True")
    state = head.state_dict()
    names = tensor_names(layout, state, config)
    tensors = {stored: state[name].contiguous().cpu() for name, stored in names.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(files[0]) as partial:
        save_file(tensors, partial, metadata={"format": "pt"})
    write_whole(files[1], json.dumps(place.written(config, head.dtype), indent=2) + "\n")
    return files


def _json(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(f"{file} must be a JSON object, got {found!r:.60}")
    return found


def _tensors(folder: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    if not (folder / WEIGHTS).is_file():
        raise InputError(
            f"{folder} holds no {WEIGHTS}: weights in other files, such as pytorch_model.bin, can run code and are "
            "never loaded; convert them, where you trust them, with safetensors.torch.save_file"
        )
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in list(file.keys())}
            return {name: (tuple(one.get_shape()), one.get_dtype()) for name, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{folder / WEIGHTS} cannot be read as safetensors: {error}; fetch or convert it anew"
        ) from error
