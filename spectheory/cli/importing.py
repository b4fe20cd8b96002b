"""The command that reads what an engine reports of its speculation."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectheory.cli.options import Force, Json
from spectheory.cli.output import STANDARD_INPUT, Output, console, require_free
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.engines import Statistics, llama_cpp, sequoia, sglang, tensorrt_llm, vllm
from spectheory.engines.addition import added_reports
from spectheory.engines.names import title
from spectheory.engines.sglang import BenchPoint
from spectheory.engines.statistics import assume_constant as constant

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spectheory.report.tables import TextTable


def _text(file: str) -> str:
    """What stands in `file`. Raises InputError where that is nothing."""
    text = sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise InputError(f"{_named(file)} is empty: give what the engine reported")
    return text


def _named(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def _json(file: str) -> Any:
    """The JSON value in `file`, or a list of them where there are several, one after another."""
    text, found, at = _text(file), [], 0
    while start := re.compile(r"\S").search(text, at):
        try:
            value, at = json.JSONDecoder().raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            raise InputError(f"{_named(file)} must hold JSON: {error}") from None
        found.append(value)
    return found[0] if len(found) == 1 else found


def _responses(file: str) -> list[Any]:
    found = _json(file)
    return found if isinstance(found, list) else [found]


def _vector(file: str) -> Statistics:
    return sequoia.from_text(_text(file)) if file == STANDARD_INPUT else sequoia.from_file(file)


SOURCES: dict[str, Callable[[str, int], Statistics | list[BenchPoint]]] = {
    "vllm-metrics": lambda file, least: vllm.from_prometheus(_text(file), min_trials=least),
    "vllm-log": lambda file, least: vllm.from_log(_text(file), min_trials=least),
    "vllm-response": lambda file, least: vllm.from_responses(_responses(file), min_trials=least),
    "sglang-response": lambda file, least: sglang.from_meta_info(_json(file), min_trials=least),
    "sglang-metrics": lambda file, _: sglang.from_metrics(_text(file)),
    "sglang-bench": lambda file, _: sglang.from_bench_speculative(_text(file)),
    "trtllm-stats": lambda file, least: tensorrt_llm.from_iteration_stats(_json(file), min_trials=least),
    "trtllm-metrics": lambda file, _: tensorrt_llm.from_metrics(_text(file)),
    "llama.cpp-log": lambda file, least: llama_cpp.from_log(_text(file), min_trials=least),
    "sequoia-vector": lambda file, _: _vector(file),
}
"""What reads each report, given its file and the least number of trials of a depth."""


def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"One of {', '.join(SOURCES)}.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Its report, or several to add; - is standard input.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="File for the acceptance record.")] = None,
    min_trials: Annotated[int, typer.Option(min=1, help="Depths that were reached less often are left out.")] = 100,
    assume_constant: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LENGTH",
            help="Where only totals are reported: one rate for chains of LENGTH drafted tokens.",
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Read an engine's statistics as acceptance rates for `spectheory plan`, and say what had to be assumed."""
    if source not in SOURCES:
        raise InputError(f"SOURCE must be one of {', '.join(SOURCES)}, got {source!r}")
    _check_files(files)
    require_free(files, Output(out, "acceptance"), force=force)
    found = _read(source, files, min_trials)
    if assume_constant is not None:
        if not isinstance(found, Statistics):
            raise InputError(f"--assume-constant is for a report of totals, {source} measures points")
        found = constant(found, assume_constant)
    if isinstance(found, Statistics) and found.acceptance is not None:
        stamp = Provenance.now(
            f"spectheory import {source}", settings={"files": ", ".join(files)}, assumptions=tuple(found.assumed)
        )
        found = replace(found, acceptance=replace(found.acceptance, provenance=stamp))
    if out is not None:
        _save(found, source, out)
    if as_json:
        print(json.dumps(_plain(found), indent=1))
        return
    for renderable in _shown(found):
        console.print(renderable, markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        console.print(f"wrote {out}", markup=False, highlight=False, soft_wrap=True)


def _check_files(files: Sequence[str]) -> None:
    """Check that the files are there, and that none is given twice, under another name either."""
    seen: dict[bytes, str] = {}
    for file in files:
        if file != STANDARD_INPUT and not Path(file).is_file():
            raise InputError(
                f"{file} is a folder: name the report" if Path(file).is_dir() else f"there is no file {file}"
            )
        held = b"-" if file == STANDARD_INPUT else Path(file).read_bytes()
        if held in seen:
            raise InputError(f"{file} is the same report as {seen[held]}: added, it would count twice; give it once")
        seen[held] = file


def _read(source: str, files: Sequence[str], min_trials: int) -> Statistics | list[BenchPoint]:
    try:
        if len(files) == 1:
            return SOURCES[source](files[0], min_trials)
        parts = [_part(source, file) for file in files]
        reports = [part for part in parts if isinstance(part, Statistics)]
        if not reports:
            return [point for part in parts if not isinstance(part, Statistics) for point in part]
        return added_reports(reports, min_trials=min_trials)
    except ValueError as error:
        if "fewer than min_trials" not in str(error):
            raise
        raise InputError(f"{error}, or lower --min-trials") from None


def _part(source: str, file: str) -> Statistics | list[BenchPoint]:
    """One of several reports, whatever it counts."""
    try:
        return SOURCES[source](file, 1)
    except ValueError as error:
        raise InputError(f"{_named(file)}: {error}") from None


def _save(found: Statistics | Sequence[BenchPoint], source: str, out: Path) -> None:
    acceptance = found.acceptance if isinstance(found, Statistics) else None
    if acceptance is None:
        raise InputError(
            f"--out needs rates by position, of which {source} reports none here: leave it out{_constant_hint(found)}"
        )
    acceptance.save(out)


def _constant_hint(found: Statistics | Sequence[BenchPoint]) -> str:
    return ", or give the length of the drafts with --assume-constant" if isinstance(found, Statistics) else ""


def _plain(found: Statistics | Sequence[BenchPoint]) -> Any:
    """What was found as plain JSON values."""
    if not isinstance(found, Statistics):
        return [asdict(point) for point in found]
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    return values | {"acceptance": found.acceptance and found.acceptance.to_dict()}


def _shown(found: Statistics | Sequence[BenchPoint]) -> list[RenderableType]:
    from spectheory.report.terminal import acceptance_table, text_table

    if not isinstance(found, Statistics):
        return [text_table(_points(found))]
    rates = [] if found.acceptance is None else [acceptance_table(found.acceptance)]
    return [*rates, _totals(found), *(f"assumed: {sentence}" for sentence in found.assumed)]


def _totals(found: Statistics) -> str:
    """The totals that are known, in one line."""
    counts = {"cycles": found.drafts, "tokens drafted": found.drafted, "accepted": found.accepted}
    known = [f"{count:,} {name}" for name, count in counts.items() if count is not None]
    known = known if found.tau is None else [f"tau {found.tau:.3f}", *known]
    return f"{title(found.engine)} {found.kind}: {', '.join(known) or 'no totals'}"


def _points(points: Sequence[BenchPoint]) -> TextTable:
    from spectheory.report.tables import MISSING, TextTable

    rows = []
    for point in points:
        shape = (MISSING,) * 3 if point.envelope is None else tuple(map(str, asdict(point.envelope).values()))
        figures = (f"{point.tau:.3f}", f"{1e3 * point.step_seconds:.2f}", f"{point.tokens_per_second:,.1f}")
        rows.append((f"{point.batch_size:,}", *shape, *figures))
    header = ("batch", "levels", "branching", "nodes", "tau", "ms a cycle", "tokens/s")
    note = "Nodes without the root, - for plain decoding; tokens/s of one request."
    return TextTable("Measured by SGLang's bench_speculative", header, tuple(rows), note=note)
