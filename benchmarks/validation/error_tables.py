"""Tables of errors: by class, by batch, across files, by source, and the worst rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.validation.across import Across
from benchmarks.validation.judged import Judged
from benchmarks.validation.measures import Errors, grouped, worst
from benchmarks.validation.parameters import variant_of
from benchmarks.validation.protocol import CLASSES, Prediction, class_of
from benchmarks.validation.rows import Row, Unread
from spectheory.report.tables import MISSING, TextTable

COUNTED = "Speedups first, then plain steps and forwards of n tokens, each with the number of rows."
REASONS = Path(__file__).with_name("reasons.csv")


def class_tables(judged: Judged) -> list[TextTable]:
    """For each file, the median error of each class in each column."""
    return [_class_table(judged, name) for name in judged.files]


def _class_table(judged: Judged, file: str) -> TextTable:
    groups = [grouped([one for one in found if one.row.file == file], class_of) for found in judged.columns.values()]
    shown = [name for name in CLASSES if name in groups[0]]
    rows = [(name, *(_three(group.get(name, (None, None, None))) for group in groups)) for name in shown]
    note = f"{COUNTED} Rows used for calibration are left out."
    return TextTable(file, ("class", *judged.columns), tuple(rows), note=note)


def reach_table(judged: Judged) -> TextTable:
    """The errors of the last column, which is calibrated, between the batches of the runs and beyond them."""
    title, found = list(judged.columns.items())[-1]
    parts = [grouped([one for one in found if one.beyond is beyond], class_of) for beyond in (False, True)]
    rows = [
        (name, *(_three(part.get(name, (None, None, None))) for part in parts))
        for name in CLASSES
        if any(any(part.get(name, ())) for part in parts)
    ]
    return TextTable(
        f"{title.capitalize()}, by batch",
        ("class", "between the batches of the runs", "beyond them"),
        tuple(rows),
        note="All files together. A calibration is good where it was measured: measure the smallest and the largest "
        "batch that you run.",
    )


def _three(found: tuple[Errors | None, Errors | None, Errors | None]) -> str:
    named = [
        f"{label}{100 * one.size:.0f}% ({one.count})"
        for label, one in zip(("", "plain ", "forward "), found, strict=True)
        if one
    ]
    return "; ".join(named) or MISSING


def across_table(found: Sequence[Across]) -> TextTable:
    """For each pair of files, the median error of each class."""
    groups = [grouped(one.found, class_of) for one in found]
    titles = [f"fitted to {one.fitted_to}, judged on {one.judged_on}" for one in found]
    rows = [
        (name, *(_three(group.get(name, (None, None, None))) for group in groups))
        for name in CLASSES
        if any(name in group for group in groups)
    ]
    return TextTable("", ("class", *titles), tuple(rows), note=COUNTED)


def unsupported_tables(found: Sequence[Across]) -> list[TextTable]:
    """For each pair of files, the judged speedups of engines for which the fitted file has no speedup."""
    tables = []
    for one in found:
        rows = []
        judged = [each for each in one.found if variant_of(each.row) not in one.engines]
        for name, (speedup, _, _) in grouped(judged, lambda row: f"{variant_of(row)}, {class_of(row)}").items():
            if speedup:
                rows.append((name, str(speedup.count), f"{100 * speedup.size:.1f}%", f"{100 * speedup.bias:+.1f}%"))
        if rows:
            title = f"Speedups in {one.judged_on} of engines without a speedup in {one.fitted_to}"
            tables.append(TextTable(title, ("engine and class", "rows", "median size", "bias"), tuple(rows)))
    return tables


def source_tables(judged: Judged) -> list[TextTable]:
    """For each column, the errors by group and source: number, median size, bias and largest size."""
    tables = []
    for title, found in judged.columns.items():
        rows = []
        for name, three in grouped(found, lambda row: f"{row.group} / {row.source}").items():
            for what, one in zip(("speedup", "plain", "forward"), three, strict=True):
                if one:
                    numbers = (f"{100 * one.size:.1f}%", f"{100 * one.bias:+.1f}%", f"{100 * one.largest:.0f}%")
                    rows.append((name, what, str(one.count), *numbers))
        header = ("group / source", "of", "rows", "median size", "bias", "largest")
        tables.append(TextTable(title.capitalize(), header, tuple(rows)))
    return tables


def worst_table(title: str, predictions: Sequence[Prediction]) -> TextTable:
    """The worst rows with the reason, where one is known."""
    rows = []
    for one, what, error in worst(predictions):
        row = one.row
        place = f"{row.engine}, {row.gpus} x {row.gpu}, {row.target}, {row.draft}, {shape_of(row)}, batch {row.batch}"
        rows.append((f"{row.file} {row.number}", row.source, place, what, f"{100 * error:+.0f}%", reason(row)))
    return TextTable(title.capitalize(), ("line", "source", "row", "of", "error", "reason"), tuple(rows))


def reason(row: Row) -> str:
    """The reason for the error of this row, as `reasons.csv` has it; `not known` if it has none."""
    with REASONS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if all(line[name] in ("", getattr(row, name)) for name in ("source", "engine", "gpu", "target", "draft")):
                return line["reason"]
    return "not known"


def shape_of(row: Row) -> str:
    """The shape of a row in words."""
    if row.kind == "tree":
        return f"tree of {row.nodes}, {row.depth} deep"
    return {"plain": "plain", "forward": f"forward of {row.nodes}", "chain": f"chain of {row.depth}"}[row.kind]


def unread_table(unread: Sequence[Unread]) -> TextTable:
    """The lines that were not predicted, with the reason and the repair."""
    rows = [(f"{one.file} {one.number}", one.name, one.reason) for one in unread]
    return TextTable("", ("line", "row", "reason"), tuple(rows))
