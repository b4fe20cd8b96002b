"""Simulation of a plan in a world where its rates are exactly true."""

from __future__ import annotations

import numpy as np

from spectheory import Acceptance, Plan, Provenance, Tally, Tree
from spectheory.core.errors import InputError


def run(
    plan: Plan, *, cycles: int = 20_000, requests: int = 50, seed: int = 0, world: Acceptance | None = None
) -> Tally:
    """Play `cycles` draft-and-verify cycles of the planned tree, split evenly over `requests`.

    At an accepted node of depth d the child of rank r is accepted with probability `world.table[d, r]`, at most one
    child at a node. The walk ends where no child is accepted, or where the tree has no child of that rank. The
    simulation does not use the formula of the block efficiency.

    Args:
        plan: its tree is played.
        cycles: number of cycles in all.
        requests: number of requests, each of equally many cycles.
        seed: of the random numbers.
        world: the true rates, by default those of the plan; other rates show what happens where the plan is wrong.

    Raises:
        InputError: fewer cycles than requests, or fewer than 2 requests.
    """
    if requests < 2 or cycles < requests:
        raise InputError(f"need at least 2 requests and a cycle for each, got cycles={cycles}, requests={requests}")
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
    """(cycles,) accepted tokens of independent walks down the tree."""
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
