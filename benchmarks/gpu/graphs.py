"""Whether texts stay the same where forwards are replayed as CUDA graphs instead of launched from Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

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


TREE = Tree.from_paths([(0,) * n for n in range(1, 7)] + [(0,) * n + (1,) for n in range(5)] + [(1, 0), (1, 0, 0)])
"""A tree of 13 nodes for texts that are to be equal."""


def graphs(file: Path, pair: Pair, place: Place, prompts: list[list[int]], new_tokens: int, seed: int) -> None:
    """The number of texts by drafter and sampling that are equal, launched and replayed. Float32 makes all equal."""
    found: dict[str, Any] = {"provenance": place.stamp("graphs", seed, **pair.stamp).to_dict()}
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
