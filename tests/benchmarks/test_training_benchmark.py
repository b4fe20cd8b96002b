"""The benchmark of the papers' losses: its rows fit each other, and its page says what the comparisons hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.training import page, records, running
from benchmarks.training.decoding import DRAFTS, decoded
from benchmarks.training.rows import CHAIN, INDEPENDENT, ROWS, SIZES
from reference.part_files import STAMP
from reference.train.head import RECORD
from spectheory import DraftComparison
from spectheory.core.errors import InputError
from spectheory.replay.reliability import BINS, RANKS
from spectheory.results.draft_comparison import LEVEL
from spectheory.results.draft_run import DraftRun
from tests.refusals import refuses

START, OTHER = ROWS[:2]
NAMES = [INDEPENDENT, "EAGLE-1 start", "EAGLE-1", "HASS"]


TIMES = {"shares": {"HASS": {"products": 0.5, "attention": 0.25}}, "drafting": {}}


def run(name: str, place: int, tau: float) -> DraftRun:
    reliability = np.zeros((2, RANKS, BINS, 3))
    reliability[:, :4, 5] = 10, 5.5, 4
    cycles = np.array([10.0, 20, 30])
    emitted = cycles * (tau + np.array([0, 0.015, -0.01]))
    accepted = np.array([60 - 30 * (tau - 1), 0, 30 * (tau - 1)])
    return DraftRun(name, f"{name}-{place}", f"{name}-{place}", emitted, cycles, emitted, accepted, reliability)


def comparison(factor: float) -> DraftComparison:
    taus = zip(NAMES, (2.0, 2.1, 2.2, 2.4), strict=True)
    runs = [run(name, seed, factor * tau) for name, tau in taus for seed in range(1 if name == INDEPENDENT else 2)]
    return DraftComparison("a tree", "Greedy", INDEPENDENT, ("a", "b", "c"), np.array([10, 20, 30]), tuple(runs))


def test_rows_start_from_rows_before_them_and_are_compared_with_rows_of_the_table() -> None:
    seen = {INDEPENDENT}
    for row in ROWS:
        assert row.start is None or row.start in seen
        assert row.against is None or row.against in {one.name for one in ROWS}
        seen.add(row.name)
    assert len({row.folder for row in ROWS}) == len(ROWS)


def test_the_page_has_each_row_beside_the_draft_and_beside_its_own_baseline() -> None:
    trainings = {
        f"{name}-{seed}": {"cpu_seconds": 470.0 + 20 * seed, "texts": 11_200} for name in NAMES[1:] for seed in range(2)
    }
    found = page.document({0.0: comparison(1.0), 1.0: comparison(0.5)}, trainings, TIMES, {})
    table = {line.split(" | ")[0][2:]: line.split(" | ") for line in reversed(found.splitlines()) if line[:2] == "| "}
    assert table["EAGLE-1"][1:4] == ["2", "480", "11,200"]
    assert table["EAGLE-1"][4].startswith("2.200 ± ")
    assert table["EAGLE-1"][5].startswith("+10.0% ± ")
    assert table[INDEPENDENT][5] == ""
    assert "**Not trained yet:** draft trained on; CE, 3 passes; " in found
    (hass,) = [line for line in found.splitlines() if line.startswith("| HASS | EAGLE-1 | ")]
    assert hass.split(" | ")[2].startswith("+9.09% ± ")
    assert hass.split(" | ")[4].startswith("+9.09% ± ")
    assert "+3.9 to +8.1% over EAGLE-2's loss" in hass
    assert "| HASS | 50% | 25% | 25% |" in found


def test_a_training_is_compared_once_it_has_ended(tmp_path: Path) -> None:
    for seed in range(2):
        folder = running.run_folder(tmp_path, START, seed)
        folder.mkdir(parents=True)
        (folder / RECORD).write_text(json.dumps({"cpu_seconds": 10 + seed}))
    (running.run_folder(tmp_path, OTHER, 0)).mkdir()
    found = running.finished(tmp_path, range(3))
    assert {name: [run.name for run in runs] for name, runs in found.items()} == {
        START.name: ["eagle-1-start-0", "eagle-1-start-1"]
    }
    hass = next(row for row in ROWS if row.name == "HASS")
    assert running._can_start(tmp_path, hass, 1)
    assert not running._can_start(tmp_path, hass, 2)


def test_later_seeds_are_added_to_the_kept_ones_and_a_repeated_one_replaces_its_record() -> None:
    old, new = comparison(1.0), comparison(0.5)
    added = replace(new, runs=tuple(replace(one, name=f"{one.name}-later", weights=f"w{one.name}") for one in new.runs))
    both = records.merged(old, added)
    assert len(both.groups["HASS"]) == 4
    assert records.merged(old, new).groups["HASS"][0].tau == pytest.approx(new.groups["HASS"][0].tau)
    assert len(records.merged(old, new).runs) == len(old.runs)
    refuses("the texts or the tree differ", records.merged, old, replace(new, prompts=("a", "b", "d")))


def trained(work: Path, name: str, **settings: Any) -> Path:
    """A folder of a training that has ended."""
    run = work / name
    run.mkdir()
    (run / RECORD).write_text(json.dumps({"steps": 3, "texts": 48, "cpu_seconds": 12.5}))
    (run / "model.safetensors").write_bytes(bytes(8))
    (run / STAMP).write_text(json.dumps({"settings": settings}))
    return run


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(records, "FOLDER", tmp_path / "records")
    return tmp_path


def test_records_are_kept_with_their_costs_and_recipes(work: Path) -> None:
    runs = [trained(work, f"HASS-{seed}", steps=3, start=f"draft {seed}") for seed in range(2)]
    made = comparison(1.0)
    made = replace(made, runs=tuple(replace(one, name=f"work/runs/{one.name}") for one in made.runs))
    records.keep({0.0: made}, {"HASS": runs})
    found, trainings = records.kept()
    assert list(found) == [0.0]
    assert found[0.0].difference("HASS", "EAGLE-1").percent == pytest.approx(100 * (2.4 / 2.2 - 1))
    assert [one.name for one in found[0.0].groups["HASS"]] == ["HASS-0", "HASS-1"]
    assert trainings["HASS-0"] == {
        "cpu_seconds": 12.5,
        "texts": 48,
        "bytes": 8,
        "settings": {"steps": 3, "start": "draft 0"},
    }


def test_seeds_of_one_row_have_one_recipe(work: Path) -> None:
    runs = [trained(work, f"HASS-{seed}", steps=3 + seed) for seed in range(2)]
    with pytest.raises(InputError, match=r"'HASS' were trained by different recipes \(steps: 3, 4\)"):
        records.keep({0.0: comparison(1.0)}, {"HASS": runs})
    assert records.kept() == ({}, {})


def test_the_page_of_no_records_is_refused() -> None:
    refuses("holds no comparison: train with --work first", page.document, {}, {}, {"shares": {}, "drafting": {}}, {})


def test_kept_plans_and_tallies_name_models_and_not_folders_of_a_machine() -> None:
    names = {
        (stamp.target, stamp.draft)
        for drafts in decoded().values()
        for plan, tally in drafts.values()
        for stamp in (plan.provenance, plan.latency.provenance, tally.provenance)
    }
    assert names == {("shipped target", draft) for draft in DRAFTS}


def test_the_page_is_what_the_records_say() -> None:
    page_file = Path(__file__).parents[2] / "docs" / "training.md"
    assert page_file.read_text(encoding="utf-8") == page.document(*records.kept(), records.timing(), decoded())


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_answers_at_the_top_of_the_page(temperature: float) -> None:
    found = records.kept()[0][temperature]
    taus = {row.group: row.tau for row in found.rows}
    same_head = {row.name: taus[row.name] for row in ROWS if row.start == START.name}
    assert max(same_head.values()) == taus[CHAIN]
    against = {row.name: str(row.against) for row in ROWS}

    def interval(name: str) -> tuple[float, float]:
        paired = found.difference(name, against[name], by_run=True)
        half = paired.half_width(LEVEL)
        return paired.percent - half, paired.percent + half

    assert interval("CE, 3 passes")[0] > 0
    assert interval("HASS")[1] < 3.9
    assert max(interval(name)[1] for name in ("TALF k=4", "LK, 3 passes")) < 0
    for name in ("GTO", "GTO, shuffled rewards"):
        assert -1 < interval(name)[0] < interval(name)[1] < 1
    sized = [taus[f"{CHAIN}, MLP of {size}"] for size in SIZES]
    assert np.ptp(sized) > np.ptp(list(same_head.values()))
