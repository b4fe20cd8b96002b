"""Runs that are killed at any moment go on where they stopped, and never with other settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import spectheory as st
from reference.losses import Eagle
from reference.measuring import decoded
from reference.models import Pair
from reference.tracing import TraceSettings, read_trace, record_trace
from reference.train import loop
from reference.train.head import HeadRecipe, train_head
from tests.faults.killing import POSIX, killed
from tests.helpers import refuses
from tests.reference.test_measuring import PROMPTS
from tests.reference.train_heads import config, own_texts

RATES = st.Acceptance(np.array([[0.6, 0.2], [0.5, 0.1]]), provenance=st.Provenance("here", temperature=1.0))
PLAN = st.plan(RATES, st.Latency.constant(draft_seconds=0.1), max_budget=6)
COUNTS = ("emitted", "cycles", "accepted_histogram", "new_tokens", "plain_tokens", "fourgrams", "repeated_fourgrams")


@dataclass(frozen=True)
class Command:
    """A command that writes files: how to run it, and everything in its files that does not depend on time.

    Attributes:
        together: number of files at its end that a repeated run writes again until all are there.
    """

    run: Callable[[Pair, Path, int], object]
    result: Callable[[Path], Any]
    together: int = 1


def decode(pair: Pair, folder: Path, seed: int) -> object:
    return decoded(pair, PLAN, PROMPTS[:3], out=folder / "tally.json", new_tokens=6, seed=seed)


def tally_of(folder: Path) -> object:
    tally = st.Tally.load(folder / "tally.json")
    return [np.asarray(getattr(tally, name)).tolist() for name in COUNTS]


def trace(pair: Pair, folder: Path, seed: int) -> object:
    settings = TraceSettings("numbers", 1.0, candidates=2, new_tokens=6, batch=2, seed=seed)
    return record_trace(pair, PROMPTS, settings, folder)


def trace_of(folder: Path) -> object:
    return read_trace(folder)


def head(pair: Pair, folder: Path, seed: int) -> None:
    recipe = HeadRecipe(Eagle(), steps=6, rows=2, seed=seed)
    with patch.object(loop, "CHECKPOINT_SECONDS", 0):
        train_head(
            pair, own_texts(pair, folder.parent / f"{folder.name} texts"), folder, recipe, config(pair, "eagle1")
        )


COMMANDS = {
    "head": Command(head, lambda folder: (folder / "model.safetensors").read_bytes(), together=3),
    "decode": Command(decode, tally_of),
    "trace": Command(trace, trace_of),
}


@POSIX
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_run_continues_to_the_same_result(tiny: Pair, tmp_path: Path, name: str) -> None:
    """It is killed at one write after the other, and at random moments."""
    command, started = COMMANDS[name], time.process_time()
    command.run(tiny, tmp_path / "whole", 0)
    longest = time.process_time() - started
    writes = 0
    while killed(lambda: command.run(tiny, tmp_path / "at writes", 0), write=command.together):
        writes += 1
        assert writes < 10, "a run that is killed at a later write makes no progress"
    assert writes >= 2
    for share in np.random.default_rng(5).uniform(0.1, 0.9, 2):
        killed(lambda: command.run(tiny, tmp_path / "at random", 0), seconds=share * longest)
    command.run(tiny, tmp_path / "at random", 0)
    whole = command.result(tmp_path / "whole")
    assert command.result(tmp_path / "at writes") == whole
    assert command.result(tmp_path / "at random") == whole


@pytest.mark.parametrize("name", COMMANDS)
def test_a_finished_result_is_kept_and_never_replaced_by_other_settings(tiny: Pair, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    command.run(tiny, tmp_path, 0)

    def held() -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    before = held()
    command.run(tiny, tmp_path, 0)
    assert held() == before
    refuses(r"seed \(0, here 1\): name (a new file|an empty folder) or remove", command.run, tiny, tmp_path, 1)
    assert held() == before
