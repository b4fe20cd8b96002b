"""Judge the time model by published measurements: python -m benchmarks.validation FILE.csv --out PAGE.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.validation.calibrating import calibrated
from benchmarks.validation.cost_table import fit_to
from benchmarks.validation.errors import Fit, classes_text, left_out, predicted
from benchmarks.validation.fitting import fit
from benchmarks.validation.page import LEFT_OUT, Judged, class_tables, document, unread_table
from benchmarks.validation.predicting import predict, shipped
from benchmarks.validation.rows import MORE, PUBLISHED, Row, read
from spectheory import InputError
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import EngineCosts

LIBRARY, SIBLINGS = "library as shipped", "source and siblings left out"
LIBRARY_CALIBRATED, CALIBRATED = f"{LIBRARY}, calibrated", f"{LEFT_OUT}, calibrated"


def judge(*files: Path, leave_one_source_out: bool = False, fit: Fit = fit) -> Judged:
    """The predictions of all rows of `files` by the library, and after calibrating it on rows of the deployment.

    With `leave_one_source_out` also the predictions for each source with costs that were fitted on the published
    rows from all other sources by `fit`, or from all other projects, and with the first calibrated in the same way.

    Raises:
        InputError: a file cannot be read, or lacks columns.
    """
    found, without = predicted(_rows(files), shipped)
    rows = [one.row for one in found]
    again, refused = calibrated(rows, lambda row: EngineCosts.of(row.engine_version))
    judged = Judged({LIBRARY: found, LIBRARY_CALIBRATED: again}, without, refused)
    return _with_left_out(judged, rows, fit) if leave_one_source_out else judged


def _with_left_out(judged: Judged, rows: Sequence[Row], fit: Fit) -> Judged:
    known = [one.row for one in predicted(_rows((PUBLISHED, MORE)), shipped)[0]]
    parameters = fit(known, None)
    by_source = left_out(rows, known, fit, parameters, lambda row: row.source)
    by_project = left_out(rows, known, fit, parameters, lambda row: row.project)

    def absent(row: Row) -> EngineCosts:
        return by_source[row.source].of(row.engine_version)

    def alone(row: Row) -> EngineCosts:
        return by_project[row.project].of(row.engine_version)

    again, refused = calibrated(rows, absent)
    found = {LEFT_OUT: absent, SIBLINGS: alone}
    unseen = {title: predicted(rows, lambda row, of=of: predict(row, of(row)))[0] for title, of in found.items()}
    columns = {**judged.columns, **unseen, CALIBRATED: again}
    every = {(one.file, one.number): one for one in (*judged.refused, *refused)}
    return replace(judged, columns=columns, refused=list(every.values()), fitted=(parameters, known))


def _rows(files: Sequence[Path]) -> list[Row]:
    return [row for file in files for row in read(file)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 2 if the file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=__doc__)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="CSV files with the columns of published.csv, the default"
    )
    parser.add_argument("--out", type=Path, help="write the tables here, in Markdown")
    parser.add_argument("--leave-one-source-out", action="store_true", help="judge fits to the other sources too")
    parser.add_argument(
        "--fit-to", type=Path, metavar="TABLE", help="fit the costs of engines to FILE, write them here"
    )
    parser.add_argument(
        "--classes-to", type=Path, metavar="JSON", help="write the errors of each class with its source left out here"
    )
    options = parser.parse_args(arguments)
    left_one_out = options.leave_one_source_out or options.classes_to is not None
    try:
        files = options.files or [PUBLISHED]
        if options.fit_to:
            fit_to(options.fit_to, [one.row for one in predicted(_rows(files), shipped)[0]])
            return 0
        judged = judge(*files, leave_one_source_out=left_one_out)
        if options.out:
            write_whole(options.out, document(judged))
        if options.classes_to:
            write_whole(options.classes_to, classes_text(judged.columns[LEFT_OUT], judged.columns[CALIBRATED]))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from rich import print as show

    for table in (*class_tables(judged), *([unread_table(judged.unread)] if judged.unread else [])):
        show(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
