"""The library of measured `Latency` records: files `<gpu>/<target>/<draft>/batch-<n>.json` in a folder.

The folder of the package is `data/latency`; without measurements it is empty. `python -m benchmarks.gpu` measures and
writes such folders. A measured record is always preferred to a computed one.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.gpus import gpu as gpu_of

MEASURE = "measure with python -m benchmarks.gpu"


def device_key(name: str) -> str:
    """The key of a known GPU, from any of its names. For another device, its name in the form of a key.

    >>> device_key("NVIDIA H100 80GB HBM3"), device_key("Some Card 9000")
    ('h100_sxm', 'some_card_9000')
    """
    try:
        return gpu_of(name).name
    except ValueError:
        return "_".join(name.lower().replace("/", " ").replace("-", " ").split())


def path_of(gpu: str, target: str, draft: str, batch: int) -> Path:
    """The path of a record in its folder."""
    return Path(device_key(gpu), target, draft, f"batch-{batch}.json")


def exists(gpu: str, target: str, draft: str, batch: int, folder: Path | None = None) -> bool:
    """Whether the folder has this record; `folder` None is the folder of the package."""
    return _place(gpu, target, draft, batch, folder).is_file()


def find(gpu: str, target: str, draft: str, batch: int, folder: Path | None = None) -> tuple[str, str]:
    """The text of a record, and its path.

    Raises:
        InputError: there is no such record; the message lists the records of the folder.
    """
    place = _place(gpu, target, draft, batch, folder)
    if place.is_file():
        return place.read_text(encoding="utf-8"), str(place)
    inside = "" if folder is None else f" in {folder}"
    raise InputError(
        f"no measured record for gpu={gpu!r}, target={target!r}, draft={draft!r}, batch={batch}{inside}: there are "
        f"{known_in(folder)}; {MEASURE}"
    )


def known_in(folder: Path | None) -> str:
    """The records of a folder in words, such as `h100_sxm, llama-3.1-8b with llama-3.2-1b at batch 1, 4`, or `none`."""
    known = []
    for gpu in _inside(_root(folder)):
        for target in _inside(gpu):
            for draft in _inside(target):
                sizes = [file.name.removeprefix("batch-").removesuffix(".json") for file in _inside(draft)]
                batches = ", ".join(map(str, sorted(int(size) for size in sizes if is_digits(size))))
                known.append(f"{gpu.name}, {target.name} with {draft.name} at batch {batches}")
    return "; ".join(known) or "none"


def require_place(stamp: Provenance, where: str, *, gpu: str, target: str, draft: str, batch: int) -> None:
    """Check that a record was measured for a GPU, two models and a batch size.

    What the provenance of the record does not name is not checked.

    Raises:
        InputError: it was measured for others.
    """
    asked = {"gpu": device_key(gpu), "target": target, "draft": draft, "batch": batch}
    on_gpu = stamp.gpu or (stamp.device if stamp.device and not stamp.device.startswith(("cuda", "cpu")) else None)
    found = {"gpu": on_gpu and device_key(on_gpu), "target": stamp.target, "draft": stamp.draft, "batch": stamp.batch}
    for name, there in found.items():
        if there is not None and there != asked[name]:
            raise InputError(
                f"{where} was measured for {name} {there}, not {asked[name]}: move the file to "
                "<gpu>/<target>/<draft>/batch-<n>.json"
            )


def _root(folder: Path | None) -> Traversable:
    return files("spectheory") / "data" / "latency" if folder is None else folder


def _place(gpu: str, target: str, draft: str, batch: int, folder: Path | None) -> Traversable:
    return _root(folder).joinpath(*path_of(gpu, target, draft, batch).parts)


def _inside(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else []
