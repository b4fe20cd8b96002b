"""`python -m benchmarks.gpu` without a GPU: its dry run, what its records say, and how measured ones are found."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import spectheory as st
from benchmarks.gpu import __main__ as queue
from benchmarks.gpu import records
from benchmarks.gpu.forward import Forward, Place, config_of, random_model
from benchmarks.gpu.profile import DRY_GRID, Grid, file_of, needed_bytes, profile, read
from reference.compare import RECORD
from spectheory.results.comparison import Comparison
from tests.helpers import refuses

DRY = Place.found(dry_run=True)
PAIR: dict[str, Any] = {"target": "llama-3.1-8b", "draft": "llama-3.2-1b"}
H200 = Path("benchmarks/gpu/h200")


@pytest.mark.parametrize("name", ["llama-3.2-1b", "qwen3-8b"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_the_timed_forward_is_that_of_transformers(name: str, tokens: int) -> None:
    from transformers import DynamicCache

    ours, stock = (random_model(config_of(name, DRY), DRY, 0, kind).float() for kind in ("each_key_once", "sdpa"))
    forward = Forward(ours, 2, 7, tokens, torch.Generator().manual_seed(1))
    cache = DynamicCache(config=stock.config)
    for layer in range(stock.config.num_hidden_layers):
        keys, values = (states[layer, :, :, :7].clone() for states in forward.states)
        cache.update(keys, values, layer)
    theirs = stock(forward.tokens, past_key_values=cache).logits
    for _ in range(2):  # a second run sees the same context
        torch.testing.assert_close(forward(), theirs, rtol=1e-4, atol=1e-5)


def test_a_profile_goes_on_by_point(tmp_path: Path) -> None:
    said: list[str] = []

    def interrupting(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            raise KeyboardInterrupt

    run = "qwen3-0.6b", tmp_path, DRY, DRY_GRID
    assert not profile(*run, ends=time.perf_counter(), say=said.append)
    with pytest.raises(KeyboardInterrupt):
        profile(*run, say=interrupting)
    before = read(file_of(tmp_path, "qwen3-0.6b"))["points"]
    assert len(before) == 3
    assert profile(*run, say=said.append)
    data = read(file_of(tmp_path, "qwen3-0.6b"))
    assert data["points"][:3] == before
    assert [(p["batch"], p["context"], p["tokens"]) for p in data["points"]] == list(DRY_GRID.points())
    assert all(point["launched"]["median_seconds"] > 0 for point in data["points"])
    assert data["provenance"]["device"] == "dry run"
    refuses(r"measured with another seed .0, here 1.: give an empty folder", profile, *run, seed=1)


def test_what_does_not_fit_is_skipped_and_said(tmp_path: Path) -> None:
    place = Place("cpu", "dry run", needed_bytes(config_of("qwen3-8b", DRY), 2, 8, 3) / 0.95)
    assert profile("qwen3-8b", tmp_path, place, DRY_GRID, say=lambda line: None)
    points = read(file_of(tmp_path, "qwen3-8b"))["points"]
    skipped = [(p["batch"], p["context"], p["tokens"]) for p in points if "skipped" in p]
    assert (2, 16, 3) in skipped
    assert (2, 8, 3) not in skipped


def test_measured_records_are_found_and_dry_ones_answer_for_no_gpu(tmp_path: Path) -> None:
    """The committed profiles of the H200, from the faster way to run each forward."""
    assert len(list(records.write(H200, tmp_path))) == 7
    place = st.Deployment("NVIDIA H200", **PAIR, measured=tmp_path, context=512)
    eight = place.latency(8)
    assert not eight.computed
    points = read(file_of(H200, PAIR["target"]))["points"]
    (point,) = (one for one in points if (one["batch"], one["context"], one["tokens"]) == (8, 512, 1))
    assert eight.target(1, 512) == min(point[way]["median_seconds"] for way in ("launched", "graph"))
    assert eight.overhead_seconds > 0
    assert replace(place, gpu="h100_sxm").latency(8).computed
    one, other = (read(file_of(H200, name)) for name in PAIR.values())
    other["grid"] = asdict(Grid())
    refuses("must have the same grid", list, records.of_pair(one, other))


def test_the_queue_runs_dry_and_says_what_to_do_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folders: Path
) -> None:
    monkeypatch.setattr("reference.planning_loop.MAX_BUDGET", 8)
    models = {"target": tiny_folders / "target", "draft": tiny_folders / "draft"}
    queue.run("graphs,compare,llama-3.1-8b,llama-3.2-1b", tmp_path, tmp_path / "latency", **models, dry_run=True)
    equal = json.loads((tmp_path / "graphs.json").read_text())["equal"]
    assert len(equal) == 8
    assert all(same == of > 0 for same, of in equal.values())
    compared = Comparison.load(tmp_path / "compare" / RECORD)
    assert {one.temperature for one in compared.decoders} == {0.0, 1.0}
    assert len(list((tmp_path / "latency").rglob("batch-*.json"))) == 2
    queue.run("compare", tmp_path / "late", minutes=0, **models, dry_run=True)
    assert "texts, and whole prompts are kept" in capsys.readouterr().out
    refuses("steps must be among graphs, compare, llama-3.1-8b, .* got 'gpt2'", queue.run, "gpt2", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refuses("no CUDA device: torch .* add --dry-run", queue.run, "all", tmp_path)
    assert json.loads(file_of(tmp_path, "llama-3.1-8b").read_text())["provenance"]["device"] == "dry run"
