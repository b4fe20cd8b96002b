"""Reading the reports of an engine, from files or texts: as statistics, or as what a server did."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from spectheory.core.errors import InputError, unknown
from spectheory.core.files import is_there
from spectheory.core.provenance import Provenance
from spectheory.engines.engine import Engine, Observed
from spectheory.engines.prometheus import Metrics
from spectheory.engines.statistics import Statistics, assume_constant
from spectheory.hardware.models import known_model

Report = str | Path | Sequence[str | Path]
"""The text of a report or the Path of its file; several logs or responses, which are read as one; or two scrapes."""
Found = TypeVar("Found")
MODEL = "model_name"
"""The label of scrapes that tells the models of a server apart."""
SERVER = (
    r"model='[^']*', speculative_config=(?:None|\w+\([^)]*\))|\b(?:model_path|speculative_\w+)=[^,)\s]*"
    r"""|loading (?:draft )?model '[^']*'|statistics [\w-]+|"model":\s*"[^"]*\""""
)
"""What a server says of its model and its drafter: vLLM at its start, SGLang, llama.cpp, and a response."""
DATED = r"(?i)(?:\d\d:\d\d:\d\d|\btask \d+|^\s*\{.*\"(?:id|iter|request_id)\":).*accept"
"""A counted line with a time or an id, which occurs once."""
DAY = r"\d{4}-\d\d-\d\d|\b\d\d-\d\d(?= \d\d:\d\d:\d\d)"
APART = "read them apart, or give --add (add=True) to add their counts"
SINCE_START = (
    "a single scrape counts everything since the server started, warm-up included: give two scrapes to see the time "
    "between them"
)


def read(
    engine: Engine, kind: str, report: Report, model: str | None, min_trials: int, constant: int | None, add: bool
) -> Statistics:
    """As `spectheory.read_report`, with the engine that has a reader for the kind of report."""
    with _naming(report):
        found = _of_models(_contents(engine, kind, report, add), model, min_trials, engine.readers[kind].statistics)
    if len(found) > 1:
        names = ", ".join(found)
        raise InputError(f"the scrape is of the models {names}, which must not be added: give the lines of one (grep)")
    ((label, made),) = found.items()
    made = made if constant is None else assume_constant(made, constant)
    if made.acceptance is None:
        return made
    files = {"files": _files(report)} if _files(report) else {}
    served = known_model(label)
    settings, target = {"report": kind} | files, served and served.name
    stamp = Provenance.now("spectheory.read_report", target=target, settings=settings)
    stated = {"provenance": stamp.assuming(*made.assumed), "drafted_share": made.drafted_share}
    return replace(made, acceptance=replace(made.acceptance, **stated))


def observe(
    engine: Engine, kind: str, report: Report, model: str | None, min_trials: int, add: bool
) -> dict[str, Observed]:
    """As `spectheory.engines.observed_in`, with the engine that has an observer for the kind of report."""
    reader = engine.readers[kind]
    if reader.observe is None:
        raise InputError(f"{kind} has no times: give the log or the metrics of a server")
    with _naming(report):
        contents = _contents(engine, kind, report, add)
        found = _of_models(contents, model, min_trials, reader.observe)
    if not reader.scraped or any(each.subtracted for each in contents.values()):
        return found
    return {name: replace(seen, notes=(SINCE_START, *seen.notes)) for name, seen in found.items()}


@contextmanager
def _naming(report: Report) -> Iterator[None]:
    """Name the files of a report in errors about it."""
    try:
        yield
    except InputError as error:
        files = _files(report)
        raise type(error)(str(error) if files in str(error) else f"{files}: {error}") from None


def _of_models(
    contents: dict[str, Any], model: str | None, min_trials: int, read: Callable[[Any, int], Found]
) -> dict[str, Found]:
    """What was read for the given model, or for each that can be read. The error of the first is raised if none can."""
    if model is not None and model not in contents:
        raise InputError(unknown(f"value of the label {MODEL}", model, [name for name in contents if name]))
    found, errors = {}, []
    for name, content in contents.items():
        try:
            if model in (None, name):
                found[name] = read(content, min_trials)
        except InputError as error:
            errors.append(type(error)(f"{name}: {error}" if len(contents) > 1 else str(error)))
    if not found:
        raise errors[0]
    return found


def _contents(engine: Engine, kind: str, report: Report, add: bool) -> dict[str, Any]:
    """What is read, by the served model: the texts one after another, or the `Metrics` of one scrape or between two."""
    texts = [text_of(each) for each in _listed(report)]
    if len(set(texts)) < len(texts):
        raise InputError("two of the reports are the same and would count twice: give each once")
    if not engine.readers[kind].scraped:
        if not add:
            _require_one_server(texts)
        return {"": "\n".join(texts)}
    if len(texts) > 1 and len(texts) % 2:
        raise InputError(f"{kind} must be one scrape, or two of each replica, the earlier ones first, got {len(texts)}")
    scrapes, half = [Metrics.parse(text) for text in texts], (len(texts) + 1) // 2
    later = Metrics.together(scrapes[-half:])
    return (later if len(texts) == 1 else later.since(Metrics.together(scrapes[:half]))).by_label(MODEL)


def _require_one_server(texts: Sequence[str]) -> None:
    """Refuse reports that do not say that one server with one model and drafter wrote them on one day, and repeats."""
    said = [{found[0] for found in re.finditer(SERVER, text)} for text in texts]
    every, shared = set().union(*said), set.intersection(*said)
    names = Counter(re.split("[=:']", fact)[0] for fact in every)
    if other := [fact for fact in sorted(every) if fact not in shared or names[re.split("[=:']", fact)[0]] > 1]:
        raise InputError(f"the reports are of different servers or drafters ({'; '.join(other):.300}): {APART}")
    if len(texts) > 1 and "model" not in str(every):
        raise InputError(f"the reports do not say that they are of one server, model and drafter: {APART}")
    days = [{*re.findall(DAY, text)} for text in texts]
    if len(texts) > 1 and all(days) and not set.intersection(*days):
        raise InputError(f"the reports are of different days ({', '.join(map(min, days)):.90}): {APART}")
    lines = Counter(line for text in texts for line in text.splitlines() if re.search(DATED, line))
    if twice := [line for line, times in lines.items() if times > 1]:
        raise InputError(f"{len(twice)} lines are given twice, such as {twice[0]!r:.90}: give each once, or --add")


def text_of(report: str | Path) -> str:
    """The text of one report."""
    if isinstance(report, Path) and not (is_there(report) and report.is_file()):
        raise InputError(f"there is no file {report}: check the path")
    # bytes that are not UTF-8 are replaced, because the logs of engines can contain them
    text = report.read_text(encoding="utf-8-sig", errors="replace") if isinstance(report, Path) else report
    name = report if isinstance(report, Path) else "the report"
    if not text.strip():
        raise InputError(f"{name} is empty: give the text that the engine reported")
    if found := re.search(r"\d{40,}", text):
        raise InputError(f"{name} has a number of {len(found[0]):,} digits: give the text that the engine reported")
    return text


def _listed(report: Report) -> list[str | Path]:
    several = [report] if isinstance(report, str | Path) else list(report)
    if not several:
        raise InputError("report must be a text, a Path or a list of them, got an empty list")
    return several


def _files(report: Report) -> str:
    return ", ".join(str(each) for each in _listed(report) if isinstance(each, Path))
