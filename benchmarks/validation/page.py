"""The tables of the page on validation: errors by class and by source, the worst rows, fitted costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.validation.cost_table import supports
from benchmarks.validation.decisions import decision_tables
from benchmarks.validation.errors import CLASSES, Errors, Prediction, class_of, coverage, grouped, worst
from benchmarks.validation.fitting import Problem
from benchmarks.validation.parameters import FREE, PRIORS, Parameters
from benchmarks.validation.rows import Row, Unread, lines_of
from spectheory.report.tables import MISSING, TextTable, markdown_table

ENOUGH = 3
"""Sources that a number needs to be free, unless docs/validation.md gives a reason."""
LEFT_OUT = "source left out"
REASONS = Path(__file__).with_name("reasons.csv")


@dataclass(frozen=True)
class Judged:
    """Predictions of the same rows: by the library as shipped, with the source left out, and after calibration.

    Attributes:
        columns: title and predictions; the first column is the library as shipped.
        unread: rows that were not predicted.
        refused: the deployments whose runs `spectheory.calibrate` refuses, by their first rows.
        fitted: the costs of the engines, and the rows that they were fitted on; None without a fit.
    """

    columns: dict[str, list[Prediction]]
    unread: Sequence[Unread]
    refused: Sequence[Unread] = ()
    fitted: tuple[Parameters, list[Row]] | None = None

    @property
    def files(self) -> list[str]:
        """The names of the judged files."""
        first = next(iter(self.columns.values()))
        return list(dict.fromkeys(one.row.file for one in first))


def document(judged: Judged) -> str:
    """The tables in Markdown, with a heading above each kind."""
    plain = {title: found for title, found in judged.columns.items() if "calibrated" not in title}
    parts = [
        "",
        _counts(judged),
        "## Errors by class of deployment",
        *map(_markdown, class_tables(judged)),
        _markdown(reach_table(judged)),
        "## Decisions and break-evens",
        *map(_markdown, decision_tables(judged.columns)),
        "## Coverage of the bands",
        "Nominal: 80%. The band of a speedup is made of the errors of other sources of its class, or of all classes if "
        "it has fewer than three, each source with one vote.",
        *(_markdown(coverage_table(title, found)) for title, found in judged.columns.items() if LEFT_OUT in title),
        "## Errors by group and source",
        *map(_markdown, source_tables(plain)),
        "## The ten worst rows",
        *(_markdown(worst_table(title, found)) for title, found in plain.items()),
        *fitted_parts(judged),
        "## Calibrations that were refused",
        "`spectheory.calibrate` refuses the runs of these deployments, so their rows are in no calibrated column.",
        _markdown(unread_table(judged.refused)) if judged.refused else "None.",
        "## Rows that judge nothing, or were not predicted",
        _markdown(unread_table(judged.unread)) if judged.unread else "None.",
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(table: TextTable) -> str:
    return markdown_table(table).strip()


def _counts(judged: Judged) -> str:
    predictions = next(iter(judged.columns.values()))
    sources = len({one.row.source for one in predictions})
    gains = sum(one.gain_error is not None for one in predictions)
    plain = sum(one.plain_error is not None for one in predictions)
    files = " and ".join(f"`{name}`" for name in judged.files)
    return (
        f"{len(predictions)} rows of {sources} sources in {files}: {gains} speedups and {plain} times of plain steps "
        "and forwards."
    )


def class_tables(judged: Judged) -> list[TextTable]:
    """For each file, the median error of each class in each column."""
    tables = []
    for file in judged.files:
        columns = [
            grouped([one for one in found if one.row.file == file], class_of) for found in judged.columns.values()
        ]
        rows = [(name, *(_three(column.get(name)) for column in columns)) for name in CLASSES if name in columns[0]]
        note = (
            "Speedups first, then plain steps and forwards of n tokens, each with the number of rows. Rows used for "
            "calibration are left out."
        )
        tables.append(TextTable(file, ("class", *judged.columns), tuple(rows), note=note))
    return tables


def reach_table(judged: Judged) -> TextTable:
    """The errors of the last column, which is calibrated, between the batches of the runs and beyond them."""
    title, found = list(judged.columns.items())[-1]
    parts = [grouped([one for one in found if one.beyond is beyond], class_of) for beyond in (False, True)]
    rows = [(name, *cells) for name in CLASSES if set(cells := [_three(part.get(name)) for part in parts]) != {MISSING}]
    return TextTable(
        f"{title.capitalize()}, by batch",
        ("class", "between the batches of the runs", "beyond them"),
        tuple(rows),
        note="All files together. A calibration is good where it was measured: measure the smallest and the largest "
        "batch that you run.",
    )


def coverage_table(title: str, found: Sequence[Prediction]) -> TextTable:
    """For each class, and for all, how many rows and what share of the sources were within the bands."""
    held = coverage(found)
    held |= {"all": {f"{name} {source}": one for name, own in held.items() for source, one in own.items()}}
    rows = []
    for name, sources in held.items():
        every = [one for own in sources.values() for one in own]
        means = [sum(own) / len(own) for own in sources.values()]
        rows.append((name, f"{sum(every)} of {len(every)}", f"{sum(every) / len(every):.0%}", f"{np.mean(means):.0%}"))
    return TextTable(title.capitalize(), ("class", "rows held", "of the rows", "mean of the sources"), tuple(rows))


def _three(found: tuple[Errors | None, Errors | None, Errors | None] | None) -> str:
    named = [
        f"{label}{100 * one.size:.0f}% ({one.count})"
        for label, one in zip(("", "plain ", "forward "), found or (None, None, None), strict=True)
        if one
    ]
    return "; ".join(named) or MISSING


def source_tables(columns: dict[str, list[Prediction]]) -> list[TextTable]:
    """For each column, the errors by group and source: number, median size, bias and largest size."""
    tables = []
    for title, found in columns.items():
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
        shape = {
            "plain": "plain",
            "forward": f"forward of {row.nodes}",
            "chain": f"chain of {row.depth}",
            "tree": f"tree of {row.nodes}, {row.depth} deep",
        }[row.kind]
        place = f"{row.engine}, {row.gpus} x {row.gpu}, {row.target}, {row.draft}, {shape}, batch {row.batch}"
        rows.append((f"{row.file} {row.number}", row.source, place, what, f"{100 * error:+.0f}%", reason(row)))
    return TextTable(title.capitalize(), ("line", "source", "row", "of", "error", "reason"), tuple(rows))


def reason(row: Row) -> str:
    """The reason for the error of this row, as `reasons.csv` has it; `not known` if it has none."""
    for line in lines_of(REASONS):
        if all(line[name] in ("", getattr(row, name)) for name in ("source", "engine", "gpu", "target", "draft")):
            return line["reason"]
    return "not known"


def unread_table(unread: Sequence[Unread]) -> TextTable:
    """The lines that were not predicted, with the reason and the repair."""
    rows = [(f"{one.file} {one.number}", one.name, one.reason) for one in unread]
    return TextTable("", ("line", "row", "reason"), tuple(rows))


def fitted_parts(judged: Judged) -> Iterable[str]:
    """The costs of the engines, with the sources that determine each."""
    if judged.fitted is None:
        return []
    parameters, rows = judged.fitted
    left, by = Problem(rows).remaining(parameters.logarithms), supports(rows, parameters)
    said = (
        f"{len(FREE)} of {len(PRIORS)} numbers of the table are free. The data determine {np.sum(1 - left):.0f} (one "
        f"less the share of the variance of each prior that is left), {np.sum(left < 0.5)} of them by more than half. "
        f"{sum(len(sources) >= ENOUGH for sources in by.values())} are moved by {ENOUGH} sources or more."
    )
    lines = [
        (
            f"{PRIORS[place].engines}: {PRIORS[place].name}",
            *(f"{values[place]:.3g}" for values in (parameters.values, [row.value for row in PRIORS])),
            f"{remains:.0%}",
            ", ".join(by[place]) or f"none: the prior ({PRIORS[place].source})",
        )
        for place, remains in zip(FREE, left, strict=True)
    ]
    table = TextTable("", ("parameter", "fitted", "prior", "variance left", "moved by"), tuple(lines))
    return ["## Costs of the engines", said, _markdown(table)]
