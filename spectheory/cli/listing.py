"""The command `list`: GPUs, models, published rates, engines, drafters and verifiers by name, and the sample files."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import spectheory
from spectheory import engines
from spectheory.cli.options import Json
from spectheory.cli.output import console
from spectheory.core.errors import InputError
from spectheory.core.files import whole_file
from spectheory.engines.published import published_rows
from spectheory.hardware.gpus import gpu, gpu_names
from spectheory.hardware.models import model_names, repository, shipped_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SAMPLES = Path(spectheory.__file__).parent / "data" / "samples"


Kind = StrEnum("Kind", ["gpus", "models", "rates", "engines", "drafters", "verifiers", "samples"])
"""What `list` can list."""


def list_(
    kinds: Annotated[
        list[Kind] | None,
        typer.Argument(
            metavar="KIND", help="gpus, models, rates, engines, drafters, verifiers or samples. Default: all."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the samples into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """List what other commands know by name, and the sample files that the pages of the documentation read."""
    if out is not None:
        _copy_samples(out)
    found = {kind.value: dict(ROWS[kind]()) for kind in (kinds or Kind)}
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for title, rows in found.items():
        width = max(map(len, rows))
        lines = [f"  {name:{width}} {said}" for name, said in rows.items()]
        console.print("\n".join([title, *lines]), markup=False, highlight=False, soft_wrap=True)


def _gpus() -> Iterator[tuple[str, str]]:
    for name in gpu_names():
        found = gpu(name)
        memory, bandwidth = found.memory_bytes / 1e9, found.bandwidth_bytes_per_second / 1e9
        yield name, f"{found.full_name}, {memory:g} GB, {bandwidth:,.0f} GB/s"


def _models() -> Iterator[tuple[str, str]]:
    for name in model_names():
        base = shipped_model(name).base_model
        role = f"draft head for {base}" if base else "model"
        yield name, ", ".join(filter(None, [role, repository(name)]))


def _rates() -> Iterator[tuple[str, str]]:
    for name, row in published_rows().items():
        lengths, taus = row["lengths"].split(), row["taus"].split()
        said = " to ".join(dict.fromkeys(f"{taus[i]} with {lengths[i]} drafted" for i in (0, -1)))
        yield name, f"tau {said}, texts: {row['texts']}; {row['source']}"


def _engines() -> Iterator[tuple[str, str]]:
    for one in engines.engines():
        known = list(one.versions)
        versions = f", plans for {' to '.join(dict.fromkeys((known[0], known[-1])))}" if one.exporter else ""
        reads = [*one.readers, *one.benchmarks]
        yield one.name, f"{one.title}{versions}" + (f"; reads {', '.join(reads)}" if reads else "")


def _drafters() -> Iterator[tuple[str, str]]:
    try:
        from reference.drafters import drafters
    except ModuleNotFoundError as error:
        yield "", f"they need {error.name}: pip install 'spectheory[reference]'"
        return
    for kind in drafters():
        for one in (*kind.greedy(), *kind.small()):
            yield type(one).__name__, _first_line(one)


def _verifiers() -> Iterator[tuple[str, str]]:
    from spectheory.otlp import solvers
    from spectheory.verify import Greedy, verifiers

    for one in (Greedy(), *verifiers(), *solvers()):
        yield type(one).__name__, _first_line(one)


def _first_line(one: object) -> str:
    return (type(one).__doc__ or "").partition("\n")[0]


def _samples() -> Iterator[tuple[str, str]]:
    yield from json.loads((SAMPLES / "samples.json").read_text(encoding="utf-8")).items()


def _copy_samples(folder: Path) -> None:
    for name, _ in _samples():
        source, path = SAMPLES / name, folder / name
        if path.exists() and path.read_bytes() != source.read_bytes():
            raise InputError(f"{path} exists and is not a sample: name another folder")
        with whole_file(path) as partial:
            partial.write_bytes(source.read_bytes())


ROWS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "gpus": _gpus,
    "models": _models,
    "rates": _rates,
    "engines": _engines,
    "drafters": _drafters,
    "verifiers": _verifiers,
    "samples": _samples,
}
"""For each kind, a function that yields names and descriptions."""
