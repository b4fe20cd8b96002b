"""The scripts for a GPU without one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as queue
from benchmarks.gpu import heads
from reference.compare import RECORD as COMPARED
from reference.prompts import HELD_OUT
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


def test_heads_are_judged_as_they_are_trained_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folders: Path
) -> None:
    monkeypatch.setattr(heads, "ROWS", tuple(heads.BY_NAME[name] for name in ("EAGLE-1 start", "EAGLE-1", "HASS")))
    monkeypatch.setattr(heads, "SEEDS", 1)
    monkeypatch.setattr(heads, "ProcessPoolExecutor", lambda *given: ThreadPoolExecutor(1))
    for name in heads.SETS:
        (tmp_path / f"{name}.jsonl").write_text("\n".join(HELD_OUT.read_text().splitlines()[:2]))
    folders = f"--work {tmp_path}/work --target {tiny_folders}/target --prompts {tmp_path}"
    command = f"{folders} --device cpu --processes 1 --steps 2 1 --texts 32".split()
    heads.main(command)
    done = [line.split("s  ")[1] for line in capsys.readouterr().out.splitlines() if " s  " in line]
    places = [done.index(one) for one in ("judge EAGLE-1 0 chat 0.0", "train HASS 0 1", "judge EAGLE-1 0 chat 1.0")]
    assert places == sorted(places)
    record = json.loads((tmp_path / "work" / "heads.json").read_text())
    assert {len(record["trained"]), *(len(one["runs"]) for one in record["judged"].values())} == {len(heads.ROWS)}
    (tmp_path / "work" / "heads" / "hass-0" / "chat-0.json").unlink()
    heads.main(command)
    assert json.loads((tmp_path / "work" / "heads.json").read_text())["judged"] == record["judged"]


def test_the_page_has_the_tables_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    heads.main(["--tables"])
    page = Path("docs/training.md").read_text()
    assert all(line in page for line in capsys.readouterr().out.splitlines())
