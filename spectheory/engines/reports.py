"""Reading reports of engines from files or texts, and adding several reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.engines.engine import Engine
from spectheory.engines.sglang_points import BenchPoint
from spectheory.engines.statistics import TOTALS_ONLY, Statistics, added, assume_constant, from_positions

ONLY = "the report"
"""What messages call the only report if it is given as text."""


def read(
    engine: Engine, kind: str, reports: Sequence[str | Path], min_trials: int, constant: int | None
) -> Statistics | list[BenchPoint]:
    """As `spectheory.read_report`, with the engine that has a reader for the kind of report."""
    texts = texts_of(engine, reports)
    found = _read(engine, kind, texts, min_trials)
    if not isinstance(found, Statistics):
        if constant is not None:
            raise InputError(
                f"assume_constant is only for reports of totals, {kind} reports measured points: leave it out"
            )
        return found
    found = found if constant is None else assume_constant(found, constant)
    if found.acceptance is None:
        return found
    files = ", ".join(str(report) for report in reports if isinstance(report, Path))
    stamp = Provenance.now(
        "spectheory.read_report",
        settings={"report": kind} | ({"files": files} if files else {}),
        assumptions=tuple(found.assumed),
    )
    return replace(found, acceptance=replace(found.acceptance, provenance=stamp))


def texts_of(engine: Engine, reports: Sequence[str | Path]) -> dict[str, str]:
    """The text of each report by its name. Raises InputError if a report is given twice."""
    texts: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    for number, report in enumerate(reports, 1):
        name = str(report) if isinstance(report, Path) else f"report {number}" if len(reports) > 1 else ONLY
        if not isinstance(report, Path):
            _require_no_path(report)
        elif not report.is_file():
            raise InputError(
                f"{name} is a folder: give a file in it" if report.is_dir() else f"there is no file {name}"
            )
        content = report.read_bytes() if isinstance(report, Path) else report.encode()
        if content in contents:
            raise InputError(f"{name} is the same report as {contents[content]} and would count twice: give it once")
        contents[content] = name
        texts[name] = engine.text_of(report) if isinstance(report, Path) else report
        if not texts[name].strip():
            raise InputError(f"{name} is empty: give the text that the engine reported")
    return texts


def _require_no_path(text: str) -> None:
    """Check that `text`, which should be the text of a report, is not the name of a file."""
    try:
        named = bool(text) and Path(text).is_file()
    except (OSError, ValueError):  # too long for the name of a file, or with a null character
        named = False
    if named:
        raise InputError(
            f"report must be a text or a Path, got the name of a file as text: give pathlib.Path({text!r})"
        )


def _read(engine: Engine, kind: str, texts: dict[str, str], min_trials: int) -> Statistics | list[BenchPoint]:
    reader = engine.readers[kind]
    parts: list[Statistics | list[BenchPoint]] = []
    for name, text in texts.items():
        try:
            parts.append(reader(text, min_trials if len(texts) == 1 else 1))
        except InputError as error:
            raise InputError(str(error) if name == ONLY else f"{name}: {error}") from None
    if len(parts) == 1:
        return parts[0]
    reports = [part for part in parts if isinstance(part, Statistics)]
    if not reports:
        return [point for part in parts if isinstance(part, list) for point in part]
    return _added(reports, min_trials)


def _added(reports: Sequence[Statistics], min_trials: int) -> Statistics:
    """The sum of several reports of one engine and kind. Each report must count cycles of its own.

    Counters of one server at two times must not be added: the later counters include the earlier counters.

    Raises:
        InputError: the reports have no counts, or all together have fewer than `min_trials`.
    """
    engine, kind = reports[0].engine, reports[0].kind
    drafts, drafted, accepted = (_sum(getattr(r, name) for r in reports) for name in ("drafts", "drafted", "accepted"))
    said = [f"{len(reports)} reports are added, as if each had counted its own cycles"]
    if all(report.acceptance and report.acceptance.trials is not None for report in reports):
        found = _from_counts(reports, min_trials)
        for report in reports:
            of_counts = _from_counts([report], 1).assumed
            said += [sentence for sentence in report.assumed if sentence not in of_counts]
        return replace(found, assumed=tuple(dict.fromkeys((*found.assumed, *said))))
    if any(report.acceptance for report in reports) or drafted is None or accepted is None:
        raise InputError(
            f"several reports can only be added if they have counts, {engine} {kind} has none: pass one report"
        )
    tau = None if drafts is None else 1 + accepted / drafts
    return Statistics(engine, kind, None, tau, drafts, drafted, accepted, (TOTALS_ONLY, *said))


def _from_counts(reports: Sequence[Statistics], min_trials: int) -> Statistics:
    """The sum of reports that have counts by position."""
    rates = [report.acceptance for report in reports if report.acceptance is not None]
    rows = [(r.hits[:, 0].tolist(), r.trials.tolist()) for r in rates if r.hits is not None and r.trials is not None]
    return from_positions(
        reports[0].engine,
        reports[0].kind,
        added(rows),
        drafts=_sum(report.drafts for report in reports) or 0,
        drafted=_sum(report.drafted for report in reports),
        min_trials=min_trials,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of `values`; None if one of them is None."""
    every = list(values)
    return None if None in every else sum(value or 0 for value in every)
