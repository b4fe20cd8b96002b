"""Reports of engines: read from files or texts, several of them added, their acceptance as a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.engines.bench_point import BenchPoint
from spectheory.engines.engine import Engine
from spectheory.engines.statistics import TOTALS_ONLY, Statistics, added, assume_constant, from_positions


def read(
    engine: Engine, kind: str, reports: Sequence[str | Path], min_trials: int, constant: int | None
) -> Statistics | list[BenchPoint]:
    """`spectheory.read_report` with the engine that has the reader `kind`."""
    texts = _texts(engine, reports)
    found = _read(engine, kind, texts, min_trials)
    if not isinstance(found, Statistics):
        if constant is not None:
            raise InputError(f"a constant rate is for a report of totals, {kind} measures points: leave it out")
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


def _texts(engine: Engine, reports: Sequence[str | Path]) -> dict[str, str]:
    """The text of each report by its name; a report that is there twice is refused."""
    texts: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    for number, report in enumerate(reports, 1):
        name = str(report) if isinstance(report, Path) else f"report {number}" if len(reports) > 1 else "the report"
        if not isinstance(report, Path):
            _require_no_path(report)
        elif not report.is_file():
            raise InputError(f"{name} is a folder: name the report" if report.is_dir() else f"there is no file {name}")
        content = report.read_bytes() if isinstance(report, Path) else report.encode()
        if content in contents:
            raise InputError(
                f"{name} is the same report as {contents[content]}: added, it would count twice; give it once"
            )
        contents[content] = name
        texts[name] = engine.text_of(report) if isinstance(report, Path) else report
        if not texts[name].strip():
            raise InputError(f"{name} is empty: give what the engine reported")
    return texts


def _require_no_path(text: str) -> None:
    """Refuse the name of a file where the text of a report is wanted."""
    try:
        named = bool(text) and Path(text).is_file()
    except (OSError, ValueError):  # longer than a name of a file may be, or with a null character
        named = False
    if named:
        raise InputError(f"report must be a text or a Path, got the name of a file: give pathlib.Path({text!r})")


def _read(engine: Engine, kind: str, texts: dict[str, str], min_trials: int) -> Statistics | list[BenchPoint]:
    reader = engine.readers[kind]
    if len(texts) == 1:
        (text,) = texts.values()
        return reader(text, min_trials)
    parts = []
    for name, text in texts.items():
        try:
            parts.append(reader(text, 1))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    reports = [part for part in parts if isinstance(part, Statistics)]
    if not reports:
        return [point for part in parts for point in part]
    return _added(reports, min_trials)


def _added(reports: Sequence[Statistics], min_trials: int) -> Statistics:
    """Several reports of one engine and kind as one, their counts added; each must have its own cycles.

    Counters of one server at two times must not be added: the later ones include the earlier ones.

    Raises:
        InputError: the reports have no counts, or all together have fewer than `min_trials`.
    """
    engine, kind = reports[0].engine, reports[0].kind
    drafts, drafted, accepted = (_sum(getattr(r, name) for r in reports) for name in ("drafts", "drafted", "accepted"))
    said = [f"{len(reports)} reports are added, each taken to have its own cycles"]
    if all(report.acceptance and report.acceptance.trials is not None for report in reports):
        found = _from_counts(reports, min_trials)
        for report in reports:
            of_counts = _from_counts([report], 1).assumed
            said += [sentence for sentence in report.assumed if sentence not in of_counts]
        return replace(found, assumed=tuple(dict.fromkeys((*found.assumed, *said))))
    if any(report.acceptance for report in reports) or drafted is None or accepted is None:
        raise InputError(f"reports must have counts to be added, {engine} {kind} has none: pass one")
    tau = None if drafts is None else 1 + accepted / drafts
    return Statistics(engine, kind, None, tau, drafts, drafted, accepted, (TOTALS_ONLY, *said))


def _from_counts(reports: Sequence[Statistics], min_trials: int) -> Statistics:
    """The sum of reports of chains with counts by position."""
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
    """The sum, None where one is."""
    every = list(values)
    return None if None in every else sum(value or 0 for value in every)
