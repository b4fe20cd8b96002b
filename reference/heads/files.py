"""Reading and writing the folders of draft heads: config.json and weights in safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from reference.heads.config import HeadConfig
from reference.heads.layouts import LAYOUTS, Fields, Layout, layout_named
from reference.heads.modules import Eagle3Head, Head, new_head
from spectheory.core.errors import InputError
from spectheory.core.files import owned, read_json, whole_file, write_whole

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
"""The files of a head; the last one is there where the weights are in several files."""
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
        parameters: number of weights; embeddings and output head that it borrows from its target are not counted.
        files: for each tensor of the module, the file and the name there.
        shapes: shape of each tensor under its name in the file.
    """

    folder: Path
    layout: str
    config: HeadConfig
    dtype: torch.dtype
    parameters: int
    files: Mapping[str, tuple[Path, str]]
    shapes: Mapping[str, tuple[int, ...]]


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
        return bool(owners) and config.get("num_hidden_layers") == 1 and "fc.weight" in _places(folder)
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
    expected = expected_shapes(head, layout.name)
    _check_tensors(folder, {name: shape for name, (_, shape, _) in found.items()}, expected, head)
    dtype = _common_type(folder, {name: kind for name, (_, _, kind) in found.items()})
    files = {name: (found[listed][0], listed) for name, listed in _module_names(head, layout).items()}
    parameters = sum(prod(shape) for name, shape in expected.items() if name not in MAPS)
    return HeadFile(folder, layout.name, head, dtype, parameters, files, expected)


