"""Profiles of two models as one measured `Latency` per batch size, with the roofline's error in its provenance.

The forwards are those of transformers, so the roofline has the costs of Hugging Face's decoder, which were fitted to
published speedups on other machines. A CUDA graph replays the same kernels without launches by the host, so the time
computed for a graph has no launches. Engines fuse these kernels, so their forwards are faster than such a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.profile import file_of, read
from spectheory import Latency, Provenance
from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import Gpu, gpu
from spectheory.hardware.latency import path_of
from spectheory.hardware.models import model as model_of
from spectheory.hardware.roofline import Roofline

PAIRS = (("llama-3.1-8b", "llama-3.2-1b"), ("qwen3-8b", "qwen3-0.6b"))
"""(target, draft) with the same vocabulary."""
COSTS = EngineCosts.of("hf")
WAYS = {"launched": COSTS, "graph": replace(COSTS, eager_seconds=0.0)}
"""The costs of each way of running a forward."""


@dataclass(frozen=True)
class Timed:
    """The seconds of a forward: median and interquartile range, and the way it was run."""

    median: float
    spread: float
    way: str


Table = dict[tuple[int, int, int], Timed]
"""Times by (batch, context, tokens)."""


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

    The faster of launches from Python and a CUDA graph counts. Sizes that did not fit at some context are left out. The
    time outside the forwards is not measured; it is the roofline's for Hugging Face's decoder.

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
    timed = [[[table[batch, c, n] for n in tokens] for c in contexts] for table in tables]
    seconds, spreads = (
        np.array([[[getattr(one, name) for one in row] for row in rows] for rows in timed])
        for name in ("median", "spread")
    )
    stamp = Provenance.from_dict(target["provenance"])
    names = target["model"], draft["model"]
    overheads = COSTS.overheads(model_of(names[0]), model_of(names[1]), batch)
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
        target_seconds=seconds[0],
        draft_seconds=seconds[1],
        target_spread_seconds=spreads[0],
        draft_spread_seconds=spreads[1],
        **vars(overheads),
        provenance=stamp,
    )


def error_of(profile: dict[str, Any], batch: int, ways: Iterable[str] = WAYS) -> Errors | None:
    """The roofline's errors at one batch size, for the faster of `ways`.

    None if the roofline does not know the device, or no point of this batch size was run in any of `ways`.
    """
    known = _known(profile)
    if known is None:
        return None
    errors = {}
    for (b, context, tokens), timed in _table(profile, ways).items():
        if b == batch:
            place = Roofline(known, batch=batch, context=context, costs=WAYS[timed.way])
            computed = place.forward_seconds(model_of(profile["model"]), [tokens])[0]
            errors[f"{tokens} tokens after {context}"] = float(computed / timed.median - 1)
    if not errors:
        return None
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


def _table(profile: dict[str, Any], ways: Iterable[str] = WAYS) -> Table:
    """The times of the faster of `ways` at each point that was run."""
    ran = {(p["batch"], p["context"], p["tokens"]): _faster(p, ways) for p in profile["points"]}
    return {point: timed for point, timed in ran.items() if timed}


def _faster(point: dict[str, Any], ways: Iterable[str]) -> Timed | None:
    """The faster of `ways`; None where the point was skipped."""
    found = [
        Timed(point[way]["median_seconds"], point[way]["spread_seconds"], way)
        for way in ways
        if "skipped" not in point and "median_seconds" in point.get(way, {})
    ]
    return min(found, key=lambda timed: timed.median, default=None)


def _graph_share(profile: dict[str, Any], batch: int) -> float:
    ways = [timed.way for (b, *_), timed in _table(profile).items() if b == batch]
    return ways.count("graph") / len(ways)
