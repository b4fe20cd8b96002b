"""Whether texts stay the same where forwards are replayed as CUDA graphs instead of launched from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from reference.cached_model import CachedModel
from reference.cuda_graphs import cached
from reference.decode import Decoder
from reference.drafters import PlannedTree, Searched
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Provenance, Tree
from spectheory.core.files import write_whole
from spectheory.search import OptTree

TREE = Tree.from_paths([(0,) * n for n in range(1, 7)] + [(0,) * n + (1,) for n in range(5)] + [(1, 0), (1, 0, 0)])
"""A tree of 13 nodes for texts that are to be equal."""


def graphs(file: Path, pair: Pair, device: str, prompts: list[list[int]], new_tokens: int, seed: int) -> None:
    """The number of texts by drafter and sampling that are equal, launched and replayed. Float32 makes all equal.

    `device` is the device's name in the record.
    """
    stamp = pair.stamp | {"device": device, "seed": seed, "packages": ("torch", "transformers")}
    found: dict[str, Any] = {"provenance": Provenance.now("python -m benchmarks.gpu graphs", **stamp).to_dict()}
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
