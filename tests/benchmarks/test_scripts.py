"""The GPU queue without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as queue
from reference.compare import RECORD as COMPARED
from spectheory.results.comparison import Comparison
from tests.helpers import refuses


def test_the_queue_runs_dry_and_says_what_to_do_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folders: Path
) -> None:
    monkeypatch.setattr("reference.planning_loop.MAX_BUDGET", 8)
    models = {"target": tiny_folders / "target", "draft": tiny_folders / "draft"}
    queue.run("all", tmp_path, **models, dry_run=True)
    found = json.loads((tmp_path / "graphs.json").read_text())
    assert found["provenance"]["device"] == "dry run"
    equal = found["equal"]
    assert len(equal) == 8
    assert all(same == of > 0 for same, of in equal.values())
    compared = Comparison.load(tmp_path / "compare" / COMPARED)
    assert {one.temperature for one in compared.decoders} == {0.0, 1.0}
    queue.run("compare", tmp_path / "late", minutes=0, **models, dry_run=True)
    assert "texts, and whole prompts are kept" in capsys.readouterr().out
    refuses("steps must be among graphs, compare, got 'gpt2'", queue.run, "gpt2", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refuses("no CUDA device: torch .* add --dry-run", queue.run, "all", tmp_path)
