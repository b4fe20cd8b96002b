"""What the judge found for each training, kept in this repository: later seeds are added on any machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reference.model_folders import WEIGHTS
from reference.part_files import STAMP
from reference.train.head import RECORD
from spectheory import DraftComparison
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

FOLDER = Path(__file__).parent / "records"
TEMPERATURES = (0.0, 1.0)
TIMING = "timing.json"
"""Name of the file that `benchmarks.training.timing` writes."""
Training = dict[str, Any]
"""One training: `cpu_seconds`, `texts` (the number that it read), `bytes` of its weights and `settings`, its recipe."""
Trainings = dict[str, Training]
"""The trainings by the name of their folder."""
SEEDED = frozenset({"start"})
"""Settings that differ between the seeds of one row: the start is trained with the same seed."""


def comparison_file(temperature: float) -> Path:
    """The file of the comparison at a temperature."""
    return FOLDER / f"temperature-{temperature:g}.json"


def kept() -> tuple[dict[float, DraftComparison], Trainings]:
    """The comparison at each temperature, and the trainings that it compares."""
    found = {t: DraftComparison.load(comparison_file(t)) for t in TEMPERATURES if comparison_file(t).exists()}
    file = FOLDER / "trainings.json"
    return found, json.loads(file.read_text()) if file.exists() else {}


def timing() -> dict[str, Any]:
    """By row, `shares` of the time of its training, and for some drafts milliseconds of `drafting` a chain of 4."""
    file = FOLDER / TIMING
    return json.loads(file.read_text()) if file.exists() else {"shares": {}, "drafting": {}}


def keep(found: Mapping[float, DraftComparison], drafts: Mapping[str, list[Path]]) -> None:
    """Add comparisons of trained drafts to the kept ones; a training that is there already is replaced.

    Args:
        found: the comparison at each temperature.
        drafts: the folders of the trainings, by row.

    Raises:
        InputError: the texts are not those of the kept comparisons, or the seeds of a row have different recipes.
    """
    before, trainings = kept()
    trainings |= {run.name: training(run) for runs in drafts.values() for run in runs}
    comparisons = {}
    for temperature, one in found.items():
        runs = tuple(replace(run, name=Path(run.name).name) for run in one.runs)
        named = replace(one, runs=runs, provenance=one.provenance.replace(target="shipped target"))
        comparisons[temperature] = merged(before.get(temperature, named), named)
        refuse_mixed(comparisons[temperature], trainings)
    for temperature, one in comparisons.items():
        one.save(comparison_file(temperature))
    write_whole(FOLDER / "trainings.json", json.dumps(dict(sorted(trainings.items())), indent=1) + "\n")


def training(run: Path) -> Training:
    """What is kept of the training in a folder."""
    read = json.loads((run / RECORD).read_text())
    settings = json.loads((run / STAMP).read_text())["settings"]
    return {name: read[name] for name in ("cpu_seconds", "texts")} | {
        "bytes": (run / WEIGHTS).stat().st_size,
        "settings": settings,
    }


def refuse_mixed(found: DraftComparison, trainings: Trainings) -> None:
    """Refuse seeds of one row that were trained by different recipes.

    Raises:
        InputError: two seeds differ in a setting.
    """
    for name, runs in found.groups.items():
        recipes = [trainings[run.name]["settings"] for run in runs if run.name in trainings]
        mixed = sorted({key for one in recipes for key in one if one[key] != recipes[0].get(key)} - SEEDED)
        if mixed:
            values = "; ".join(f"{key}: {', '.join(str(one.get(key)) for one in recipes)}" for key in mixed)
            raise InputError(
                f"the seeds of the row {name!r} were trained by different recipes ({values}): train all of them again, "
                f"or take the older ones out of {FOLDER.name}/"
            )


def merged(old: DraftComparison, new: DraftComparison) -> DraftComparison:
    """The trainings of two comparisons on the same texts; of a training in both, the newer.

    Raises:
        InputError: the comparisons are on different texts.
    """
    if (old.prompts, old.roots.tolist(), old.policy) != (new.prompts, new.roots.tolist(), new.policy):
        raise InputError(
            f"the texts or the tree differ from those of {FOLDER.name}/, which another machine may have written: train "
            "and judge all rows here, with this folder emptied before"
        )
    again = {run.name for run in new.runs}
    runs = [run for run in old.runs if run.name not in again] + list(new.runs)
    return replace(new, runs=tuple(sorted(runs, key=lambda run: (run.group, run.name))))
