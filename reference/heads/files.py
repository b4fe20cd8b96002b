"""Reading and writing the folders of draft heads: config.json and weights in safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from reference.heads.config import HeadConfig
from reference.heads.layouts import LAYOUTS, Fields, Layout, layout_named
from reference.heads.modules import Eagle3Head, Head, new_head
from spectheory.core.errors import InputError
from spectheory.core.files import read_json, whole_file, write_whole

CONFIG, WEIGHTS = "config.json", "model.safetensors"
EMBEDDINGS = "embed_tokens.weight"
MAPS = {"d2t": ("I64", "I32"), "t2d": ("BOOL",)}
"""Names of the tensors of a draft vocabulary, and the types that they may have."""
FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


@dataclass(frozen=True)
class HeadFile:
    """A checkpoint of a head, checked, without its weights in memory.

    Attributes:
        folder: the folder.
        layout: name of the layout.
        config: sizes and options of the head, and its target.
        dtype: type of the weights.
    """

    folder: Path
    layout: str
    config: HeadConfig
    dtype: torch.dtype


def holds_head(folder: str | Path) -> bool:
    """Whether a folder holds a draft head rather than a model.

    The config.json of a head names the architecture of a head. Or it names a model with one layer, and the weights
    have a tensor `fc.weight`, which no such model has. A config.json that cannot be read counts as a model.
    """
    folder = Path(folder)
    try:
        config = _json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        owners = [layout for layout in LAYOUTS if layout.owns(config)]
        if "draft_vocab_size" in config or any(layout.certain for layout in owners):
            return True
        return bool(owners) and config.get("num_hidden_layers") == 1 and "fc.weight" in _tensors(folder)
    except InputError:
        return False


def inspect_head(folder: str | Path) -> HeadFile:
    """Read what a folder of a head says, and check names, shapes and types of all tensors.

    Raises:
        InputError: the folder holds no head of a known layout, a field or tensor is missing, unknown or of another
            shape, or the weights are pickled, which can run code.
    """
    folder = Path(folder)
    config = _json(folder / CONFIG)
    layout = next((layout for layout in LAYOUTS if layout.owns(config)), None)
    if layout is None:
        raise InputError(
            f"{folder / CONFIG} is of no known layout of heads ({', '.join(layout.name for layout in LAYOUTS)}): its "
            f"architectures are {config.get('architectures')!r:.80}"
        )
    found = _tensors(folder)
    head = layout.read(Fields(config, folder / CONFIG), own_embedding=EMBEDDINGS in found)
    _check_shapes(folder, {name: shape for name, (shape, _) in found.items()}, expected_shapes(head, layout.name))
    return HeadFile(folder, layout.name, head, _common_type(folder, {name: kind for name, (_, kind) in found.items()}))


def expected_shapes(config: HeadConfig, layout: str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor in the file of a head, under its name in this layout."""
    place = layout_named(layout)
    with torch.device("meta"):
        state = new_head(config).state_dict()
    expected = {place.tensor_name(name, config): tuple(tensor.shape) for name, tensor in state.items()}
    if _identity_map(config, place):
        expected |= {"d2t": (config.vocab_size,), "t2d": (config.vocab_size,)}
    return expected


def read_head(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    attention: str = "sdpa",
) -> Head:
    """The head in a folder, in evaluation mode, with weights of type `dtype`, by default as in the file.

    Raises:
        InputError: see `inspect_head`; or `d2t` and `t2d` contradict each other.
    """
    file = inspect_head(folder)
    layout, tensors = layout_named(file.layout), load_file(file.folder / WEIGHTS)
    head = new_head(file.config, attention).to(dtype or file.dtype)
    head.load_state_dict({name: tensors[layout.tensor_name(name, file.config)] for name in head.state_dict()})
    if isinstance(head, Eagle3Head):
        head.check_vocabulary()
    if _identity_map(file.config, layout) and (tensors["d2t"].any() or not tensors["t2d"].all()):
        raise InputError(
            f"d2t and t2d in {folder} must map every token to itself: draft_vocab_size is the whole vocabulary"
        )
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
    tensors = {place.tensor_name(name, config): one.contiguous().cpu() for name, one in head.state_dict().items()}
    if _identity_map(config, place):
        size = config.vocab_size
        tensors |= {"d2t": torch.zeros(size, dtype=torch.int64), "t2d": torch.ones(size, dtype=torch.bool)}
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(files[0]) as partial:
        save_file(tensors, partial, metadata={"format": "pt"})
    write_whole(files[1], json.dumps(place.written(config, head.dtype), indent=2) + "\n")
    return files


def convert_head(source: str | Path, layout: str, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write the head in folder `source` in another layout; see `read_head` and `write_head`."""
    if Path(source).resolve() == Path(folder).resolve():
        raise InputError(f"{folder} is the folder of the head itself: name another folder")
    return write_head(read_head(source), folder, layout, overwrite=overwrite)


def _identity_map(config: HeadConfig, layout: Layout) -> bool:
    """Whether the file has a map of a draft vocabulary that is the whole vocabulary."""
    return layout.whole_map and config.kind == "eagle3" and config.draft_vocab_size is None


def _json(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(f"{file} must be a JSON object, got {found!r:.60}")
    return found


def _tensors(folder: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each tensor of a folder, from the header of its file."""
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


def _check_shapes(folder: Path, found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    wrong = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    wrong += [f"{name} is unknown" for name in sorted(found.keys() - expected.keys())]
    wrong += [
        f"{name} has shape {found[name]}, config.json gives {shape}"
        for name, shape in expected.items()
        if found.get(name, shape) != shape
    ]
    if wrong:
        raise InputError(f"{folder} does not hold the tensors of this head: {'; '.join(wrong[:5])}")


def _common_type(folder: Path, kinds: dict[str, str]) -> torch.dtype:
    """The type of all weights; raises InputError if they differ or are not floating-point numbers."""
    for name, allowed in MAPS.items():
        if name in kinds and kinds[name] not in allowed:
            raise InputError(f"{name} in {folder} must be of type {allowed[0]}, got {kinds[name]}")
    floats = sorted({kind for name, kind in kinds.items() if name not in MAPS})
    if len(floats) != 1 or floats[0] not in FLOATS:
        raise InputError(f"the weights in {folder} must have one type of {', '.join(FLOATS)}, got {', '.join(floats)}")
    return FLOATS[floats[0]]
