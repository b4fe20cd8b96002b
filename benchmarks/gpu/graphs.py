"""What graphs change: seconds of forwards launched from Python and replayed, and whether texts stay the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import spectheory
from reference.cached_model import CachedModel
from reference.cuda_graphs import cached
from reference.decode import Decoder
from reference.drafters import PlannedTree, Searched
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Provenance, Tree
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.search import OptTree

DRY_RUN = "dry run"
"""The device's name in a dry run; no GPU has this name."""


@dataclass(frozen=True)
class Place:
    """A device with the driver's name of it."""

    device: str
    name: str

    @classmethod
    def found(cls, *, dry_run: bool) -> Place:
        """The first CUDA device, or the CPU for a dry run.

        Raises:
            InputError: there is no CUDA device.
        """
        if dry_run:
            torch.set_num_threads(1)  # tiny models gain nothing from threads, and on a busy machine they wait
            return cls("cpu", DRY_RUN)
        if not torch.cuda.is_available():
            raise InputError(
                f"no CUDA device: torch {torch.__version__} sees none. Run this on a machine with a GPU, or add "
                "--dry-run, which goes through the same steps with a few texts on the CPU and measures nothing"
            )
        return cls("cuda", torch.cuda.get_device_name(0))

    def stamp(self, part: str, seed: int, **settings: object) -> Provenance:
        """The provenance of a record that is made here and now."""
        return Provenance.now(
            f"python -m benchmarks.gpu {part}",
            seed=seed,
            packages=("torch", "transformers"),
            device=self.name,
            settings={
                "cuda": torch.version.cuda,
                "checkout": spectheory.__version__,
                **{name: str(value) for name, value in settings.items()},
            },
        )


ROWS = (1, 2, 3, 5, 9, 17, 33, 65)
TREE = Tree.from_paths([(0,) * n for n in range(1, 7)] + [(0,) * n + (1,) for n in range(5)] + [(1, 0), (1, 0, 0)])
"""A tree of 13 nodes for texts that are to be equal."""


def graphs(file: Path, pair: Pair, place: Place, prompts: list[list[int]], new_tokens: int, seed: int) -> None:
    """Milliseconds of the forwards of both models by rows, launched and replayed; and whether texts are equal."""
    context = max(map(len, prompts))
    found: dict[str, Any] = {"provenance": place.stamp("graphs", seed, **pair.stamp).to_dict(), "context": context}
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        found[role] = {
            way: {rows: clocked(forward, place, 15, 1.0) for rows, forward in _forwards(make, model, context, pair)}
            for way, make in (("launched", CachedModel), ("replayed", cached))
        }
    shapes = {"plain": PlannedTree(Tree.chain(0)), "chain of 5": PlannedTree(Tree.chain(5)), "tree": PlannedTree(TREE)}
    found["equal"] = {}
    for name, drafter in {**shapes, "OPT-Tree": Searched(OptTree(16, 0.2))}.items():
        for sampling in (Sampling(), Sampling(1.0)):
            texts = []
            for make in (CachedModel, cached):
                with mock.patch("reference.decode.cached", make), mock.patch("reference.drafters.model.cached", make):
                    decoder = Decoder(pair, drafter, sampling, stop_tokens=())
                    texts.append(
                        [
                            decoder.generate(row, new_tokens, *streams(pair, seed, i)).tokens
                            for i, row in enumerate(prompts)
                        ]
                    )
            found["equal"][f"{name}, {sampling}"] = [sum(a == b for a, b in zip(*texts, strict=True)), len(prompts)]
    write_whole(file, json.dumps(found, indent=1) + "\n")


def _forwards(
    make: Callable[..., CachedModel], model: Any, context: int, pair: Pair
) -> Iterator[tuple[int, Callable[[], object]]]:
    text = make(model, pair.vocab_size, "the model")
    with torch.inference_mode():
        text.forward(torch.arange(context, device=pair.device)[None])
    for rows in ROWS:
        tree, tokens = text.rows(), torch.arange(rows, device=pair.device)[None]
        tree.add([-1, *range(rows - 1)])

        @torch.inference_mode()
        def forward(tokens: torch.Tensor = tokens, tree: Any = tree) -> None:
            text.forward_tree(tokens, context, tree) if tokens.shape[1] > 1 else text.forward(tokens)
            text.keep(context, [])
            text.peaks.waiting.clear()

        yield rows, forward


def clocked(run: Callable[[], object], place: Place, rounds: int, most_seconds: float) -> dict[str, float]:
    """Median and interquartile range of `rounds` runs; after `most_seconds` no run starts once five are done."""
    clock = _by_events if place.device == "cuda" else _by_clock
    for _ in range(3):
        clock(run)
    seconds, started = [], time.perf_counter()
    while len(seconds) < rounds and (len(seconds) < 5 or time.perf_counter() - started < most_seconds):
        seconds.append(clock(run))
    low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
    return {"median_seconds": float(median), "spread_seconds": float(high - low), "rounds": len(seconds)}


def _by_events(run: Callable[[], object]) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    run()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


def _by_clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
