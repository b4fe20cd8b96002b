"""The GPU queue without a GPU, and the runners behind docs/training.md and docs/selector.md."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu import __main__ as queue
from benchmarks.selector import half_of
from benchmarks.training import INDEPENDENT, ROWS, tables
from reference.compare import RECORD as COMPARED
from reference.judge import DraftComparison, DraftRun, HeldOutTexts
from reference.models import Pair
from reference.sampling import Sampling
from reference.train.head import RECORD
from spectheory.core.ratios import ratio_half_width
from spectheory.results.comparison import Comparison
from spectheory.results.paired_difference import Ratio
from tests.helpers import refuses


def run(factor: float) -> DraftRun:
    emitted = factor * np.array([20.0, 50.0, 30.0])
    return DraftRun(Ratio(emitted, np.array([10.0, 20, 10])), np.array([20.0, 20]))


def test_the_tables_have_every_row_and_its_differences(tmp_path: Path) -> None:
    names = [row.name for row in ROWS]
    runs = {name: tuple(run(1 + place / 10) for _ in range(2)) for place, name in enumerate(names, start=1)}
    comparison = DraftComparison("three prompts", {INDEPENDENT: (run(1.0),), **runs})
    (tmp_path / RECORD).write_text(json.dumps({"steps": 5, "texts": 80, "cpu_seconds": 12.4}))
    taus, pairs = tables({0.0: comparison, 1.0: comparison}, {name: [tmp_path] * 2 for name in names})
    assert [row[0] for row in taus.rows] == [INDEPENDENT, *names]
    half = ratio_half_width(1.1 * np.array([20.0, 50.0, 30.0]), np.array([10.0, 20, 10]))
    assert taus.rows[1] == (names[0], "2", "12", "80", *(f"2.750 ± {half:.3f}", "+10.00% ± 0.00") * 2)
    assert [(row[0], row[1]) for row in pairs.rows] == [(row.name, row.against) for row in ROWS if row.against]


def test_rows_start_from_new_heads_and_are_compared_with_known_ones() -> None:
    names, new = [row.name for row in ROWS], [row.name for row in ROWS if row.start is None]
    for row in ROWS:
        assert row.start is None or row.start in new
        assert row.against is None or row.against in names
    assert len({row.folder(Path(), 0) for row in ROWS}) == len(names)


def test_the_halves_of_the_selectors_texts_share_no_file(tiny: Pair) -> None:
    sources = tuple(name for name in "abcd" for _ in range(5))
    prompts = [[number % 7, 1] for number in range(20)]
    texts = HeldOutTexts(tiny, prompts, [[5, number] for number in range(20)], Sampling(1.0), sources)
    judged, trained = half_of(texts, "judged", 2), half_of(texts, "trained", 9)
    assert judged.sources == ("a", "a", "c", "c")
    assert [text[1] for text in judged.texts] == [0, 2, 10, 12]
    assert trained.sources == ("b",) * 5 + ("d",) * 5


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
