"""Profiles of two models as one measured `Latency` per batch size, where `record_path` finds them.

The faster of launches from Python and a CUDA graph counts. The time outside the forwards is not measured: it is the
roofline's for Hugging Face's decoder. Engines fuse these kernels, so their forwards are faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.profile import file_of, read
from spectheory import Latency, Provenance
from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.latency import record_path
from spectheory.hardware.models import model as model_of

PAIRS = (("llama-3.1-8b", "llama-3.2-1b"), ("qwen3-8b", "qwen3-0.6b"))
"""(target, draft) with the same vocabulary."""
Table = dict[tuple[int, int, int], tuple[float, float]]
"""Median and interquartile range of the seconds by (batch, context, tokens)."""


def write(folder: Path, to: Path) -> Iterator[Path]:
    """Write a record for each pair and batch size that the profiles in `folder` hold; yields their paths."""
    for names in PAIRS:
        files = [file_of(folder, name) for name in names]
        if all(file.exists() for file in files):
            for latency in of_pair(*map(read, files)):
                path = record_path(str(latency.provenance.device), *names, latency.batch, to)
                latency.save(path)
                yield path


def of_pair(target: dict[str, Any], draft: dict[str, Any]) -> Iterator[Latency]:
    """One record per batch size, with the contexts at which both models ran one token.

    Sizes that did not fit at some context are left out.

    Raises:
        InputError: the profiles differ in device, versions or grid.
    """
    stamps = [Provenance.from_dict(profile["provenance"]) for profile in (target, draft)]
    for name in ("device", "versions", "grid"):
        one, other = (
            profile["grid"] if name == "grid" else getattr(stamp, name)
            for profile, stamp in zip((target, draft), stamps, strict=True)
        )
        if one != other:
            raise InputError(
                f"the profiles of {target['model']} and {draft['model']} must have the same {name}, got {one} and "
                f"{other}: measure both again on one machine"
            )
    tables = _table(target), _table(draft)
    for batch in target["grid"]["batches"]:
        measured = {(context, n) for b, context, n in tables[0].keys() & tables[1].keys() if b == batch}
        contexts = sorted(context for context, n in measured if n == 1)
        tokens = [n for n in target["grid"]["tokens"] if all((context, n) in measured for context in contexts)]
        if contexts:
            names = target["model"], draft["model"]
            timed = [np.array([[table[batch, c, n] for n in tokens] for c in contexts]) for table in tables]
            overheads = EngineCosts.of("hf").overheads(model_of(names[0]), model_of(names[1]), batch)
            yield Latency(
                tokens=np.array(tokens),
                contexts=np.array(contexts),
                target_seconds=timed[0][..., 0],
                draft_seconds=timed[1][..., 0],
                target_spread_seconds=timed[0][..., 1],
                draft_spread_seconds=timed[1][..., 1],
                **vars(overheads),
                provenance=stamps[0].replace(target=names[0], draft=names[1], batch=batch),
            )


def _table(profile: dict[str, Any]) -> Table:
    """The times of the faster way at each point that was run."""
    found = {}
    for point in profile["points"]:
        ways = [point[way] for way in ("launched", "graph") if "median_seconds" in point.get(way, {})]
        if ways and "skipped" not in point:
            best = min(ways, key=lambda timed: timed["median_seconds"])
            found[point["batch"], point["context"], point["tokens"]] = best["median_seconds"], best["spread_seconds"]
    return found
