"""Simulation of decoding with a plan, in a world that says how many drafted tokens a cycle keeps."""

from __future__ import annotations

import numpy as np

from simulate.worlds import RateWorld, ReachWorld, SimulatedWorld
from spectheory import Acceptance, Provenance, Schedule, Tally
from spectheory.core.checks import check_whole


def run(
    plan: Schedule,
    *,
    cycles: int = 20_000,
    requests: int = 50,
    seed: int = 0,
    world: SimulatedWorld | Acceptance | None = None,
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
        world: a world of `simulate.worlds`, or true acceptance rates; default: what the plan predicts its tau from.
            Another world shows what a wrong plan costs.

    Raises:
        InputError: there are fewer than 2 requests or fewer cycles, or the world does not know the plan's tree.
    """
    check_whole("requests", requests, 2)
    check_whole("cycles", cycles, requests, ", one for each simulated request")
    rng = np.random.default_rng(seed)
    walks = _world(plan, world).walks(plan.tree, requests=requests, cycles=cycles // requests, rng=rng)
    return walks.tally(Provenance.now("simulate.run", seed=seed, tree=plan.tree.identity, requests=requests))


def walk(
    seed: int, plan: Schedule, cycles: int = 2_000, world: SimulatedWorld | Acceptance | None = None
) -> dict[str, int]:
    """`run` as the function of a `simulate.Task`: the emitted tokens and the cycles of one block."""
    tally = run(plan, cycles=cycles, requests=2, seed=seed, world=world)
    return {"emitted": int(tally.emitted.sum()), "cycles": int(tally.cycles.sum())}


def _world(plan: Schedule, world: SimulatedWorld | Acceptance | None) -> SimulatedWorld:
    """The world that is given, or the one from which the plan predicts its tau."""
    if isinstance(world, SimulatedWorld):
        return world
    if world is None and (plan.replayed is not None or plan.rates.classes is not None):
        return ReachWorld(plan.tree, plan.reach)
    return RateWorld(world or plan.acceptance)
