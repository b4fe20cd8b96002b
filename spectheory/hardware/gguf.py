"""GGUF files, the format of llama.cpp: metadata and tensors from the header, and what a forward reads of them."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from spectheory.core.errors import InputError
from spectheory.hardware.formats import BLOCKS, Formats
from spectheory.hardware.hf_config import Cache, Shape, Use

KEPT = 4096
"""The longest array of the metadata that is kept; of longer ones, such as the vocabulary, only the length is."""
MOST_ENTRIES = 1_000_000
"""The largest number of metadata entries or tensors that is accepted."""
DEEPEST = 4
"""How deep arrays may be nested."""
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf")
_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "llama4": 4, "olmo2": 4, "exaone4": 4}
"""Architectures in which every n-th layer attends to all tokens, and the other layers to a window. llama.cpp has these
numbers in its source, src/llama-model.cpp, not in the file."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a GGUF file: its name, its dimensions, the inputs first, its type, and its bytes in the file."""

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int

    @property
    def size(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)

    @property
    def layer(self) -> int | None:
        """The number of its layer; None outside the layers."""
        named = _LAYER.fullmatch(self.name)
        return int(named[1]) if named else None


@dataclass(frozen=True)
class Gguf:
    """The header of a GGUF file, or of all parts of a file that was split.

    Attributes:
        where: the name of the file, for errors.
        metadata: the metadata by key; an array that is longer than `KEPT` is replaced by its length.
        tensors: the tensors, in the order of the file.
    """

    where: str
    metadata: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @classmethod
    def read(cls, path: str | Path) -> Gguf:
        """The header of the file, and the tensors of the other parts if the file was split.

        Raises:
            InputError: the file does not exist, is not a GGUF file of version 2 or 3, ends within its header, or its
                header states impossible numbers.
        """
        path = Path(path)
        metadata, tensors = _header(path)
        count, named = metadata.get("split.count", 0), _PART.fullmatch(path.name)
        if isinstance(count, int) and count > 1:
            if named is None or int(named[2]) != count:
                raise InputError(f"{path} is one of {count} files: give the first, like NAME-00001-of-{count:05}.gguf")
            for part in range(2, count + 1):
                tensors += _header(path.with_name(f"{named[1]}-{part:05}-of-{count:05}.gguf"))[1]
        return cls(str(path), metadata, tuple(tensors))

    def number(self, key: str, default: int | None = None, layer: int | None = None) -> int:
        """A number of the architecture's metadata, else `default`. Of an array, the one of `layer`, or the largest.

        Raises:
            InputError: the value is not a whole number from 0 to 1e9, or there is neither a value nor a default.
        """
        name = f"{self.metadata.get('general.architecture')}.{key}"
        found = self.metadata.get(name, default)
        numbers = found if isinstance(found, list) else [found]
        if not numbers or not all(isinstance(n, int) and 0 <= n <= 10**9 for n in numbers):
            raise InputError(
                f"{self.where}: the metadata {name} must be whole numbers from 0 to 1e9, got {found!r:.60}: convert "
                "the model again"
            )
        if layer is None or len(numbers) == 1:
            return int(max(numbers))
        if layer >= len(numbers):
            raise InputError(f"{self.where}: {name} must have a number for each layer, got {len(numbers)}")
        return int(numbers[layer])


