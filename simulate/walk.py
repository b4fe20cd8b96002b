"""Simulation of decoding with a plan, in which tokens are accepted at exactly given rates."""

from __future__ import annotations

import numpy as np

from spectheory import Acceptance, Plan, Provenance, Tally, Tree
from spectheory.core.errors import InputError


def run(
    plan: Plan, *, cycles: int = 20_000, requests: int = 50, seed: int = 0, world: Acceptance | None = None
) -> Tally:
    """Simulate draft-and-verify cycles of the plan's tree, without models.

    A cycle walks down from the root. At a node of depth d, the child of rank r is accepted with probability
    `world.table[d, r]`, and at most one child is accepted. The cycle ends when no child is accepted, or when the tree
    has no child of the accepted rank. The formula for the block efficiency is not used, so the result can check it.

    Args:
        plan: plan whose tree is simulated.
        cycles: total number of cycles, rounded down to a multiple of `requests`.
        requests: number of requests. Each has the same number of cycles.
        seed: seed of the random numbers.
        world: true acceptance rates; default: the plan's rates. Other rates show what a wrong plan costs.

    Raises:
        InputError: there are fewer cycles than requests, or fewer than 2 requests.
    """
    if requests < 2:
        raise InputError(f"requests must be at least 2, got {requests}")
    if cycles < requests:
        raise InputError(f"cycles must be at least {requests}, one for each simulated request, got {cycles}")
    per_request = cycles // requests
    rng = np.random.default_rng(seed)
    accepted = _walks(plan.tree, world or plan.acceptance, per_request * requests, rng)
    by_request = accepted.reshape(requests, per_request)
    return Tally(
        emitted=by_request.sum(1) + per_request,
        cycles=np.full(requests, per_request),
        accepted_histogram=np.bincount(accepted, minlength=plan.tree.max_depth + 1),
        provenance=Provenance.now("simulate.run", seed=seed, tree=plan.tree.identity, requests=requests),
    )


def _walks(tree: Tree, world: Acceptance, cycles: int, rng: np.random.Generator) -> np.ndarray:
    """(cycles,) number of accepted tokens in independent walks down the tree."""
    child = np.full((tree.budget + 1, world.ranks + 1), -1)
    drafted = np.flatnonzero(tree.rank < world.ranks)[1:]
    child[tree.parent[drafted], tree.rank[drafted]] = drafted
    node, accepted = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
    walking = np.arange(cycles)
    for depth in range(tree.max_depth):
        edges = np.cumsum(world.row(depth))
        rank = np.searchsorted(edges, rng.random(len(walking)), side="right")
        node[walking] = child[node[walking], rank]
        walking = walking[node[walking] >= 0]
        accepted[walking] += 1
    return accepted
