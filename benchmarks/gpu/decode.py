"""Decoding of the larger pair: predicted against measured tau, and wall clock beside transformers' own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.place import Place
from benchmarks.gpu.profile import read
from benchmarks.gpu.train import DRY_PACKAGE, larger_pair
from reference.drafters import SuffixArray
from reference.models import Pair
from reference.prompts import encode_prompts, load_prompts, training_texts
from spectheory.core.files import write_whole
from spectheory.results.wall_clock import WallClock


@dataclass(frozen=True)
class Sizes:
    """Numbers of prompts that are traced and decoded, and of tokens; every `stride`-th combination is run."""

    traced: int = 40
    decoded: int = 16
    prompt_tokens: int = 64
    new_tokens: int = 64
    rounds: int = 3
    temperatures: tuple[float, ...] = (0.0, 0.6, 1.0)
    stride: int = 1


DRY_SIZES = Sizes(6, 2, 8, 32, 1, (0.0, 1.0), 20)


def compare(folder: Path, work: Path, place: Place, *, seed: int, seconds: float, say: Callable[[str], None]) -> Path:
    """Write `compare.json`: predicted against measured tau of drafters, verifiers and temperatures, in float32.

    The combinations are run in the order of a hash, so that those which finish in time are a mixture of all kinds.
    """
    from reference.matrix import Matrix, MatrixSettings, Texts

    ends, sizes = time.perf_counter() + seconds, DRY_SIZES if place.dry else Sizes()
    pair = larger_pair(work, place, torch.float32)
    traced, decoded = _prompts(pair, work, sizes)
    settings = MatrixSettings("held-out prompts of the larger pair", sizes.new_tokens, seed)
    matrix = Matrix(
        work / "matrix", pair, Texts(traced, decoded, training_texts(pair, DRY_PACKAGE if place.dry else "")), settings
    )
    every = matrix.combinations(sizes.temperatures)[:: sizes.stride]
    finished: list[Any] = []
    for combination in sorted(every, key=lambda one: one.key):
        if finished and time.perf_counter() > ends:
            say(f"compare: {len(every) - len(finished)} of {len(every)} are left: run the same command again")
            break
        matrix.part(combination)
        finished.append(combination)
        say(f"compare: {len(finished)} of {len(every)}: {combination.name}")
    found = matrix.run([combination for combination in every if combination in finished])
    record = found.to_dict() | {"left": len(every) - len(finished)}
    return _saved(folder / "compare.json", record, place.stamp("compare", seed))


def clock(folder: Path, work: Path, place: Place, *, seed: int, seconds: float, say: Callable[[str], None]) -> Path:
    """Write `clock-<temperature>.json`: tokens per second of every decoder, at temperatures 0 and 1, in bfloat16."""
    ends, sizes = time.perf_counter() + seconds, DRY_SIZES if place.dry else Sizes()
    pair = larger_pair(work, place, torch.float32 if place.dry else torch.bfloat16)
    corpus = SuffixArray.build(training_texts(pair, DRY_PACKAGE if place.dry else ""))
    for temperature in (0.0, 1.0):
        record = work / f"clock-{temperature:g}.json"
        for longer in _clocked(pair, work, record, sizes, temperature, seed, corpus):
            longer.save(record)
            say(f"clock: temperature {temperature:g}: {longer.prompts} of {sizes.decoded} prompts")
            if time.perf_counter() > ends:
                break
        if record.exists():
            _saved(folder / record.name, read(record), place.stamp("clock", seed))
    return folder / "clock-1.json"


def _clocked(
    pair: Pair, work: Path, record: Path, sizes: Sizes, temperature: float, seed: int, corpus: SuffixArray
) -> Iterable[WallClock]:
    """The wall clock after each prompt, continued from the file `record` where it exists."""
    from reference.planning_loop import measured_plan, rivals
    from reference.wall_clock import ClockSettings, entrants
    from reference.wall_clock import clock as run

    traced, decoded = _prompts(pair, work, sizes)
    settings = ClockSettings(sizes.new_tokens, temperature, sizes.rounds, seed)
    so_far = WallClock.load(record) if record.exists() else None
    if so_far:
        plans = so_far.plan, *so_far.rivals
    else:
        wanted = {"new_tokens": sizes.new_tokens, "temperature": temperature, "seed": seed}
        chosen, texts = measured_plan(pair, traced, **wanted, rounds=5 * sizes.rounds)
        plans = chosen, *rivals(chosen, texts)
    return run(pair, decoded, plans, entrants(pair, plans, settings, corpus), settings, so_far)


def _prompts(pair: Pair, work: Path, sizes: Sizes) -> tuple[list[list[int]], list[list[int]]]:
    texts = load_prompts(work / "pair" / "held_out.jsonl", sizes.traced + sizes.decoded)
    rows = encode_prompts(pair, texts, sizes.prompt_tokens)
    return rows[: sizes.traced], rows[sizes.traced :]


def _saved(file: Path, record: dict[str, Any], stamp: Any) -> Path:
    """Write `record` to `file`, with the device in its provenance."""
    stamp = stamp.to_dict()
    own = record["provenance"]
    stamp = own | stamp | {"settings": own.get("settings", {}) | stamp["settings"]}
    write_whole(file, json.dumps(record | {"provenance": stamp}, indent=1) + "\n")
    return file
