"""Certify a subject in a copy, and keep the results as one JSON record."""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

import spectheory as st
from examples.gallery.copies import find_copy
from examples.gallery.drafts import Verify
from examples.gallery.subjects import Subject
from spectheory.certify import Play, certify_in_worlds
from spectheory.certify.black_box_worlds import plays_of
from spectheory.core.errors import InputError
from spectheory.core.files import read_text, write_whole
from spectheory.core.json_values import parse

RECORD = Path(__file__).parent / "measured.json"
"""The record of the last run of each subject."""
SECONDS = 60
"""Processor time that one call of a sampler may take."""
ALPHA = 1e-6
"""Level of the black box."""
RUNS = 60_000
"""Largest number of runs of the black box."""


@dataclass(frozen=True)
class Row:
    """The result of one subject.

    Attributes:
        subject: its name.
        version: commit or installed version of the copy; "" if unknown.
        mode: exact or black box.
        verdict: name of the verdict.
        tv: largest total variation found, as a fraction or a number; "" if there is no verdict.
        size: the worlds or runs that decided it.
        seconds: processor time, in seconds, without the import of PyTorch.
        failure: why there is no verdict, in one line.
        evidence: the certificate's lines if it is LOSSY.
        measured: the day of the run, and the versions of Python, PyTorch and spectheory.
    """

    subject: str
    version: str
    mode: str
    verdict: str
    tv: str
    size: str
    seconds: float
    failure: str
    evidence: tuple[str, ...]
    measured: str


def load_rows(record: Path) -> dict[str, Row]:
    """The rows of a record by subject; none if there is no such file.

    Raises:
        InputError: the file holds something else, or is damaged.
    """
    if not record.is_file():
        return {}
    held = parse(read_text(record), str(record))
    try:
        return {row["subject"]: Row(**{**row, "evidence": tuple(row["evidence"])}) for row in held["rows"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"{record} is not a record of the gallery: name another file") from error


def save_rows(record: Path, rows: Iterable[Row]) -> None:
    """Write a record."""
    data = {"kind": "gallery", "schema": 1, "rows": [dataclasses.asdict(row) for row in rows]}
    write_whole(record, json.dumps(data, indent=1) + "\n")


def certify_all(folder: Path, subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Row | str]]:
    """Each subject with its row, or with the reason why it was skipped."""
    for subject in subjects:
        copy = find_copy(folder, subject.repository, subject.file)
        if copy is None:
            yield subject, f"there is no copy of {subject.repository} with {subject.file} in {folder.name}"
            continue
        start = time.process_time()
        try:
            given = subject.adapter(copy)
        except Exception as error:  # the published file may be of another version
            yield subject, f"its adapter does not fit this copy: {type(error).__name__}: {error}"
            continue
        yield subject, _row(subject, copy.version, given, start)


def _row(subject: Subject, version: str, given: Verify | Play, start: float) -> Row:
    if isinstance(given, Play):
        return _black_box(subject, version, [given], start, cycles=1)
    found = st.certify_verifier(
        given, rules=[subject.rule], policies=subject.policies, cases=subject.cases, seconds=SECONDS
    )
    if found.cannot_replay:
        return _black_box(subject, version, plays_of(given, subject.policies[-1], 0), start)
    decided = found.verdict is not st.Verdict.UNDECIDED
    tv = found.variations[0][1] if found.variations else "0" if decided else ""
    evidence = tuple(found.counterexample.lines()) if found.counterexample else ()
    what = "exact", found.verdict.name, tv, f"{found.cases:,} worlds"
    return _finished(subject, version, what, start, found.failure or "", evidence)


def _black_box(subject: Subject, version: str, plays: Sequence[Play], start: float, cycles: int = 2) -> Row:
    torch.manual_seed(0)
    found = certify_in_worlds(plays, cycles=cycles, alpha=ALPHA, tv=0.05, max_samples=RUNS, seconds=SECONDS)
    tv = f"about {found.tv_seen:.3f}" if found.verdict is st.Verdict.LOSSY else f"at most {found.tv_bound:.3f}"
    evidence = tuple(found.lines()) if found.verdict is st.Verdict.LOSSY else ()
    what = "black box", found.verdict.name, tv, f"{found.samples:,} runs"
    return _finished(subject, version, what, start, found.failure, evidence)


def _finished(
    subject: Subject, version: str, what: tuple[str, str, str, str], start: float, failure: str, evidence: Sequence[str]
) -> Row:
    seconds = round(time.process_time() - start, 1)
    numbers = f"Python {platform.python_version()}, PyTorch {torch.__version__}, spectheory {st.__version__}"
    first = failure.splitlines()[0] if failure else ""
    mode, verdict, tv, size = what
    day = f"{date.today().isoformat()}, {numbers}"
    return Row(subject.name, version, mode, verdict, tv, size, seconds, first, tuple(evidence), day)
