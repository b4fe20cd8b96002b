"""Profiles of two models as one measured `Latency` per batch size, with the roofline's error in its provenance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.profile import file_of, read
from spectheory import Latency, Provenance
from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import Gpu, gpu
from spectheory.hardware.library import path_of
from spectheory.hardware.models import model as model_of
from spectheory.hardware.placement import DEFAULT_ENGINE
from spectheory.hardware.roofline import Roofline

PAIRS = (("llama-3.1-8b", "llama-3.2-1b"), ("qwen3-8b", "qwen3-0.6b"))
"""(target, draft) with the same vocabulary."""
Table = dict[tuple[int, int, int], tuple[float, float]]
"""Median and spread in seconds by (batch, context, tokens)."""


@dataclass(frozen=True)
class Errors:
    """The roofline's relative errors at a model's points: computed over measured seconds, minus 1."""

    median: float
    worst: float
    where: str

    def __str__(self) -> str:
        return f"median {self.median:+.1%}, worst {self.worst:+.1%} at {self.where}"


def records(folder: Path) -> Iterator[Latency]:
    """One record for each pair and batch size that the profiles in `folder` hold."""
    for target, draft in PAIRS:
        files = [file_of(folder, name) for name in (target, draft)]
        if all(file.exists() for file in files):
            yield from of_pair(*map(read, files))


def of_pair(target: dict[str, Any], draft: dict[str, Any]) -> Iterator[Latency]:
    """One record per batch size, with the contexts at which both models ran one token.

    The faster of launches from Python and a CUDA graph counts, as an engine would choose. Sizes that did not fit at
    some context are left out. The time outside the forwards is not measured; it is the roofline's for vLLM.

    Raises:
        InputError: the profiles differ in device, versions or grid.
    """
    for name in ("device", "versions", "grid"):
        one, other = (_what(profile)[name] for profile in (target, draft))
        if one != other:
            raise InputError(
                f"the profiles of {target['model']} and {draft['model']} must have the same {name}, got {one} and "
                f"{other}: measure both again on one machine"
            )
    tables = [_table(profile) for profile in (target, draft)]
    for batch in target["grid"]["batches"]:
        measured = {(context, n) for b, context, n in tables[0].keys() & tables[1].keys() if b == batch}
        contexts = sorted(context for context, n in measured if n == 1)
        tokens = [n for n in target["grid"]["tokens"] if all((context, n) in measured for context in contexts)]
        if contexts:
            yield _latency(target, draft, tables, batch, contexts, tokens)


def _latency(
    target: dict[str, Any],
    draft: dict[str, Any],
    tables: list[Table],
    batch: int,
    contexts: list[int],
    tokens: list[int],
) -> Latency:
    values = np.array([[[table[batch, c, n] for n in tokens] for c in contexts] for table in tables])
    stamp = Provenance.from_dict(target["provenance"])
    names = target["model"], draft["model"]
    overheads = EngineCosts.of(DEFAULT_ENGINE).overheads(model_of(names[0]), model_of(names[1]), batch)
    stamp = stamp.replace(
        target=names[0],
        draft=names[1],
        batch=batch,
        settings={
            **stamp.settings,
            "measured": "forwards; the time outside them is the roofline's",
            "graph_share": f"{_graph_share(target, batch):.0%} of the target's points",
            "target_roofline_error": str(error_of(target, batch) or "no such GPU is known"),
            "draft_roofline_error": str(error_of(draft, batch) or "no such GPU is known"),
        },
    )
    return Latency(
        tokens=np.array(tokens),
        contexts=np.array(contexts),
        target_seconds=values[0, ..., 0],
        draft_seconds=values[1, ..., 0],
        target_spread_seconds=values[0, ..., 1],
        draft_spread_seconds=values[1, ..., 1],
        **vars(overheads),
        provenance=stamp,
    )


def error_of(profile: dict[str, Any], batch: int) -> Errors | None:
    """The roofline's errors at one batch size; None where it does not know the device."""
    known = _known(profile)
    if known is None:
        return None
    errors = {}
    for (b, context, tokens), (seconds, _) in _table(profile).items():
        if b == batch:
            place = Roofline(known, batch=batch, context=context)
            computed = place.forward_seconds(model_of(profile["model"]), [tokens])[0]
            errors[f"{tokens} tokens after {context}"] = float(computed / seconds - 1)
    worst = max(errors, key=lambda where: abs(errors[where]))
    return Errors(float(np.median(list(errors.values()))), errors[worst], worst)


def write(folder: Path, to: Path) -> list[Path]:
    """Write the records of `folder` into `to`, where `Latency.measured` finds them; returns their paths."""
    written = []
    for latency in records(folder):
        stamp = latency.provenance
        place = path_of(str(stamp.device), str(stamp.target), str(stamp.draft), latency.batch)
        latency.save(to / place)
        written.append(to / place)
    return written


def _what(profile: dict[str, Any]) -> dict[str, Any]:
    stamp = profile["provenance"]
    return {"device": stamp["device"], "versions": stamp["versions"], "grid": profile["grid"]}


def _known(profile: dict[str, Any]) -> Gpu | None:
    try:
        return gpu(profile["provenance"]["device"])
    except ValueError:
        return None


def _table(profile: dict[str, Any]) -> Table:
    """Median and spread, in seconds, of the faster way at each point that was run."""
    ran = {(p["batch"], p["context"], p["tokens"]): faster(p) for p in profile["points"]}
    return {point: (best["median_seconds"], best["spread_seconds"]) for point, best in ran.items() if best}


def faster(point: dict[str, Any]) -> dict[str, Any] | None:
    """The measurement of the faster way; None where the point was skipped."""
    ways = [point.get(way, {}) for way in ("launched", "graph") if "skipped" not in point]
    return min((way for way in ways if "median_seconds" in way), key=lambda way: way["median_seconds"], default=None)


def _graph_share(profile: dict[str, Any], batch: int) -> float:
    ran = [p for p in profile["points"] if p["batch"] == batch and faster(p)]
    return sum(faster(point) is point.get("graph") for point in ran) / len(ran)
