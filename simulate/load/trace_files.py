"""`read_trace`: recorded requests from a file, whose format is recognised by its content."""

from __future__ import annotations

import csv
import itertools
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from simulate.load.requests import Requests
from simulate.load.trace_formats import EVERY, LINES, RESULTS, TABLES, Row, TraceFormat
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

Failed = Literal["refuse", "skip"]
"""What to do with requests that failed or have no tokens."""


@dataclass(frozen=True)
class TraceFile:
    """What was read from a file.

    Attributes:
        requests: the requests; the first one arrives at 0.
        format: the name of the file's format.
        failed: number of requests that failed or have no tokens, and were left out.
        warm_up: number of requests before the measurement, which were left out.
    """

    requests: Requests
    format: str
    failed: int = 0
    warm_up: int = 0


def read_trace(path: str | Path, *, first: int | None = None, failed: Failed = "refuse") -> TraceFile:
    """Read recorded requests: their times of arrival and the tokens of prompts and answers.

    Formats: Azure LLM inference traces and BurstGPT (CSV), Mooncake and AIPerf's records (JSON Lines), and the result
    of `vllm bench serve --save-detailed` (JSON). Times of a benchmark are when its client sent the requests; with a
    limited concurrency they depend on the server that was measured.

    Args:
        path: the file.
        first: read only this many requests from the start of the file; None reads all.
        failed: `refuse` a file with requests that failed or have no tokens, or `skip` them.

    Raises:
        InputError: the file cannot be read, is in no known format or in two, its requests are not in the order of their
            arrival, a number is wrong, or `failed` is `refuse` and requests failed. The message names the line.
    """
    if failed not in get_args(Failed):
        raise InputError(f"failed must be refuse or skip, got {failed!r:.60}")
    if first is not None:
        check_whole("first", first, 1)
    path = Path(path)
    try:
        found, rows = _rows(path)
        kept = _Kept(str(path), found.by_arrival)
        for row in itertools.islice(rows, first):
            kept.add(row)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except csv.Error as error:
        raise InputError(
            f"{path} is not CSV ({error}): it may lack a closing quotation mark, write it again"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}): save it as UTF-8") from error
    return TraceFile(kept.requests(failed), found.title, kept.failed, kept.warm_up)


@dataclass
class _Kept:
    """The requests of a file so far, checked one by one."""

    name: str
    by_arrival: bool
    seconds: array = field(default_factory=lambda: array("d"))
    prompts: array = field(default_factory=lambda: array("q"))
    outputs: array = field(default_factory=lambda: array("q"))
    failed: int = 0
    warm_up: int = 0
    first_failure: str = ""
    last: Row | None = None

    def add(self, row: Row) -> None:
        if self.by_arrival and self.last is not None and row.seconds < self.last.seconds:
            raise InputError(
                f"{row.where}: the request arrives {self.last.seconds - row.seconds:g} s before the one at "
                f"{self.last.where}: sort the file by time; if files were joined, give one of them"
            )
        self.last = row
        why = row.failed or ("its prompt has 0 tokens" if not row.prompt_tokens else "")
        why = why or ("its answer has 0 tokens" if not row.output_tokens else "")
        if row.warm_up:
            self.warm_up += 1
        elif why:
            self.failed += 1
            self.first_failure = self.first_failure or f"{row.where}, because {why}"
        else:
            self.seconds.append(row.seconds)
            self.prompts.append(row.prompt_tokens)
            self.outputs.append(row.output_tokens)

    def requests(self, failed: Failed) -> Requests:
        count = len(self.seconds)
        if self.failed and failed == "refuse":
            raise InputError(
                f"{self.name}: {self.failed:,} of {count + self.failed:,} requests failed or have no tokens, the first "
                f"at {self.first_failure}: leave them out with failed='skip', in a load with {self.name},failed=skip"
            )
        if not count:
            raise InputError(
                f"{self.name} has no request to serve: {self.warm_up:,} belong to the warm-up, and {self.failed:,} "
                "failed or have no tokens; give a file with other requests"
            )
        seconds, prompts, outputs = (np.array(column) for column in (self.seconds, self.prompts, self.outputs))
        order = np.argsort(seconds, kind="stable")
        try:
            return Requests(seconds[order] - seconds[order[0]], prompts[order], outputs[order])
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def _rows(path: Path) -> tuple[TraceFormat, Iterator[Row]]:
    """The format of a file, and its requests."""
    with path.open(encoding="utf-8-sig") as file:
        start = next((line for line in file if line.strip()), "")
    if not start:
        raise InputError(f"{path} is empty: give a file with requests")
    if not start.lstrip().startswith(("{", "[")):
        return _table(path, next(csv.reader([start])))
    try:
        entry = json.loads(start)
    except (ValueError, RecursionError):
        return _result(path)
    form = _recognised(path, entry, (*LINES, *RESULTS))
    return _result(path) if form in RESULTS else (form, _lines(path, form))


