"""The history of the calculators' speed, as ratios to baselines of the same run, and a gate on regressions.

make gate      times the calculators, and fails if one got slower than the history allows
make history   the same, and adds a record to benchmarks/history and a column to benchmarks/history/table.md

A ratio is the processor time of a calculation divided by that of its baseline: a published algorithm or a NumPy
operation, timed in the same process. So records of different machines can be compared, within limits: the history of a
calculation is the median of its ratios in the last records, and the gate fails if a new ratio is more than `factor`
times that. Several runs may be given; the least ratio of each calculation counts, because a busy machine only adds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import read_text, write_whole
from spectheory.core.json_values import parse
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.report.tables import TextTable, markdown_table

FOLDER = Path(__file__).parent / "history"
TABLE = "table.md"
FACTOR = 2.0
"""By how much a ratio may exceed the history. A smaller factor needs an idle machine, here and in the history."""
LAST = 5
"""Number of records whose median is the history."""
PREFIX = "ratio to "
"""What `Beside.time` writes before the name of the baseline."""
HEAD = """# Speed of the calculators

Processor time of each calculation divided by that of its baseline in the same run; lower is better. `make history` adds
a column, `make gate` fails if a ratio is more than {factor:g} times the median of the last {last} columns.

{machines}

Processor time leaves out the time of other processes, but on a busy machine their use of the caches still adds to it.

"""


@dataclass(frozen=True, eq=False, repr=False)
class BenchmarkRatios(Record):
    """One run of the calculators' benchmarks.

    Attributes:
        ratios: for each calculation and its baseline, the ratio of their least times.
        provenance: machine, versions, and in `settings` the commit and the load of the machine in the last minute.
    """

    kind = "benchmark_ratios"

    ratios: dict[str, float]
    provenance: Provenance

    def __post_init__(self) -> None:
        for name, ratio in self.ratios.items():
            if not 0 < ratio < float("inf"):
                raise InputError(f"the ratio of {name!r} must be above 0 and finite, got {ratio}")
        if not self.ratios:
            raise InputError("ratios must not be empty: run the benchmarks that have a baseline")

    @property
    def summary(self) -> str:
        """The number of calculations, and where they ran."""
        return f"{len(self.ratios)} ratios, {self.provenance.machine}, {self.provenance.created[:10]}"


@dataclass(frozen=True)
class Regression:
    """A calculation that got slower: its ratio, and the ratio that the history has."""

    name: str
    ratio: float
    history: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ratio:.4g}, in the history {self.history:.4g}, {self.ratio / self.history:.2f} times"
        )


def ratios_of(report: Any, where: str = "the report") -> dict[str, float]:
    """The ratio of each calculation in a report of pytest-benchmark (`--benchmark-json`)."""
    if not isinstance(report, dict) or not isinstance(report.get("benchmarks"), list):
        raise InputError(f"{where} is not a report of pytest-benchmark: write it with --benchmark-json")
    return {
        f"{one['name']} / {name.removeprefix(PREFIX)}": float(ratio)
        for one in report["benchmarks"]
        for name, ratio in one["extra_info"].items()
        if name.startswith(PREFIX)
    }


def least(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The least ratio of each calculation in several runs."""
    found: dict[str, float] = {}
    for run in runs:
        for name, ratio in run.items():
            found[name] = min(ratio, found.get(name, ratio))
    return found


def history(records: Sequence[BenchmarkRatios]) -> dict[str, float]:
    """The median ratio of each calculation in the last `LAST` records that have it. Records are in order of time."""
    names = dict.fromkeys(name for record in records for name in record.ratios)
    return {name: median([r.ratios[name] for r in records if name in r.ratios][-LAST:]) for name in names}


def regressions(new: Mapping[str, float], old: Mapping[str, float], factor: float = FACTOR) -> list[Regression]:
    """The calculations whose ratio is more than `factor` times that of the history. New calculations have none."""
    if not factor >= 1:
        raise InputError(f"factor must be at least 1, got {factor}")
    return [
        Regression(name, ratio, old[name]) for name, ratio in new.items() if name in old and ratio > factor * old[name]
    ]


def not_timed(new: Mapping[str, float], last: BenchmarkRatios) -> list[str]:
    """The calculations of the last record that the new run lacks: a gate on them would pass unseen."""
    return [name for name in last.ratios if name not in new]


def records(folder: Path = FOLDER) -> list[BenchmarkRatios]:
    """All records of a folder, in order of time."""
    return sorted(map(BenchmarkRatios.load, folder.glob("*.json")), key=lambda record: record.provenance.created)


def table(kept: Sequence[BenchmarkRatios]) -> str:
    """The page with one row for each calculation and one column for each record."""
    columns = [f"{r.provenance.created[:10]} {r.provenance.settings['commit']}" for r in kept]
    names = dict.fromkeys(name for record in kept for name in record.ratios)
    rows = [
        (name, *(f"{record.ratios[name]:.3g}" if name in record.ratios else "" for record in kept)) for name in names
    ]
    machines = "\n".join(
        f"- {column}: {r.provenance.machine}, {r.provenance.settings['load']} processes at work; "
        + ", ".join(f"{package} {version}" for package, version in r.provenance.versions.items())
        for column, r in zip(columns, kept, strict=True)
    )
    head = HEAD.format(factor=FACTOR, last=LAST, machines=machines)
    return head + markdown_table(TextTable("", ("calculation / baseline", *columns), tuple(rows)))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: the exit status is 1 if a calculation got slower, or if one was not timed."""
    parser = argparse.ArgumentParser(description="Compare ratios of benchmarks with their history.")
    parser.add_argument("reports", nargs="+", type=Path, help="files of pytest --benchmark-json")
    parser.add_argument("--factor", type=float, default=FACTOR, help="by how much a ratio may exceed the history")
    parser.add_argument("--history", type=Path, default=FOLDER, help="folder of the records")
    parser.add_argument("--commit", default="", help="add the run to the history under this commit")
    given = parser.parse_args(arguments)
    new = least(ratios_of(parse(read_text(path), str(path)), str(path)) for path in given.reports)
    kept = records(given.history)
    slower, missing = regressions(new, history(kept), given.factor), not_timed(new, kept[-1]) if kept else []
    for one in slower:
        print(f"slower: {one}")
    for name in missing:
        print(f"not timed: {name}")
    print(f"{len(new)} ratios, {len(slower)} more than {given.factor:g} times the history, {len(missing)} not timed")
    if given.commit:
        settings = {"commit": given.commit, "load": round(os.getloadavg()[0], 1)}
        stamp = Provenance.now("make history", packages=("numpy", "scipy", "numba"), settings=settings)
        run = BenchmarkRatios(new, stamp)
        run.save(given.history / f"{stamp.created[:10]}-{given.commit}.json")
        write_whole(given.history / TABLE, table(records(given.history)))
    return 1 if slower or missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"error: {error}")