class _Reader:
    """Reads little-endian values from a file and refuses to read past its end."""

    def __init__(self, file: BinaryIO, where: Path, left: int) -> None:
        self.file, self.where, self.left = file, where, left

    def damaged(self, what: str) -> InputError:
        return InputError(f"{self.where} {what}: the file is damaged, download it again")

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise self.damaged(f"ends within its header: {size:,} bytes are announced where {self.left:,} are left")
        self.left -= size
        return self.file.read(size)

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def count(self, what: str) -> int:
        count = self.number("Q")
        if count > MOST_ENTRIES:
            raise self.damaged(f"announces {count:,} {what}, at most {MOST_ENTRIES:,} are possible")
        return count

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth >= DEEPEST:
            raise self.damaged(f"has metadata of the unknown type {kind}")
        kind, count = self.number("I"), self.number("Q")
        if count * (struct.calcsize(_NUMBERS[kind]) if kind in _NUMBERS else 8) > self.left:
            raise self.damaged(f"ends within its header: it announces an array of {count:,} values")
        values = [self.value(kind, depth + 1) for _ in range(count)]
        return values if count <= KEPT else count

    def tensor(self) -> Tensor:
        name, dimensions = self.text(), self.number("I")
        if not 1 <= dimensions <= 4:
            raise self.damaged(f"has the tensor {name!r:.60} with {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        kind, _ = self.number("I"), self.number("Q")
        if kind not in BLOCKS:
            raise InputError(f"{self.where}: tensor {name!r:.60} has the unknown type {kind}: update spectheory")
        title, weights, size = BLOCKS[kind]
        if min(shape) < 1 or math.prod(shape) >= 2**50 or shape[0] % weights:
            raise self.damaged(f"has the tensor {name!r:.60} of type {title} with the shape {shape}")
        return Tensor(name, shape, title, math.prod(shape) // weights * size)


def _header(path: Path) -> tuple[dict[str, Any], list[Tensor]]:
    """The metadata and the tensors of one file."""
    try:
        with path.open("rb") as file:
            reader = _Reader(file, path, path.stat().st_size)
            magic, version = reader.take(min(4, reader.left)), reader.number("I") if reader.left >= 4 else 0
            if magic != b"GGUF" or version not in (2, 3):
                raise InputError(
                    f"{path} is not a GGUF file of version 2 or 3 in little-endian order: it begins with {magic!r} and "
                    f"version {version}; give a GGUF file, or convert the model again"
                )
            tensors, entries = reader.count("tensors"), reader.count("metadata entries")
            metadata = {reader.text(): reader.value(reader.number("I")) for _ in range(entries)}
            return metadata, [reader.tensor() for _ in range(tensors)]
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: give a GGUF file, a config.json or a shipped name") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read as a GGUF file: {error}") from error


def shape_and_formats(file: Gguf) -> tuple[Shape, Formats]:
    """How a forward reads the tensors of `file`, and their bytes. States of recurrent layers are not counted.

    Raises:
        InputError: metadata of the architecture are missing or impossible.
    """
    layers = file.number("block_count") - file.number("nextn_predict_layers", 0)
    tensors = [one for one in file.tensors if one.layer is None or one.layer < layers]
    tied = not any(one.name == "output.weight" for one in tensors)
    uses = [_use(one, tied=tied) for one in tensors]
    sizes: Counter[Use] = Counter()
    stored: Counter[Use] = Counter()
    types: Counter[str] = Counter()
    for one, use in zip(tensors, uses, strict=True):
        sizes[use] += one.size
        stored[use] += one.bytes
        if use in ("matrix", "expert"):
            types[one.type.lower()] += one.size
    sparse = len({one.layer for one, use in zip(tensors, uses, strict=True) if use == "expert"})
    experts, taken = (file.number(key, 0) if sparse else 0 for key in ("expert_count", "expert_used_count"))
    if not sizes["matrix"] or not sizes["head"]:
        raise InputError(f"{file.where} has no layers or no output head: give the GGUF file of a whole language model")
    if sparse and not 0 < taken <= experts:
        raise InputError(f"{file.where}: expert_used_count must be between 1 and the {experts} experts, got {taken}")
    latent = file.number("attention.kv_lora_rank", 0) > 0
    shape = Shape(
        layers=layers,
        linear_parameters=sizes["matrix"],
        other_parameters=sizes["other"] + sizes["head"],
        lookup_parameters=sizes["lookup"],
        kv_heads=1 if latent else max(1, file.number("attention.head_count_kv", 0)),
        caches=_caches(file, tensors, latent=latent),
        moe_layers=sparse,
        experts=experts,
        experts_per_token=taken,
        expert_linear_parameters=sizes["expert"] // max(sparse * experts, 1),
        latent=latent,
    )

    def mean(*uses: Use) -> float:
        total = sum(sizes[use] for use in uses)
        return sum(stored[use] for use in uses) / total if total else 2.0

    arithmetic = "fp32" if all(one.type == "F32" for one in tensors) else "bf16"
    means = mean("matrix"), mean("expert"), mean("other", "head"), mean("lookup")
    return shape, Formats(*means, 2.0, arithmetic, types.most_common(1)[0][0])


def _use(tensor: Tensor, *, tied: bool) -> Use:
    if tensor.name == "output.weight" or (tied and tensor.name == "token_embd.weight"):
        return "head"
    if tensor.name in ("token_embd.weight", "position_embd.weight", "per_layer_token_embd.weight"):
        return "lookup"
    if "_exps." in tensor.name:
        return "expert"
    apart = "ffn_gate_inp" in tensor.name or ".ssm_conv1d." in tensor.name
    return "matrix" if tensor.layer is not None and len(tensor.shape) > 1 and not apart else "other"


def _caches(file: Gguf, tensors: list[Tensor], *, latent: bool) -> tuple[Cache, ...]:
    """What the layers with attention cache: layers with a window apart from the others."""
    keys = (".attn_k.", ".attn_qkv.", ".attn_kv_a_")
    recurrent = {one.layer for one in tensors if ".ssm_conv1d." in one.name}
    attending = {one.layer for one in tensors if one.layer is not None and any(key in one.name for key in keys)}
    kinds: Counter[tuple[int, int, int | None]] = Counter()
    for layer in sorted(attending - recurrent):
        heads, window = file.number("attention.head_count", layer=layer), _window(file, layer)
        if latent:
            rank, rotary = file.number("attention.kv_lora_rank"), file.number("rope.dimension_count")
            kinds[rank + rotary, 2 * heads * (2 * rank + rotary), window] += 1
            continue
        usual = file.number("embedding_length") // max(heads, 1)
        suffix = "_swa" if window is not None and file.number("attention.key_length_swa", 0) else ""
        both = sum(file.number(f"attention.{name}_length{suffix}", usual) for name in ("key", "value"))
        kinds[file.number("attention.head_count_kv", heads, layer) * both, 2 * heads * both, window] += 1
    return tuple(Cache(count, values, flops, window) for (values, flops, window), count in kinds.items())


def _window(file: Gguf, layer: int) -> int | None:
    """The number of tokens to which a layer attends; None if it attends to all."""
    width = file.number("attention.sliding_window", file.number("attention.chunk_size", 0))
    architecture, key = file.metadata.get("general.architecture"), "attention.sliding_window_pattern"
    if isinstance(file.metadata.get(f"{architecture}.{key}"), list):
        return width if width and file.number(key, layer=layer) else None
    every = file.number(key, _FULL_EVERY.get(str(architecture), 0))
    return width if width and every and (layer + 1) % every else None
