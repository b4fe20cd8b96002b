"""Write the measurements on the shipped target and the independent draft into docs/results.md.

python -m reference.held_out build/prompts.jsonl
DRAFT="--draft reference/pair/draft"
PROMPTS="$DRAFT --prompts build/prompts.jsonl --skip 300"
spectheory matrix --out build/matrix-0 $PROMPTS --count 500 --temperatures 0 --json > build/results/compare-0.json
spectheory matrix --out build/matrix-0.6 $PROMPTS --count 240 --temperatures 0.6 --json > build/results/compare-0.6.json
spectheory matrix --out build/matrix-1 $PROMPTS --count 200 --temperatures 1 --json > build/results/compare-1.json
OMP_NUM_THREADS=2 spectheory clock $DRAFT --out build/results/clock-0-threads-2.json
OMP_NUM_THREADS=2 spectheory clock $DRAFT --temperature 1 --out build/results/clock-1-threads-2.json
python docs/generate_results.py build/results
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from spectheory import Provenance
from spectheory.report.calibration import calibration_rows, calibration_words
from spectheory.report.markdown import markdown_table, put
from spectheory.report.wall_clock import clock_rows, clock_words
from spectheory.results.calibration import Calibration
from spectheory.results.wall_clock import WallClock

PAGE = Path(__file__).parent / "results.md"


def summary(folder: Path) -> str:
    """The sections for all `compare-*.json` together and for each `clock-*.json` in `folder`."""
    compared, clocked = (sorted(folder.glob(f"{name}-*.json")) for name in ("compare", "clock"))
    return "\n\n".join([*_compared(compared), *_clocked(clocked)]) + "\n"


def _compared(files: list[Path]) -> Iterator[str]:
    several = [Calibration.load(file) for file in files]
    found = replace(several[0], rows=tuple(row for one in several for row in one.rows))
    yield "### Predicted against measured"
    yield _where(found.provenance)
    yield from calibration_words(found)
    yield from (markdown_table(table).strip() for table in calibration_rows(found))


def _clocked(files: list[Path]) -> Iterator[str]:
    for file in files:
        record = WallClock.load(file)
        stamp = record.provenance
        yield f"### Wall clock at temperature {stamp.temperature:g}, threads: {stamp.settings['threads']}"
        yield _where(stamp)
        yield from clock_words(record)
        yield markdown_table(clock_rows(record)).strip()


def _where(stamp: Provenance) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in stamp.versions.items())
    placement = "".join(f"{value}, " for value in stamp.placement.values())
    return f"{placement}{stamp.machine}; {versions}; seed {stamp.seed}; {stamp.created[:10]}."


if __name__ == "__main__":
    put(PAGE, "cpu summary", summary(Path(sys.argv[1])))
