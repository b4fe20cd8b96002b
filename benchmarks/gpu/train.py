"""Training of a larger pair, of about 100 M and 8 M parameters, on the Python sources of the machine."""

from __future__ import annotations

import hashlib
import json
import sysconfig
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path

import torch

from benchmarks.gpu.place import Place
from reference.library_sources import SourceFile, source_files, standard_library
from reference.models import Pair, load_pair
from reference.train.pair import on_text, train_pair
from reference.train.recipe import LayerSizes, Recipe
from spectheory.core.files import write_whole

RECIPE = Recipe(
    vocab_size=8192,
    length=1024,
    rows=32,
    target=LayerSizes(layers=12, width=768, hidden=2304),
    draft=LayerSizes(layers=2, width=384, hidden=1536),
    target_steps=500,
    draft_steps=700,
)
MOST_BYTES = 40_000_000
DRY_RECIPE = Recipe(
    vocab_size=300,
    length=256,
    rows=2,
    target=LayerSizes(2, 64, 128),
    draft=LayerSizes(1, 32, 64),
    target_steps=12,
    draft_steps=1,
    prompts=8,
)
DRY_PACKAGE = "email/"


@dataclass(frozen=True)
class Sources:
    """The machine's Python files as training data."""

    place: Place
    most_bytes: int = MOST_BYTES

    def __call__(self) -> list[SourceFile]:
        """The standard library, then files of installed packages in the order of a hash, up to a total size."""
        library = standard_library()
        if self.place.dry:
            held_out = [file for file in library if file.is_held_out and len(file.text) > 5000][:3]
            return [file for file in library if file.name.startswith(DRY_PACKAGE) and not file.is_held_out] + held_out
        root, total = Path(sysconfig.get_paths()["purelib"]), 0

        def room(file: SourceFile) -> bool:
            nonlocal total
            total += len(file.text)
            return total <= self.most_bytes

        installed = sorted(root.rglob("*.py"), key=lambda path: _mixed(path.relative_to(root).as_posix()))
        found = takewhile(room, source_files(root, installed))
        return [*library, *(SourceFile(f"site-packages/{file.name}", file.text) for file in found)]


def _mixed(name: str) -> bytes:
    return hashlib.sha256(f"order {name}".encode()).digest()


def train(folder: Path, work: Path, place: Place, *, seed: int = 0, say: Callable[[str], None] = print) -> Path:
    """Train the pair in `work`, continuing from its checkpoints, and write `train.json`; returns that file."""
    recipe = replace(DRY_RECIPE if place.dry else RECIPE, seed=seed)
    started = time.perf_counter()
    corpus = train_pair(work / "pair", work / "training", recipe, files=Sources(place), device=place.device, say=say)
    seconds = time.perf_counter() - started
    pair = larger_pair(work, place, torch.float32)
    losses, overlap = on_text(pair, corpus.held_out, recipe.length)
    record = {
        "kind": "gpu-train",
        "provenance": place.stamp("train", seed, dtype="bfloat16 autocast", weights=pair.fingerprint).to_dict(),
        "recipe": asdict(recipe),
        "parameters": {role: getattr(pair, role).num_parameters() for role in ("target", "draft")},
        "files": {side: len(names) for side, names in corpus.split.items()},
        "training_tokens": len(corpus.train),
        "held_out_tokens": len(corpus.held_out),
        "seconds_of_last_call": round(seconds, 1),
        "held_out_loss_nats": {role: round(loss, 4) for role, loss in losses.items()},
        "held_out_overlap": round(overlap, 4),
    }
    write_whole(folder / "train.json", json.dumps(record, indent=1) + "\n")
    return folder / "train.json"


def larger_pair(work: Path, place: Place, dtype: torch.dtype) -> Pair:
    """The pair that `train` wrote.

    Raises:
        PairError: the training has not finished.
    """
    pair = load_pair(work / "pair" / "target", work / "pair" / "draft", device=place.device, dtype=dtype)
    if place.dry:
        _unsettle(pair)
    return pair


def _unsettle(pair: Pair) -> None:
    """Add noise, and remove the stop token: hardly trained models repeat the last token and always agree."""
    pair.target.generation_config.eos_token_id = None  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(0)
    for parameter in (*pair.target.parameters(), *pair.draft.parameters()):
        if parameter.ndim == 2:
            parameter.data += 0.15 * torch.randn(parameter.shape, generator=generator)
