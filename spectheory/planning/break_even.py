"""Break-even maps: the fastest choice (off, chain or tree) over rates, draft costs and batch sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from spectheory.core.checks import check_not_negative
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates
from spectheory.planning.deployment import Deployment
from spectheory.planning.schedule_record import Option


@dataclass(frozen=True)
class Choice:
    """The fastest choice in one place of a map.

    Attributes:
        answer: `off`, `chain` or `tree`.
        speedup: predicted speedup over plain decoding.
        block_efficiency: predicted tau.
        budget: number of drafted nodes.
        depth: depth of the deepest drafted node.
    """

    answer: str
    speedup: float
    block_efficiency: float
    budget: int
    depth: int


def fastest_choice(candidates: Candidates, latency: Latency, context: int) -> Choice:
    """The fastest candidate with these forward times."""
    speedups = candidates.speedups(latency, context)
    best = candidates.fastest(speedups)
    tree = candidates.tree(best)
    tau = float(candidates.block_efficiency[best])
    return Choice(Option(tree).answer, float(speedups[best]), tau, tree.budget, tree.max_depth)


def break_even_map(
    candidates: Mapping[float, Candidates], latencies: Mapping[float, Mapping[int, Latency]], context: int
) -> dict[tuple[float, float, int], Choice]:
    """The fastest choice for every set of candidates, every draft cost and every batch size.

    Args:
        candidates: the candidates by a number that names their rates, such as the rate of the first guess.
        latencies: the forward times, by draft cost and by batch size.
        context: number of tokens in the KV cache of each sequence.

    Returns:
        The choices by (rate, cost, batch).
    """
    return {
        (rate, cost, batch): fastest_choice(searched, latency, context)
        for rate, searched in candidates.items()
        for cost, by_batch in latencies.items()
        for batch, latency in by_batch.items()
    }


def with_draft_cost(latency: Latency, factor: float) -> Latency:
    """The same forward times with draft forwards that take `factor` times as long.

    Raises:
        InputError: `factor` is not a finite number of at least 0.
    """
    check_not_negative("factor", factor, ": 1 keeps the times")
    if not np.isfinite(factor):
        raise InputError(f"factor must be finite, got {factor}: 1 keeps the times")
    if factor == 1:
        return latency
    said = latency.provenance.assuming(f"draft forwards take {factor:g} times the seconds of this draft")
    return replace(latency, draft_seconds=factor * latency.draft_seconds, inputs=None, provenance=said)


def fitting_latencies(deployment: Deployment, batches: Iterable[int]) -> dict[int, Latency]:
    """The forward times of each batch size, in the given order, up to the first that does not fit into memory.

    Raises:
        InputError: the forward times of the first batch size cannot be computed.
    """
    found: dict[int, Latency] = {}
    for batch in batches:
        try:
            found[batch] = deployment.latency(batch)
        except InputError:
            if not found:
                raise
            break
    return found
