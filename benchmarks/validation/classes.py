"""The errors of each class of deployments, as plans print them: the table `validated_classes.json` of the library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import log1p

import numpy as np

from benchmarks.validation.protocol import CLASSES, Prediction, class_of
from spectheory.core.json_values import to_json
from spectheory.hardware.deployment_class import ClassErrors, LogErrors

MOST = 0.8
"""The larger of the two stated errors is this quantile."""


def classes_text(absent: Sequence[Prediction], calibrated: Sequence[Prediction]) -> str:
    """The table as JSON: the errors of each class with its source left out, and then calibrated on its own runs."""
    rows = [*class_errors(absent), *class_errors(calibrated, calibrated=True)]
    sources = len({one.row.source for one in absent})
    files = " and ".join(dict.fromkeys(one.row.file for one in absent))
    judged = (
        f"{len(absent)} rows of {sources} sources in {files}, each predicted with costs fitted to the other sources"
    )
    return to_json({"judged": judged, "classes": [asdict(row) for row in rows]})


def class_errors(predictions: Iterable[Prediction], *, calibrated: bool = False) -> list[ClassErrors]:
    """The errors of each class of `CLASSES` that has any."""
    groups: dict[str, list[Prediction]] = defaultdict(list)
    for one in predictions:
        if one.row.kind != "forward":
            groups[class_of(one.row)].append(one)
    found = [
        ClassErrors(
            name,
            speedup=_errors([(one, one.gain_error) for one in groups[name]]),
            plain=_errors([(one, one.plain_error) for one in groups[name]]),
            engines=_engines(groups[name]),
            calibrated=calibrated,
        )
        for name in CLASSES
    ]
    return [one for one in found if one.speedup or one.plain]


def _engines(found: Sequence[Prediction]) -> tuple[str, ...]:
    """The engines of the judged speedups; those of all rows if no speedup was judged."""
    judged = [one for one in found if one.gain_error is not None] or found
    return tuple(sorted({one.row.engine for one in judged}))


def _errors(found: Iterable[tuple[Prediction, float | None]]) -> LogErrors | None:
    """The sizes of the errors that exist; None if there are none."""
    known = [(one.row.source, abs(log1p(error))) for one, error in found if error is not None]
    if not known:
        return None
    median, most = np.quantile([size for _, size in known], [0.5, MOST])
    return LogErrors(float(f"{median:.4g}"), float(f"{most:.4g}"), len(known), len({source for source, _ in known}))
