"""Simulation of decoding with a plan, in which tokens are accepted at exactly given probabilities."""

from __future__ import annotations

import numpy as np

from spectheory import Acceptance, Plan, Provenance, Tally, Tree
from spectheory.core.errors import InputError


def run(
    plan: Plan, *, cycles: int = 20_000, requests: int = 50, seed: int = 0, world: Acceptance | None = None
) -> Tally:
    """Simulate draft-and-verify cycles of the plan's tree, without models.

    A cycle walks down from the root. At most one child of a node is accepted, and the cycle ends when none is. By the
    rates, the child of rank r of a node of depth d is accepted with probability `world.table[d, r]`; the formula for
    the block efficiency is not used, so the result can check it. A plan whose tau is replayed, or predicted from
    request classes, accepts a child in the share of the cycles through its parent that its `reach` gives.

    Args:
        plan: plan whose tree is simulated.
        cycles: total number of cycles, rounded down to a multiple of `requests`.
        requests: number of requests. Each has the same number of cycles.
        seed: seed of the random numbers.
        world: true acceptance rates; default: what the plan predicts its tau from. Other rates show what a wrong plan
            costs.

    Raises:
        InputError: there are fewer cycles than requests, or fewer than 2 requests.
    """
    if requests < 2:
        raise InputError(f"requests must be at least 2, got {requests}")
    if cycles < requests:
        raise InputError(f"cycles must be at least {requests}, one for each simulated request, got {cycles}")
    per_request = cycles // requests
    rng = np.random.default_rng(seed)
    by_reach = world is None and (plan.replayed is not None or plan.classes is not None)
    edges = _by_reach(plan) if by_reach else _by_rates(plan.tree, world or plan.acceptance)
    accepted = _walks(plan.tree, edges, per_request * requests, rng)
    by_request = accepted.reshape(requests, per_request)
    return Tally(
        emitted=by_request.sum(1) + per_request,
        cycles=np.full(requests, per_request),
        accepted_histogram=np.bincount(accepted, minlength=plan.tree.max_depth + 1),
        provenance=Provenance.now("simulate.run", seed=seed, tree=plan.tree.identity, requests=requests),
    )


def _by_rates(tree: Tree, world: Acceptance) -> np.ndarray:
    """(budget + 1,) probability that each node is accepted once its parent is, by rates of its depth and rank."""
    return np.array(
        [
            world.row(depth - 1)[rank] if depth and rank < world.ranks else float(not depth)
            for depth, rank in zip(tree.depth.tolist(), tree.rank.tolist(), strict=True)
        ]
    )


def _by_reach(plan: Plan) -> np.ndarray:
    """(budget + 1,) probability that each node is accepted once its parent is, by the plan's own reach.

    An estimate that is below 0 or above the reach of the parent is cut.
    """
    above = np.maximum(plan.reach[plan.tree.parent.clip(0)], np.finfo(float).tiny)
    return np.clip(plan.reach / above, 0, 1)


def _walks(tree: Tree, edges: np.ndarray, cycles: int, rng: np.random.Generator) -> np.ndarray:
    """(cycles,) number of accepted tokens in independent walks down the tree, by `edges` (budget + 1,)."""
    fanout = int(tree.rank.max()) + 1
    child, share = np.full((tree.budget + 1, fanout + 1), -1), np.zeros((tree.budget + 1, fanout))
    drafted = np.arange(1, tree.budget + 1)
    child[tree.parent[drafted], tree.rank[drafted]] = drafted
    share[tree.parent[drafted], tree.rank[drafted]] = edges[drafted]
    upto = share.cumsum(1)
    node, accepted = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
    walking = np.arange(cycles)
    for _ in range(tree.max_depth):
        at = node[walking]
        rank = (upto[at] <= rng.random(len(walking))[:, None]).sum(1)
        node[walking] = child[at, rank]
        walking = walking[node[walking] >= 0]
        accepted[walking] += 1
    return accepted
