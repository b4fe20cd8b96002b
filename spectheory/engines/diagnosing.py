"""`diagnose`: why speculation on a server is as fast as it is, from its log or its metrics.

The seconds per token of a sequence are (draft + verification + overhead) / tau, plus the prompts that are read in
between: `cycle_parts` finds them, and `speed_factors` compares each with its usual value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from spectheory.core.checks import check_not_negative, check_whole
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines.cycle_parts import (
    CycleParts,
    Times,
    cycle_parts,
    cycle_seconds,
    drafted_tree,
    fits,
    forward_times,
)
from spectheory.engines.engine import Engine
from spectheory.engines.observed import Advice, Observed, Observer
from spectheory.engines.prometheus import Metrics
from spectheory.engines.reports import texts_of
from spectheory.engines.speed_factors import Usual, accepted_tokens, factors_of, rates_by_position
from spectheory.hardware.latency import Latency
from spectheory.results.diagnosis import Diagnosis

LONGEST = 32
"""Largest number of drafted tokens that is tried as the fastest."""
GIVE_TIMES = (
    "give forward times: --gpu, --target and --draft for computed ones, --costs for ones calibrated on this server, or "
    "--latency with the record of `spectheory profile`"
)
GIVE_BATCH = "give the number of sequences that decode together (--batch)"
GIVE_FITTING = "calibrate the forward times on this server (spectheory calibrate), and give them with --costs"


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


def diagnosed(
    seen: Observed,
    advice: Advice,
    *,
    plain: Observed | None = None,
    times: Times | None = None,
    context: int | None = None,
    usual: Usual | None = None,
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.diagnose`."""
    usual = Usual() if usual is None else usual
    stamp = Provenance.now("spectheory.diagnose", settings={"report": seen.kind})
    if seen.statistics is None:
        said = "nothing was drafted, so there is nothing to diagnose: is speculation configured, or off at this load?"
        return Diagnosis(
            seen.engine, seen.kind, seen.model, 1.0, 0.0, 0, seen.batch, seen.step_seconds, seen.step_seconds,
            None, None, None, (), notes=(*seen.notes, said), provenance=stamp,
        )  # fmt: skip
    notes = list(seen.notes)
    tree = drafted_tree(seen, notes)
    latency, alone, at = forward_times(times, seen, context, notes)
    wanted = GIVE_TIMES if times is None else GIVE_BATCH
    if latency is not None and tree is not None and not fits(seen, latency, at, tree, notes):
        latency, wanted = None, GIVE_FITTING
    parts = cycle_parts(seen, plain, latency, alone, at, tree, notes)
    factors = factors_of(seen, parts, tree, advice, usual, wanted)
    length, gain = _fastest(seen, parts, latency, at, tree)
    setting = "no speculation at this load"
    if length != 0:
        setting = "" if length is None else advice.length.format(length=length, nodes=length + 1)
    return Diagnosis(
        seen.engine,
        seen.kind,
        seen.model,
        seen.tau,
        seen.nodes,
        None if tree is None else tree.max_depth,
        seen.batch,
        cycle_seconds(seen, parts),
        None if parts.plain is None else parts.plain + parts.prompts[1],
        parts.draft,
        parts.verification,
        parts.overhead,
        factors,
        length,
        gain,
        setting,
        tuple(dict.fromkeys(notes)),
        stamp if latency is None else stamp.assuming(*latency.provenance.assumptions),
    )


def _fastest(
    seen: Observed, parts: CycleParts, latency: Latency | None, at: int, tree: Tree | None
) -> tuple[int | None, float | None]:
    """The fastest number of drafted tokens, and how many times as fast as now it is; None, None if it is unknown.

    The rate of the last measured position is used for deeper positions. Overheads beyond those of the forward times
    stay as they are.
    """
    rates = rates_by_position(seen, tree)
    if latency is None or tree is None or rates is None or not tree.is_chain or parts.plain is None:
        return None, None
    extra = (parts.overhead or 0.0) - latency.overhead(tree)
    scale = 1.0 if not seen.draft_seconds else seen.draft_seconds / max(latency.draft_levels(tree, at), 1e-30)
    longest = min(LONGEST, 2 * tree.budget, int(latency.tokens[-1]) - 1)

    def per_token(length: int) -> float:
        chain, known = Tree.chain(length), [*rates, *[rates[-1]] * length][:length]
        work = scale * latency.draft_levels(chain, at) + latency.target(length + 1, at) + latency.overhead(chain)
        return (work + extra) / (1 + accepted_tokens(known)) + parts.prompts[0]

    seconds = {0: parts.plain + parts.prompts[1]} | {n: per_token(n) for n in range(1, longest + 1)}
    best = min(seconds, key=seconds.__getitem__)
    return best, per_token(tree.budget) / seconds[best]
