"""`Gguf`, the header of a GGUF file (the format of llama.cpp): metadata and tensors, without their weights."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from spectheory.core.errors import InputError
from spectheory.hardware.gguf_types import BLOCKS

MAGIC = b"GGUF"
KEPT = 4096
"""The longest array of the metadata that is kept; of longer ones, such as the vocabulary, only the length is."""
MOST_ENTRIES = 1_000_000
"""The largest number of metadata entries or tensors that is accepted."""
DEEPEST = 4
"""How deep arrays may be nested."""
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True)
class Tensor:
    """A tensor of a GGUF file.

    Attributes:
        name: its name, such as `blk.0.attn_q.weight`.
        shape: its dimensions, the inputs first.
        type: the name of its type, such as `Q4_K`.
        bytes: its size in the file.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int

    @property
    def size(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)


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
        for part in _other_parts(path, metadata):
            tensors += _header(part)[1]
        return cls(str(path), metadata, tuple(tensors))

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number of the metadata of the architecture, else `default`. Of an array, the largest entry.

        Raises:
            InputError: the value is not a whole number from 0 to 1e9, or there is neither a value nor a default.
        """
        value = self.values(key)
        if not value:
            if default is None:
                raise InputError(f"{self.where} lacks the metadata {self.architecture}.{key}: convert the model again")
            return default
        return max(value)

    def values(self, key: str) -> tuple[int, ...]:
        """The whole numbers under a key of the architecture: one, one for each layer, or none."""
        found = self.metadata.get(f"{self.architecture}.{key}")
        if found is None:
            return ()
        numbers = tuple(found) if isinstance(found, list) else (found,)
        if not numbers or not all(isinstance(n, int) and 0 <= n <= 10**9 for n in numbers):
            raise InputError(
                f"{self.where}: {self.architecture}.{key} must be whole numbers from 0 to 1e9, got {found!r:.60}"
            )
        return tuple(int(n) for n in numbers)

    @property
    def architecture(self) -> str:
        """The name of the architecture, such as `llama`."""
        name = self.metadata.get("general.architecture")
        if not isinstance(name, str):
            raise InputError(f"{self.where} lacks the metadata general.architecture: convert the model again")
        return name


class _Reader:
    """Reads little-endian values from a file and refuses to read past its end."""

    def __init__(self, file: BinaryIO, where: Path, left: int) -> None:
        self.file, self.where, self.left = file, where, left

    def take(self, size: int) -> bytes:
        self.require(size)
        self.left -= size
        return self.file.read(size)

    def skip(self, size: int) -> None:
        self.require(size)
        self.left -= size
        self.file.seek(size, 1)

    def require(self, size: int) -> None:
        if size > self.left:
            raise InputError(
                f"{self.where} ends within its header: {size:,} bytes are announced where {self.left:,} are left; "
                "download the file again"
            )

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def count(self, what: str) -> int:
        count = self.number("Q")
        if count > MOST_ENTRIES:
            raise InputError(
                f"{self.where} announces {count:,} {what}, at most {MOST_ENTRIES:,} are possible: the file is damaged, "
                "download it again"
            )
        return count

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY and depth < DEEPEST:
            return self.array(depth)
        raise InputError(
            f"{self.where} has metadata of the unknown type {kind}: the file is damaged, download it again"
        )

    def array(self, depth: int) -> list[Any] | int:
        kind, count = self.number("I"), self.number("Q")
        least = struct.calcsize(_NUMBERS[kind]) if kind in _NUMBERS else 8
        self.require(count * least)
        if count <= KEPT:
            return [self.value(kind, depth + 1) for _ in range(count)]
        if kind in _NUMBERS:
            self.skip(count * least)
        else:
            for _ in range(count):
                self.skip(self.number("Q")) if kind == _STRING else self.value(kind, depth + 1)
        return count

    def tensor(self) -> Tensor:
        name, dimensions = self.text(), self.number("I")
        if not 1 <= dimensions <= 4:
            raise InputError(f"{self.where}: tensor {name!r:.60} must have 1 to 4 dimensions, got {dimensions}")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        kind, _ = self.number("I"), self.number("Q")
        if kind not in BLOCKS:
            raise InputError(f"{self.where}: tensor {name!r:.60} has the unknown type {kind}: update spectheory")
        title, weights, size = BLOCKS[kind]
        if min(shape) < 1 or math.prod(shape) >= 2**50 or shape[0] % weights:
            raise InputError(
                f"{self.where}: tensor {name!r:.60} of type {title} cannot have the shape {shape}: the file is "
                "damaged, download it again"
            )
        return Tensor(name, shape, title, math.prod(shape) // weights * size)


def _header(path: Path) -> tuple[dict[str, Any], list[Tensor]]:
    """The metadata and the tensors of one file."""
    try:
        with path.open("rb") as file:
            reader = _Reader(file, path, path.stat().st_size)
            _require_version(reader)
            tensors, entries = reader.count("tensors"), reader.count("metadata entries")
            metadata = {reader.text(): reader.value(reader.number("I")) for _ in range(entries)}
            return metadata, [reader.tensor() for _ in range(tensors)]
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: give a GGUF file, a config.json or a shipped name") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read as a GGUF file: {error}") from error


def _require_version(reader: _Reader) -> None:
    where, magic = reader.where, reader.take(min(4, reader.left))
    if magic != MAGIC:
        raise InputError(f"{where} is not a GGUF file: it begins with {magic!r}, not with {MAGIC!r}; give a GGUF file")
    version = reader.number("I")
    if version not in (2, 3):
        order = " (a big-endian file)" if version in (2 << 24, 3 << 24) else ""
        raise InputError(
            f"{where} has version {version} of GGUF{order}, versions 2 and 3 in little-endian order are read: convert "
            "the model again"
        )


def _other_parts(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """The other files of a model that was split into several."""
    count = metadata.get("split.count", 0)
    if not isinstance(count, int) or count <= 1:
        return []
    named = _PART.fullmatch(path.name)
    if named is None or int(named[3]) != count or int(named[2]) != 1:
        raise InputError(
            f"{path} is one of the {count} files of a split model: give the first, named like "
            f"NAME-00001-of-{count:05}.gguf"
        )
    return [path.with_name(f"{named[1]}-{part:05}-of-{count:05}.gguf") for part in range(2, count + 1)]
