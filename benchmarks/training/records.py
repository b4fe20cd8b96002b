"""What the judge found for each training, kept in this repository: later seeds are added on any machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reference.train.head import RECORD
from spectheory import DraftComparison
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

FOLDER = Path(__file__).parent / "records"
TEMPERATURES = (0.0, 1.0)
Costs = dict[str, float]
"""CPU seconds of each training, by the name of its folder."""


def comparison_file(temperature: float) -> Path:
    """The file of the comparison at a temperature."""
    return FOLDER / f"temperature-{temperature:g}.json"


def kept() -> tuple[dict[float, DraftComparison], Costs]:
    """The comparison at each temperature, and what each training cost."""
    found = {t: DraftComparison.load(comparison_file(t)) for t in TEMPERATURES if comparison_file(t).exists()}
    costs = FOLDER / "costs.json"
    return found, json.loads(costs.read_text()) if costs.exists() else {}


def keep(found: Mapping[float, DraftComparison], drafts: Mapping[str, list[Path]]) -> None:
    """Add comparisons of trained drafts to the kept ones; a training that is there already is replaced.

    Raises:
        InputError: the texts are not those of the kept comparisons.
    """
    before, costs = kept()
    for temperature, one in found.items():
        runs = tuple(replace(run, name=Path(run.name).name) for run in one.runs)
        named = replace(one, runs=runs, provenance=one.provenance.replace(target="shipped target"))
        merged(before.get(temperature, named), named).save(comparison_file(temperature))
    costs |= {
        run.name: json.loads((run / RECORD).read_text())["cpu_seconds"] for runs in drafts.values() for run in runs
    }
    write_whole(FOLDER / "costs.json", json.dumps(dict(sorted(costs.items())), indent=1) + "\n")


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
