"""What does not fit into memory is refused before it starts, and a lack of memory is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.model_folders import PairError, load_folder
from tests.command_line import Run, refused


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tiny_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.model_folders.available_bytes", lambda: 250_000)
    match = r"target .* needs 0.0 GB of memory in float32, 0.0 GB are available: use a smaller type"
    with pytest.raises(PairError, match=match):
        load_folder("target", tiny_folders / "target", "cpu", torch.float32, "sdpa")


@pytest.mark.parametrize("fault", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60, dtype=torch.uint8)])
def test_a_lack_of_memory_is_one_line(plan: Run, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    monkeypatch.setattr("spectheory.planning.candidates.Candidates.__init__", lambda *_, **__: fault())
    refused(plan("--latency", "latency.json"), "memory ran out (")
