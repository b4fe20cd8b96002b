"""Seconds of forwards of one model by batch size, context and number of tokens, written point by point to one file."""

from __future__ import annotations

import gc
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.forward import Forward, Place, clocked, config_of, random_model
from reference.part_files import differences
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.hardware.model_config import ModelConfig

MODELS = ("llama-3.1-8b", "llama-3.2-1b", "qwen3-8b", "qwen3-0.6b")
SHARE = 0.95
"""The largest share of the device's memory that a point may need, by `needed_bytes`."""


@dataclass(frozen=True)
class Grid:
    """Sizes that are measured. CUDA graphs are captured up to `graph_tokens` tokens: more tokens hide the launches."""

    tokens: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    contexts: tuple[int, ...] = (512, 4096)
    rounds: int = 15
    point_seconds: float = 1.5
    graph_tokens: int = 1024

    def points(self) -> Iterator[tuple[int, int, int]]:
        """(batch, context, tokens), small batches first."""
        return product(self.batches, self.contexts, self.tokens)


DRY_GRID = Grid(tokens=(1, 3), batches=(1, 2), contexts=(8, 16), rounds=5, point_seconds=0.1)


def file_of(folder: Path, model: str) -> Path:
    """The file with the measured points of a model."""
    return folder / f"profile-{model}.json"


def profile(
    model: str,
    folder: Path,
    place: Place,
    grid: Grid,
    *,
    seed: int = 0,
    ends: float = math.inf,
    say: Callable[[str], None] = print,
) -> bool:
    """Measure the points that the file lacks; returns whether it lacks none now.

    The file is written after each point. No point is begun after the moment `ends`, by `time.perf_counter`.

    Raises:
        InputError: an unknown model, or a file of another device, grid, seed or version.
    """
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    config = config_of(model, place)
    data = _begun(file_of(folder, model), model, place, grid, seed)
    done = {(p["batch"], p["context"], p["tokens"]) for p in data["points"]}
    left = [point for point in grid.points() if point not in done]
    if not left:
        say(f"{model}: all {len(done)} points are measured")
        return True
    loaded = random_model(config, place, seed)
    generator = torch.Generator(place.device).manual_seed(seed)
    for number, point in enumerate(left):
        if time.perf_counter() > ends:
            say(f"{model}: {len(left) - number} points are left: run the same command again")
            return False
        data["points"].append(_point(loaded, config, place, grid, point, generator))
        write_whole(file_of(folder, model), json.dumps(data, indent=1) + "\n")
        say(_line(model, data["points"][-1]))
    return True


def read(file: Path) -> dict[str, Any]:
    """The JSON record that a file holds."""
    return json.loads(file.read_text(encoding="utf-8"))


def _begun(file: Path, model: str, place: Place, grid: Grid, seed: int) -> dict[str, Any]:
    """The file of an earlier run, or the beginning of a new one."""
    settings = json.loads(json.dumps(asdict(grid)))
    stamp = place.stamp("profile", seed, model=model, dtype=torch.bfloat16, weights="random").to_dict()
    if not file.exists():
        return {"kind": "gpu-profile", "model": model, "grid": settings, "provenance": stamp, "points": []}
    found = read(file)
    same = "seed", "device", "settings", "versions"
    theirs, ours = ({name: one.get(name) for name in same} for one in (found["provenance"], stamp))
    if differing := differences({"grid": found["grid"], **theirs}, {"grid": settings, **ours}):
        raise InputError(f"{file} was measured with {differing}: give an empty folder or remove the file")
    return found


def needed_bytes(config: dict[str, Any], batch: int, context: int, tokens: int) -> float:
    """Bytes of the weights, the cache, and the logits and activations of each new token, in bfloat16."""
    model = ModelConfig.from_hf(config)
    of_token = 2 * (config["vocab_size"] + 4 * config["intermediate_size"] + 8 * config["hidden_size"])
    return model.weight_bytes + batch * (model.kv_bytes(context + tokens) + tokens * of_token)


def _point(
    model: Any, config: dict[str, Any], place: Place, grid: Grid, point: tuple[int, int, int], random: torch.Generator
) -> dict[str, Any]:
    """One point: the times of both ways of running it, or why it was skipped."""
    batch, context, tokens = point
    row: dict[str, Any] = {"batch": batch, "context": context, "tokens": tokens}
    needed = needed_bytes(config, *point)
    if needed > SHARE * place.memory_bytes:
        return row | {"skipped": f"needs {needed / 1e9:.1f} GB, {place.name} has {place.memory_bytes / 1e9:.1f} GB"}
    try:
        forward = Forward(model, batch, context, tokens, random)
        row["launched"] = clocked(forward, place, grid.rounds, grid.point_seconds)
        if place.device == "cuda" and batch * tokens <= grid.graph_tokens:
            row["graph"] = _as_graph(forward, place, grid)
    except torch.OutOfMemoryError:
        row = row | {"skipped": f"out of memory at {needed / 1e9:.1f} GB by the count"}
    finally:
        forward = None
        if place.device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
    return row


def _as_graph(forward: Forward, place: Place, grid: Grid) -> dict[str, Any]:
    try:
        return clocked(forward.captured(), place, grid.rounds, grid.point_seconds)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return {"failed": f"{error}".splitlines()[0][:200]}


def _line(model: str, point: dict[str, Any]) -> str:
    where = "{batch:3} x {tokens:3} tokens after {context:5,}".format(**point)
    if "skipped" in point:
        return f"{model}: {where}: {point['skipped']}"
    ways = [f"{way} {1e3 * s:8.3f} ms" for way in ("launched", "graph") if (s := seconds_of(point, way)) is not None]
    return f"{model}: {where}: {', '.join(ways)}"


def seconds_of(point: dict[str, Any], way: str) -> float | None:
    """The median of one way of running a point; None where it was not run that way."""
    return point.get(way, {}).get("median_seconds") if "skipped" not in point else None
