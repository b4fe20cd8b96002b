"""The tables that the papers print, and comparisons of their rounded numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from spectheory.core.errors import InputError

HUNDREDTH = Fraction(1, 100)
ROUNDED = HUNDREDTH / 2
"""The largest rounding error of a number printed with two decimals."""
Name = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A printed table.

    Attributes:
        columns: the names of the columns that hold numbers.
        text: the numbers of each row as printed, by the names of the row; empty where the paper prints none.
    """

    columns: tuple[str, ...]
    text: Mapping[Name, tuple[str, ...]]

    def entries(self, *name: str, of: str = "") -> list[str]:
        """The numbers of a row as printed, in the columns whose names contain `of`; empty cells are left out."""
        return [entry for column, entry in zip(self.columns, self.text[name], strict=True) if of in column and entry]

    def row(self, *name: str, of: str = "") -> list[Fraction]:
        """The `entries` of a row as exact numbers."""
        return [Fraction(entry) for entry in self.entries(*name, of=of)]

    def names(self, *start: str) -> list[Name]:
        """The names of the rows that begin with `start`, in the order of the table."""
        return [name for name in self.text if name[: len(start)] == start]


def table(file: str, names: int) -> Table:
    """The table of `proofs_check/tables/{file}.csv`, whose first `names` columns name the row."""
    with (Path(__file__).with_name("tables") / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    text = {tuple(row[:names]): tuple(row[names:]) for row in rows}
    if len(text) < len(rows):
        raise InputError(f"{file}.csv must have one row for each name; names must be the first {names} columns")
    return Table(tuple(head[names:]), text)


def mean(values: Iterable[Fraction]) -> Fraction:
    """The average of the values."""
    given = list(values)
    return sum(given, Fraction(0)) / len(given)


def decimals(value: Fraction) -> str:
    """The value with two decimals, as the tables print it."""
    return f"{float(value):.2f}"


def is_mean(values: Sequence[Fraction], printed: Fraction) -> bool:
    """Whether values rounded to hundredths can average to `printed`, which is rounded too."""
    return abs(mean(values) - printed) <= 2 * ROUNDED


def is_ratio(new: Fraction, old: Fraction, printed: Fraction) -> bool:
    """Whether `new / old` can be `printed`, where all three are rounded to hundredths."""
    least, most = (new - ROUNDED) / (old + ROUNDED), (new + ROUNDED) / (old - ROUNDED)
    return least - ROUNDED <= printed <= most + ROUNDED


def below(lower: Sequence[Fraction], upper: Sequence[Fraction]) -> list[int]:
    """The columns in which `lower` is below `upper` by more than rounding to hundredths explains."""
    return [at for at, (one, other) in enumerate(zip(lower, upper, strict=True)) if one + 2 * ROUNDED < other]