def _recognised(path: Path, names: Any, formats: tuple[TraceFormat, ...]) -> TraceFormat:
    """The format with these columns or fields."""
    names = names if isinstance(names, list | Mapping) else []
    if found := next((form for form in formats if form.matches(names)), None):
        return found
    if "experiments" in names:
        raise InputError(
            f"{path} is a profile of GenAI-Perf, which has no numbers of tokens: give the trace that GenAI-Perf "
            "replayed, or profile_export.jsonl of AIPerf"
        )
    known = "; ".join(f"{form.title} ({', '.join(form.fields)})" for form in EVERY)
    shown = ", ".join(f"{name!s:.40}" for name in itertools.islice(names, 8))
    raise InputError(f"{path} has the fields {shown or 'of no request'}, but a trace has the fields of one of: {known}")


def _table(path: Path, header: list[str]) -> tuple[TraceFormat, Iterator[Row]]:
    names = [name.strip() for name in header]
    form = _recognised(path, names, TABLES)
    return form, _table_rows(path, form, names)


def _table_rows(path: Path, form: TraceFormat, names: list[str]) -> Iterator[Row]:
    assert form.read is not None
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        next(line for line in lines if line)
        for cells in lines:
            if not cells:
                continue
            where = f"{path}, line {lines.line_num}"
            if len(cells) != len(names):
                _require_same(where, form, [cell.strip() for cell in cells], TABLES)
                raise InputError(
                    f"{where} must have {len(names)} cells, got {len(cells)}: the file is damaged or cut off"
                )
            row = dict(zip(names, cells, strict=True))
            try:
                yield form.read(where, row)
            except InputError:
                _require_same(where, form, [cell.strip() for cell in cells], TABLES)
                raise


def _lines(path: Path, form: TraceFormat) -> Iterator[Row]:
    assert form.read is not None
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(f"{where}: the JSON is damaged or cut off: copy the file again") from None
            if not isinstance(entry, dict) or not form.matches(entry):
                names = entry if isinstance(entry, dict) else []
                _require_same(where, form, names, (*LINES, *RESULTS))
                missing = [name for name in form.fields if name not in names]
                raise InputError(f"{where} has no {' and no '.join(missing)}: correct or remove the line")
            yield form.read(where, entry)


def _require_same(where: str, form: TraceFormat, names: Any, formats: tuple[TraceFormat, ...]) -> None:
    """Check that a row is not the header or the entry of a format: then two files were joined."""
    if other := next((one for one in formats if one.matches(names)), None):
        what = "a second header" if other is form else f"of the format {other.title}"
        raise InputError(
            f"{where} is {what}, but the file began as {form.title}: two files were joined, give one of them"
        )


def _result(path: Path) -> tuple[TraceFormat, Iterator[Row]]:
    """A file that is one JSON object."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        several = sum(line.startswith("{") for line in text.splitlines()) > 1
        repair = "give the line of one result" if several else "copy the file again"
        raise InputError(f"{path} is not one JSON object ({error!s:.60}): {repair}") from None
    form = _recognised(path, entry, RESULTS)
    assert form.rows is not None
    return form, form.rows(str(path), entry)
