"""GPUs: memory, bandwidth and dense peak rates. The table is `data/gpus.csv`, which names the source of each row.

Its `driver_names` are the names that drivers report, separated by semicolons, where they differ from the maker's name.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError, unknown
from spectheory.core.files import from_json, read_text, shipped

CUDA = "CUDA"
BACKENDS = {"nvidia": CUDA, "amd": "ROCm", "apple": "Metal"}
"""The software whose kernels run on the GPUs of a maker."""
OTHER_KERNELS = ("pascal", "volta")
"""Architectures of NVIDIA on which other kernels unpack weights, for lack of units for integers."""
NEEDED = ("mem_gb", "mem_bw_gb_s", "bf16_dense_tflops")


@dataclass(frozen=True)
class Gpu:
    """One GPU with the maker's numbers. Operations per second are dense: half of the maker's number "with sparsity".

    Attributes:
        name: key in the table, such as `h100_sxm`.
        full_name: the maker's name.
        memory_bytes: memory, with 1 GB = 1e9 bytes.
        bandwidth_bytes_per_second: peak bandwidth of the memory.
        bf16_flops_per_second: dense peak in 16 bits with float32 accumulation.
        fp8_flops_per_second: dense peak in fp8; None if the GPU has no fp8 units.
        sources: the sources of the numbers, and notes.
        int8_flops_per_second: dense peak in int8; None if it is unknown.
        fp4_flops_per_second: dense peak in fp4; None if the GPU has no fp4 units.
        link: what connects the GPU to others, such as `NVLink 4`; empty if that is unknown.
        link_bytes_per_second: bandwidth of this link in one direction; None if that is unknown.
        backend: whose kernels run: `CUDA`, `ROCm`, `Metal`, or an architecture of NVIDIA with other kernels.
    """

    name: str
    full_name: str
    memory_bytes: float
    bandwidth_bytes_per_second: float
    bf16_flops_per_second: float
    fp8_flops_per_second: float | None
    sources: tuple[str, ...]
    int8_flops_per_second: float | None = None
    fp4_flops_per_second: float | None = None
    link: str = ""
    link_bytes_per_second: float | None = None
    backend: str = CUDA

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith(("_bytes", "_second")) and value is not None and not 0 < value < float("inf"):
                raise InputError(f"{field.name} of GPU {self.name!r} must be finite and above 0, got {value}")


def gpu(name: str | Gpu) -> Gpu:
    """The GPU with this key, full name or driver name, in any case and with or without spaces, hyphens and underscores.

    A `Gpu` of your own is returned unchanged. A name that ends in .csv or .json is a file with one GPU: a row, or an
    object, with columns of `data/gpus.csv`.

    >>> gpu("h100_sxm").bandwidth_bytes_per_second
    3350000000000.0

    Raises:
        InputError: there is no such GPU; the message lists similar names. Or the file lacks a column that is needed.
    """
    if isinstance(name, str) and name.endswith((".csv", ".json")):
        return _gpu_in(Path(name))
    if isinstance(name, Gpu):
        return name
    if not isinstance(name, str):
        raise InputError(f"gpu must be a name, such as h100_sxm, or a Gpu, got {name!r:.80}")
    if known := _by_name().get(_plain(name)):
        return known
    raise InputError(unknown("GPU", name, _table()))


def known_gpu(name: str | None) -> Gpu | None:
    """The GPU of this name, as `gpu` finds it; None if there is no such GPU."""
    try:
        return None if name is None else gpu(name)
    except InputError:
        return None


def gpu_names() -> tuple[str, ...]:
    """The keys of all GPUs in the table."""
    return tuple(_table())


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character not in " -_")


@cache
def _table() -> dict[str, Gpu]:
    return {row["key"]: _gpu(row) for row in csv.DictReader(shipped("gpus.csv").splitlines())}


@cache
def _by_name() -> dict[str, Gpu]:
    """The GPUs by key, full name and driver names, without spaces, hyphens and underscores."""
    rows = csv.DictReader(shipped("gpus.csv").splitlines())
    every = [(row["key"], [row["key"], row["name"], *row["driver_names"].split("; ")]) for row in rows]
    return {_plain(name): _table()[key] for key, names in every for name in names if name}


def _gpu_in(file: Path) -> Gpu:
    text = read_text(file)
    try:
        (row,) = [from_json(text)] if file.suffix == ".json" else csv.DictReader(text.splitlines())
        return _gpu({"key": file.stem, "name": file.stem, "primary_source": str(file)} | row)
    except (KeyError, ValueError, TypeError) as error:
        needed = f"{file} must have one GPU with {', '.join(NEEDED)} as numbers"
        raise InputError(f"{needed}, and other columns of data/gpus.csv if you know them ({error!r:.60})") from error


def _gpu(row: Mapping[str, Any]) -> Gpu:
    row = defaultdict(str, row)

    def rate(column: str, unit: float = 1e12) -> float | None:
        return float(row[column]) * unit if row[column] else None

    vendor = row["vendor"]
    return Gpu(
        name=row["key"],
        full_name=row["name"],
        memory_bytes=float(row["mem_gb"]) * 1e9,
        bandwidth_bytes_per_second=float(row["mem_bw_gb_s"]) * 1e9,
        bf16_flops_per_second=float(row["bf16_dense_tflops"]) * 1e12,
        fp8_flops_per_second=rate("fp8_dense_tflops"),
        sources=tuple(row[column] for column in ("primary_source", "cross_check", "notes") if row[column]),
        int8_flops_per_second=rate("int8_dense_tops"),
        fp4_flops_per_second=rate("fp4_dense_tflops"),
        link=row["link"],
        link_bytes_per_second=rate("link_gb_s", 1e9),
        backend=row["arch"].capitalize() if row["arch"] in OTHER_KERNELS else BACKENDS.get(vendor, vendor) or CUDA,
    )