def expected_shapes(config: HeadConfig, layout: str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor in the file of a head, under its name in this layout."""
    place = layout_named(layout)
    names, state = _module_names(config, place), _empty(config)
    expected = {listed: tuple(state[name].shape) for name, listed in names.items()}
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
    tensors = {name: _tensor(*place) for name, place in file.files.items()}
    head = new_head(file.config, attention).to(dtype or file.dtype)
    head.load_state_dict(tensors, strict=True)
    if isinstance(head, Eagle3Head):
        head.check_vocabulary()
    if _identity_map(file.config, layout_named(file.layout)):
        where = _places(file.folder)
        if _tensor(where["d2t"], "d2t").any() or not _tensor(where["t2d"], "t2d").all():
            raise InputError(
                f"d2t and t2d in {folder} must map every token to itself: draft_vocab_size is the whole vocabulary"
            )
    return head.to(device).eval().requires_grad_(False)


def write_head(head: Head, folder: str | Path, layout: str, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write a head in a layout; return the paths of the weights and of config.json.

    Raises:
        InputError: the layout cannot express the head, or a file exists and `overwrite` is False, or another process
            writes to the folder.
    """
    place, folder = layout_named(layout), Path(folder)
    if what := place.refusal(head.config):
        raise InputError(f"the layout {layout} cannot express {what}: write another layout")
    files = folder / WEIGHTS, folder / CONFIG
    taken = [file for file in (*files, folder / INDEX) if file.exists()]
    if taken and not overwrite:
        raise InputError(f"{taken[0]} already exists: name another folder, or replace it with overwrite=True")
    state = head.state_dict()
    tensors = {listed: state[name].contiguous().cpu() for name, listed in _module_names(head.config, place).items()}
    if _identity_map(head.config, place):
        size = head.config.vocab_size
        tensors |= {"d2t": torch.zeros(size, dtype=torch.int64), "t2d": torch.ones(size, dtype=torch.bool)}
    with owned(folder, folder / "writer.lock", "name another folder"):
        with whole_file(files[0]) as partial:
            save_file(tensors, partial, metadata={"format": "pt"})
        (folder / INDEX).unlink(missing_ok=True)
        write_whole(files[1], json.dumps(place.written(head.config, head.dtype), indent=2) + "\n")
    return files


def convert_head(source: str | Path, layout: str, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write the head in folder `source` in another layout; see `read_head` and `write_head`."""
    if Path(source).resolve() == Path(folder).resolve():
        raise InputError(f"{folder} is the folder of the head itself: name another folder")
    return write_head(read_head(source), folder, layout, overwrite=overwrite)


def _empty(config: HeadConfig) -> dict[str, Tensor]:
    """The tensors of a head without memory for weights."""
    with torch.device("meta"):
        return new_head(config).state_dict()


def _module_names(config: HeadConfig, layout: Layout) -> dict[str, str]:
    """For each tensor of the module, its name in the layout."""
    return {name: layout.tensor_name(name, config) for name in _empty(config)}


def _identity_map(config: HeadConfig, layout: Layout) -> bool:
    """Whether the file has a map of a draft vocabulary that is the whole vocabulary."""
    return layout.whole_map and config.kind == "eagle3" and config.draft_vocab_size is None


def _json(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(f"{file} must be a JSON object, got {found!r:.60}")
    return found


def _places(folder: Path) -> dict[str, Path]:
    """The file of each tensor: of the only file, or of the files that an index names."""
    if (folder / WEIGHTS).is_file():
        with _opened(folder / WEIGHTS) as file:
            return dict.fromkeys(file.keys(), folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        raise InputError(
            f"{folder} holds neither {WEIGHTS} nor {INDEX}: weights in other files, such as pytorch_model.bin, can run "
            "code and are never loaded; convert them, where you trust them, with safetensors.torch.save_file"
        )
    places = _json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(Path(str(name)).name == name for name in places.values()):
        raise InputError(f"weight_map in {folder / INDEX} must name a file of the folder for each tensor")
    for name in sorted(set(places.values())):
        with _opened(folder / name) as file:
            listed = {tensor for tensor, place in places.items() if place == name}
            if listed != set(file.keys()):
                odd = sorted(listed ^ set(file.keys()))
                raise InputError(f"{folder / INDEX} and {name} do not list the same tensors: {', '.join(odd[:5])}")
    return {tensor: folder / name for tensor, name in places.items()}


def _tensors(folder: Path) -> dict[str, tuple[Path, tuple[int, ...], str]]:
    """File, shape and type of each tensor of a folder, from the headers of the files."""
    found = {}
    for name, place in _places(folder).items():
        with _opened(place) as file:
            part = file.get_slice(name)
            found[name] = (place, tuple(part.get_shape()), part.get_dtype())
    return found


def _opened(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} cannot be read as safetensors: {error}; fetch or convert it anew") from error


def _tensor(file: Path, name: str) -> Tensor:
    with _opened(file) as opened:
        return opened.get_tensor(name)


def _check_tensors(
    folder: Path, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]], config: HeadConfig
) -> None:
    missing, unknown = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if set(missing) & set(MAPS):
        raise InputError(
            f"{folder} has a draft vocabulary of {config.outputs} of {config.vocab_size} tokens without its map: the "
            f"tensors {', '.join(missing)} are missing; fetch or convert it anew"
        )
    if missing or unknown:
        lists = [f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise InputError(f"{folder} does not hold the tensors of this head ({config.kind}); {'; '.join(lists)}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise InputError(
                f"{name} in {folder} has shape {found[name]}, the config.json of this head gives {shape}: its weights "
                "and its config.json do not belong together"
            )


def _common_type(folder: Path, kinds: dict[str, str]) -> torch.dtype:
    """The type of all weights; raises InputError if they differ or are not floating-point numbers."""
    for name, allowed in MAPS.items():
        if name in kinds and kinds[name] not in allowed:
            raise InputError(f"{name} in {folder} must be of type {allowed[0]}, got {kinds[name]}")
    floats = sorted({kind for name, kind in kinds.items() if name not in MAPS})
    if len(floats) != 1 or floats[0] not in FLOATS:
        raise InputError(f"the weights in {folder} must have one type of {', '.join(FLOATS)}, got {', '.join(floats)}")
    return FLOATS[floats[0]]
