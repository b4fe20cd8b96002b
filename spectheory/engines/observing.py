"""Reading a server's log, or its scrapes, as one `Observed` for each model that it serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from spectheory.core.checks import check_not_negative, check_whole
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.engines.engine import Engine
from spectheory.engines.observed import Observed, Observer
from spectheory.engines.prometheus import Metrics
from spectheory.engines.reports import texts_of

Read = TypeVar("Read")
SINCE_START = (
    "a single scrape counts everything since the server started, warm-up included: give two scrapes to see the time "
    "between them"
)


def observe(
    engine: Engine, kind: str, reports: Sequence[str | Path], *, model: str | None, min_trials: int
) -> list[Observed]:
    """What the models of a server did, by a log, or by one or two scrapes of Prometheus.

    Raises:
        InputError: a report cannot be read, the scrapes are not of one run of a server, or there is no such model.
    """
    observer = engine.observers[kind]
    texts = texts_of(engine, reports)
    if len(texts) > (2 if observer.scraped else 1):
        wanted = "one scrape, or two of which the first is subtracted" if observer.scraped else "one log"
        raise InputError(f"{kind} must be {wanted}, got {len(texts)} files")
    if not observer.scraped:
        if model is not None:
            raise InputError(f"model must be left out for {kind}, which does not tell models apart, got {model!r:.60}")
        (name, text), *_ = texts.items()
        return [_read(name, lambda content: observer.read(content, min_trials), text)]
    scrapes = [_read(name, Metrics.parse, text) for name, text in texts.items()]
    metrics = scrapes[0] if len(scrapes) == 1 else scrapes[1].since(scrapes[0])
    notes = (SINCE_START,) if len(scrapes) == 1 else ()
    found = _of_models(observer, metrics, model, min_trials)
    return [replace(seen, model=name, notes=(*notes, *seen.notes)) for name, seen in found.items()]


def _of_models(observer: Observer, metrics: Metrics, model: str | None, min_trials: int) -> dict[str, Observed]:
    """Each model that decoded, or the given one. The error of the first is raised if none did."""
    parts = metrics.by_label(observer.label)
    if model is not None and model not in parts:
        raise InputError(unknown(f"value of the label {observer.label}", model, [name for name in parts if name]))
    found, errors = {}, []
    for name, part in parts.items() if model is None else [(model, parts[model])]:
        try:
            found[name] = observer.read(part, min_trials)
        except InputError as error:
            errors.append(InputError(f"{name}: {error}" if len(parts) > 1 else str(error)))
    if not found:
        raise errors[0]
    return found


def _read(name: str, reader: Callable[[str], Read], text: str) -> Read:
    try:
        return reader(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def with_given(seen: Observed, nodes: int | None, depth: int | None, batch: float | None) -> Observed:
    """`seen` with figures that its report does not have, or that are known better.

    Raises:
        InputError: a figure is out of range, or nodes and depth contradict each other or tau.
    """
    if nodes is not None:
        check_whole("nodes", nodes, 1)
    if depth is not None:
        check_whole("depth", depth, 1)
    if batch is not None:
        check_not_negative("batch", batch, ": give a number of sequences")
        if batch < 1:
            raise InputError(f"batch must be at least 1, got {batch:g}: give the sequences that decode together")
    if nodes is not None and depth is not None and depth > nodes:
        raise InputError(f"depth must be at most nodes={nodes}, got {depth}: a level has at least one node")
    levels = depth if depth is not None else nodes if seen.depth is None else seen.depth
    if seen.statistics is not None and levels is not None and seen.tau > levels + 1 + 1e-6:
        raise InputError(f"depth must be at least {seen.tau - 1:.4g}, because tau is {seen.tau:.4g}, got {levels}")
    return replace(
        seen,
        nodes=seen.nodes if nodes is None else float(nodes),
        depth=seen.depth if depth is None else depth,
        batch=seen.batch if batch is None else float(batch),
    )
