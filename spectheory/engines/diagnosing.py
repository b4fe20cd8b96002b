"""`diagnose`: the seconds of a server's cycle as observed and as predicted, and what would be fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_not_negative, check_whole
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
class Predicted:
    """Seconds of a cycle by its parts, and of a plain step with its prompts, by forward times."""

    draft_seconds: float
    verification_seconds: float
    overhead_seconds: float
    prompt_seconds: float
    plain_seconds: float

    @property
    def cycle_seconds(self) -> float:
        """Seconds of a cycle, with the prompts that are read in it."""
        return self.draft_seconds + self.verification_seconds + self.overhead_seconds + self.prompt_seconds


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
        depth: levels of a draft.
        batch: mean number of sequences that decode together.
        cycle_seconds: observed seconds of a cycle, with the prompts that are read in it.
        plain_seconds: the same for a step without speculation.
        draft_seconds: observed seconds of a cycle in which the draft runs.
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
    depth: int | None
    batch: float | None
    cycle_seconds: float | None
    plain_seconds: float | None
    draft_seconds: float | None
    predicted: Predicted | None
    best_length: int | None
    best_speedup: float | None
    notes: tuple[str, ...]

    @property
    def speedup(self) -> float | None:
        """Observed speed divided by the speed without speculation, which is predicted if it was not observed."""
        plain = self.plain_seconds
        if plain is None and self.predicted is not None:
            plain = self.predicted.plain_seconds
        return self.tau * plain / self.cycle_seconds if plain and self.cycle_seconds else None


def diagnosed(
    engine: str, model: str, seen: Observed, plain: Observed | None, times: Times | None, context: int | None
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.diagnose`."""
    notes = list(seen.notes)
    tree = _drafted_tree(seen, notes)
    latency, at = _forward_times(times, seen, context, notes)
    rates = None if tree is None else _rates(seen, tree)
    predicted = best = gain = None
    if latency is not None and tree is not None:
        predicted = Predicted(
            latency.draft_levels(tree, at),
            latency.target(tree.budget + 1, at),
            latency.overhead(tree),
            float(latency.prompts(seen.tau)),
            latency.plain(at),
        )
        if rates is not None:
            best, gain = _fastest(latency, at, rates, tree, seen.tau)
    table = [] if rates is None or tree is None else rates.table.sum(axis=1).tolist()
    return Diagnosis(
        engine,
        model,
        seen.tau,
        tuple(table),
        seen.nodes,
        None if tree is None else tree.max_depth,
        seen.batch,
        seen.step_seconds,
        seen.step_seconds if seen.statistics is None else plain.step_seconds if plain else None,
        seen.draft_seconds,
        predicted,
        best,
        gain,
        tuple(dict.fromkeys(notes)),
    )


def with_given(seen: Observed, nodes: int | None, depth: int | None, batch: float | None) -> Observed:
    """`seen` with figures that its report does not have, or that are known better.

    Raises:
        InputError: a figure is out of range, or nodes and depth contradict each other or tau.
    """
    for name, value in (("nodes", nodes), ("depth", depth)):
        if value is not None:
            check_whole(name, value, 1)
    if batch is not None:
        check_not_negative("batch", batch, ": give a number of sequences")
    if nodes is not None and depth is not None and depth > nodes:
        raise InputError(f"depth must be at most nodes={nodes}, got {depth}: a level has at least one node")
    levels = depth if depth is not None else nodes if seen.depth is None else seen.depth
    if seen.statistics is not None and levels is not None and seen.tau > levels + 1 + 1e-6:
        raise InputError(f"depth must be at least {seen.tau - 1:.4g}, because tau is {seen.tau:.4g}, got {levels}")
    return replace(
        seen,
        nodes=seen.nodes if nodes is None else float(nodes),
        depth=seen.depth if depth is None else depth,
        batch=seen.batch if batch is None else max(1.0, batch),
    )


def _drafted_tree(seen: Observed, notes: list[str]) -> Tree | None:
    """A tree with the drafted nodes, spread evenly over the levels; None if their number is unknown."""
    if seen.statistics is None:
        notes.append("nothing was drafted: is speculation configured, or off at this load?")
        return Tree.chain(0)
    nodes = seen.depth if seen.nodes is None else max(1, round(seen.nodes))
    if nodes is None:
        notes.append("the report does not say how many tokens were drafted: give the nodes, and the levels of a tree")
        return None
    if seen.depth is None:
        notes.append(f"drafts are taken as chains of {nodes} tokens: for trees, give their levels")
    depth = min(nodes, seen.depth or nodes)
    parent, first = [-1], 0
    for level in range(depth):
        width = nodes // depth + (level < nodes % depth)
        parent += [first] * width
        first = len(parent) - width
    return Tree(parent)


def _forward_times(
    times: Times | None, seen: Observed, context: int | None, notes: list[str]
) -> tuple[Latency | None, int]:
    """The forward times at the server's batch size, if they are known, and their context."""
    if times is None:
        return None, 0
    if isinstance(times, Deployment):
        if seen.batch is None:
            notes.append("the forward times are not used, because the batch size is not known: give it")
            return None, 0
        given = (times.prompt_tokens, times.context, times.measured)
        if all(value is None for value in given) and seen.prompt_tokens is not None and seen.output_tokens:
            times = replace(times, prompt_tokens=seen.prompt_tokens, output_tokens=seen.output_tokens)
        return times.latency(max(1, round(seen.batch))), times.planned_context
    records = [times] if isinstance(times, Latency) else list(times)
    if not records:
        raise InputError("times must have at least one latency, got none")
    batch = seen.batch or records[0].batch
    near = min(records, key=lambda latency: max(latency.batch / batch, batch / latency.batch))
    if seen.batch is None or near.batch != round(batch):
        said = "of the server is not known" if seen.batch is None else f"of the server is {batch:.3g}"
        notes.append(f"the forward times are of batch size {near.batch}; that {said}")
    return near, near.context_of(context)


def _rates(seen: Observed, tree: Tree) -> Acceptance | None:
    """The observed rates by position; one rate for all positions if only tau is known."""
    if seen.statistics is None or seen.statistics.acceptance is not None:
        return seen.statistics and seen.statistics.acceptance
    return Acceptance.by_rank([constant_rate(min(seen.tau, tree.max_depth + 1), tree.max_depth)])


def _fastest(latency: Latency, at: int, rates: Acceptance, tree: Tree, tau: float) -> tuple[int, float]:
    """The length of the fastest chain, and how many times as fast as `tree` it is; 0 is no speculation."""
    chains = [Tree.chain(n) for n in range(min(LONGEST, int(latency.tokens[-1]) - 1) + 1)]
    speeds = [
        latency.speedup(chain, block_efficiency(chain, rates) if n else 1.0, at) for n, chain in enumerate(chains)
    ]
    best = int(np.argmax(speeds))
    return best, speeds[best] / latency.speedup(tree, tau, at)
