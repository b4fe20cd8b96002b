"""`diagnose`: the seconds of a server's cycle as observed and as predicted, and what would be fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.engine import Observed
from spectheory.engines.statistics import constant_rate
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment
from spectheory.yields import block_efficiency

Times = Deployment | Latency | Sequence[Latency]
LONGEST = 32
"""Largest number of drafted tokens that is tried as the fastest."""


@dataclass(frozen=True)
class CycleSeconds:
    """Seconds of a cycle by its parts, of the whole with the prompts that are read in it, and of a plain step."""

    draft: float | None = None
    verification: float | None = None
    overhead: float | None = None
    prompts: float | None = None
    cycle: float | None = None
    plain: float | None = None


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What one served model did, beside what forward times predict for it. A figure that is unknown is None.

    Attributes:
        engine: title of the engine.
        model: the label of the model, if the server has several; otherwise "".
        tau: tokens per target call; 1 if nothing was drafted.
        rates: the observed acceptance rate of each position, given that those before it were accepted; one rate for all
            positions if only tau is known; empty if it is unknown how many tokens were drafted.
        nodes: drafted tokens per cycle, the root excluded; 0 if nothing was drafted.
        batch: mean number of sequences that decode together.
        observed: the seconds by the reports.
        predicted: the seconds by forward times.
        best_length: number of drafted tokens of the chain that is fastest by the rates and forward times; 0 is no
            speculation.
        best_speedup: how many times as fast as the drafts of now that chain is, by the same rates and times.
        notes: what the figures contain, and what was assumed.
    """

    engine: str
    model: str
    tau: float
    rates: tuple[float, ...]
    nodes: float | None
    batch: float | None
    observed: CycleSeconds
    predicted: CycleSeconds
    best_length: int | None
    best_speedup: float | None
    notes: tuple[str, ...]

    @property
    def speedup(self) -> float | None:
        """Observed speed divided by the speed without speculation, which is predicted if it was not observed."""
        plain, cycle = self.observed.plain or self.predicted.plain, self.observed.cycle
        return self.tau * plain / cycle if plain and cycle else None


def diagnosed(
    engine: str, model: str, seen: Observed, plain: Observed | None, times: Times | None, shape: tuple[int, int] | None
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.engines.diagnose`."""
    notes = list(seen.notes)
    tree, latency, at = _drafted_tree(seen, shape, notes), *_forward_times(times, seen, notes)
    rates = None if tree is None else _rates(seen, tree)
    predicted, best, gain = CycleSeconds(), None, None
    if latency is not None and tree is not None:
        prompts = float(latency.prompts(seen.tau))
        predicted = CycleSeconds(
            latency.draft_levels(tree, at),
            latency.target(tree.budget + 1, at),
            latency.overhead(tree),
            prompts,
            latency.cycle(tree, at) + prompts,
            latency.plain(at),
        )
        if rates is not None:
            best, gain = _fastest(latency, at, rates, tree, seen.tau)
    step = seen.step_seconds if seen.statistics is None else plain.step_seconds if plain else None
    return Diagnosis(
        engine,
        model,
        seen.tau,
        () if rates is None else tuple(rates.table.sum(axis=1).tolist()),
        seen.nodes if shape is None else float(shape[0]),
        seen.batch,
        CycleSeconds(draft=seen.draft_seconds, cycle=seen.step_seconds, plain=step),
        predicted,
        best,
        gain,
        tuple(dict.fromkeys(notes)),
    )


def _drafted_tree(seen: Observed, shape: tuple[int, int] | None, notes: list[str]) -> Tree | None:
    """A tree with the drafted nodes, spread evenly over the levels; None if their number is unknown."""
    if seen.statistics is None:
        notes.append("nothing was drafted: is speculation configured, or off at this load?")
        return Tree.chain(0)
    if shape is None and seen.nodes is None:
        notes.append("the report does not say how many tokens were drafted: give the nodes and levels of the draft")
        return None
    nodes = max(1, round(seen.nodes or 0)) if shape is None else shape[0]
    depth = min(nodes, seen.depth or nodes) if shape is None else shape[1]
    if not max(1, seen.tau - 1) <= depth <= nodes:
        raise InputError(f"levels must be from tau - 1 = {seen.tau - 1:.4g} to nodes={nodes}, got {depth}")
    parent, first = [-1], 0
    for level in range(depth):
        width = nodes // depth + (level < nodes % depth)
        parent += [first] * width
        first = len(parent) - width
    return Tree(parent)


def _forward_times(times: Times | None, seen: Observed, notes: list[str]) -> tuple[Latency | None, int]:
    """The forward times at the server's batch size, if they are known, and their context."""
    if isinstance(times, Deployment):
        if seen.batch is None:
            notes.append("nothing is predicted, because the batch size is not known: give it")
            return None, 0
        if (times.prompt_tokens, times.context) == (None, None) and seen.prompt_tokens is not None:
            times = replace(times, prompt_tokens=seen.prompt_tokens, output_tokens=seen.output_tokens)
        return times.latency(max(1, round(seen.batch))), times.planned_context
    records = [times] if isinstance(times, Latency) else list(times or ())
    if not records:
        return None, 0
    batch = seen.batch or records[0].batch
    near = min(records, key=lambda latency: max(latency.batch / batch, batch / latency.batch))
    if seen.batch is None or near.batch != round(batch):
        known = "is not known" if seen.batch is None else f"is {batch:.3g}"
        notes.append(f"the forward times are of batch size {near.batch}, that of the server {known}")
    return near, near.context_of(None)


def _rates(seen: Observed, tree: Tree) -> Acceptance | None:
    """The observed rates by position; one rate for all positions if only tau is known."""
    if seen.statistics is None or seen.statistics.acceptance is not None:
        return seen.statistics and seen.statistics.acceptance
    return Acceptance.by_rank([constant_rate(seen.tau, tree.max_depth)])


def _fastest(latency: Latency, at: int, rates: Acceptance, tree: Tree, tau: float) -> tuple[int, float]:
    """The length of the fastest chain, and how many times as fast as `tree` it is; 0 is no speculation."""
    chains = [Tree.chain(n) for n in range(min(LONGEST, int(latency.tokens[-1]) - 1) + 1)]
    speeds = [latency.speedup(chain, block_efficiency(chain, rates) if chain.budget else 1.0, at) for chain in chains]
    best = int(np.argmax(speeds))
    return best, speeds[best] / latency.speedup(tree, tau, at)
