"""Replays of a recorded trace: by its ranks at temperature 0, else by p and q from one forward of each text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import torch

from reference.models import Attention, Pair, load_pair
from reference.part_files import stamp_of
from reference.sampling import Sampling
from reference.teacher_forcing import forced_texts
from reference.tracing import PROMPTS, by_request
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.replay import GreedyText, Replays


def traced_replays(folder: Path) -> tuple[Replays, float]:
    """The texts of a trace, ready to replay, and their temperature.

    Above temperature 0 the pair is loaded from the folders that the trace names, as it was when it was recorded.

    Raises:
        InputError: as `replays`, or the pair is no longer in these folders.
    """
    by_request(folder, "target_token")
    stamp, pair = stamp_of(folder), None
    if stamp.temperature:
        dtype = getattr(torch, (stamp.dtype or "float32").removeprefix("torch."))
        attention = cast(Attention, stamp.attention or "sdpa")
        folders = str(stamp.target), str(stamp.draft)
        pair = load_pair(*folders, device=stamp.device or "cpu", dtype=dtype, attention=attention)
    return replays(folder, pair), stamp.temperature or 0.0


def replays(folder: Path, pair: Pair | None = None, *, seed: int = 0, samples: int = 1) -> Replays:
    """The texts of a trace, ready to replay any tree and verifier on them.

    Args:
        folder: folder of the trace.
        pair: the pair that the trace was recorded with; needed above temperature 0.
        seed: seed of the drafts that are drawn beside the tokens of a text.
        samples: see `Replays`.

    Raises:
        InputError: the folder holds no trace or a damaged one, it was recorded above temperature 0 and `pair` is not
            given or is another pair, or it does not hold its prompts.
    """
    texts = by_request(folder, "target_token")
    stamp = stamp_of(folder)
    if not stamp.temperature:
        candidates = int(str(stamp.settings["top_k"]))
        return Replays(GreedyText(ranks, candidates) for ranks in by_request(folder, "target_top_rank"))
    if pair is None:
        raise InputError(f"pair must be given to replay a trace at temperature {stamp.temperature}, got None")
    recorded = stamp.settings["weights"]
    if recorded != pair.fingerprint:
        raise InputError(
            f"pair has weights {pair.fingerprint}, the trace in {folder} was recorded with {recorded} "
            f"({stamp.target} with {stamp.draft}): p and q must come from the same models"
        )
    if not (folder / PROMPTS).exists():
        raise InputError(f"{folder} lacks {PROMPTS}, without which p and q cannot be computed: record the trace again")
    prompts = json.loads(read_text(folder / PROMPTS))
    sampling = Sampling(stamp.temperature)
    return Replays(forced_texts(pair, prompts, [text.tolist() for text in texts], sampling), seed=seed, samples=samples)
