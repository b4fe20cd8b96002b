"""Write the measurements on the shipped pair into docs/results.md.

spectheory matrix --out build/matrix --json > build/results/compare.json
OMP_NUM_THREADS=2 spectheory clock --out build/results/clock-0-threads-2.json
OMP_NUM_THREADS=2 spectheory clock --temperature 1 --out build/results/clock-1-threads-2.json
python docs/generate_results.py build/results
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from spectheory import Provenance
from spectheory.report.calibration import calibration_rows, calibration_words
from spectheory.report.markdown import markdown_table, put
from spectheory.report.wall_clock import clock_rows, clock_words
from spectheory.results.calibration import Calibration
from spectheory.results.wall_clock import WallClock

PAGE = Path(__file__).parent / "results.md"


def summary(folder: Path) -> str:
    """The sections for `compare.json` and each `clock-*.json` in `folder`."""
    return "\n\n".join([*_compared(folder / "compare.json"), *_clocked(sorted(folder.glob("clock-*.json")))]) + "\n"


def _compared(file: Path) -> Iterator[str]:
    found = Calibration.load(file)
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
