"""`Judged`: the predictions of the same rows in several ways, of which the page consists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.validation.across import Across
from benchmarks.validation.parameters import Parameters
from benchmarks.validation.protocol import Predict, Prediction
from benchmarks.validation.rows import Row, Unread


@dataclass(frozen=True)
class Judged:
    """Predictions of the same rows: by the library as shipped, with the source left out, and after calibration.

    Attributes:
        columns: title and predictions; the first column is the library as shipped.
        unread: lines of the file that are wrong, and rows that were not predicted.
        predicts: predictions of a row by title, for break-even batches.
        calibrated: the same after calibration, by the titles of the calibrated columns.
        refused: the deployments whose runs `spectheory.calibrate` refuses, by their first rows.
        fitted: the costs of the engines, and the rows that they were fitted on; None without a fit.
        across: the rows of each file, predicted by costs fitted to another; empty if they were not asked for.
    """

    columns: dict[str, list[Prediction]]
    unread: list[Unread]
    predicts: dict[str, Predict]
    calibrated: dict[str, Predict] = field(default_factory=dict)
    refused: Sequence[Unread] = ()
    fitted: tuple[Parameters, list[Row]] | None = None
    across: Sequence[Across] = ()

    @property
    def first(self) -> list[Prediction]:
        """The predictions of the library as shipped."""
        return next(iter(self.columns.values()))

    @property
    def files(self) -> list[str]:
        """The names of the judged files."""
        return list(dict.fromkeys(one.row.file for one in self.first))
