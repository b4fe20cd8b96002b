"""`compare_schedules`: one load with several schedules, on the same random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from simulate.load import Requests
from simulate.serving.controllers import Controller, Served
from simulate.serving.server import Server, controller_for, own_server, serve
from simulate.serving.stability import Work
from simulate.serving.tiers import Rates, Tier, tiers_of
from spectheory import Provenance, Schedule, ServingRun
from spectheory.core.errors import InputError
from spectheory.results.serving_comparison import ServingComparison


def compare_schedules(
    schedules: Mapping[str, Served],
    requests: Requests,
    *,
    server: Server | None = None,
    rates: Rates | None = None,
    seed: int = 0,
    until_seconds: float | None = None,
    slo_ttft_seconds: float | None = None,
    slo_tpot_seconds: float | None = None,
) -> ServingComparison:
    """Serve the same requests with each of several schedules, on the same uniform numbers.

    The runs have their stability limits and the batch sizes at which they can settle too, except those of schedules
    that depend on what ran before or have gaps.

    Args:
        schedules: each schedule by its name, as for `serve`. The others are compared with the first one.
        requests: see `serve`, also for the arguments below.
        server: times and limits of the engine; None means the times of the first schedule or plan.
        rates: true rates of acceptance.
        seed: seed of the acceptance.
        until_seconds: time at which the simulation stops.
        slo_ttft_seconds: limit on the time to the first token.
        slo_tpot_seconds: limit on the time per output token.

    Raises:
        InputError: see `serve`, or there is no schedule.
    """
    timed = next((one for one in schedules.values() if isinstance(one, Schedule)), None)
    server = own_server(timed) if server is None else server
    runs = []
    for name, schedule in schedules.items():
        run = serve(
            schedule,
            requests,
            server=server,
            rates=rates,
            seed=seed,
            until_seconds=until_seconds,
            slo_ttft_seconds=slo_ttft_seconds,
            slo_tpot_seconds=slo_tpot_seconds,
            name=name,
        )
        runs.append(_with_limits(run, schedule, requests, server, rates))
    stamp = Provenance.merged([run.provenance for run in runs]) if runs else Provenance("simulate.compare_schedules")
    return ServingComparison(tuple(runs), stamp)


def schedules_in(source: Schedule) -> dict[str, Schedule | Tier | None]:
    """No speculation, the schedule, and each of its chosen trees at every batch size, by name."""
    found: dict[str, Schedule | Tier | None] = {"off": None, "schedule": source}
    tiers = tiers_of(source)
    for number in sorted(set(source.choice.tolist())):
        tier = tiers[number]
        if tier.tree.budget:
            name = tier.name if tier.name not in found else f"{tier.name}, number {number}"
            found[name] = tier
    return found


def require_sustained(
    schedules: Mapping[str, Served], requests: Requests, *, server: Server, rates: Rates | None = None
) -> None:
    """Check that every schedule sustains the rate of a load, before it is simulated for as long as it has requests.

    Raises:
        InputError: the rate is above the stability limit of a schedule, so that its queue grows for as long as requests
            arrive, and its figures depend on how many do. Schedules that depend on what ran before have no known limit.
    """
    if requests.rate is None:
        return
    for name, schedule in schedules.items():
        if isinstance(schedule, Controller) and schedule.has_memory:
            continue
        limit = float(Work.of(schedule, requests, server, rates).rates().max())
        if requests.rate > limit:
            raise InputError(
                f"load must be at most {limit:.3g} requests a second, which {name!r} sustains, got "
                f"{requests.rate:.3g}: its queue would grow for as long as requests arrive. Lower the rate, or say "
                "when to stop: give the number of requests or the seconds"
            )


def _with_limits(
    run: ServingRun, schedule: Served, requests: Requests, server: Server, rates: Rates | None
) -> ServingRun:
    """The run with its stability limit, and with the batch sizes at which it can settle at the rate of the load."""
    server, controller = controller_for(schedule, requests, server, rates)
    if controller.has_memory or not controller.covers(server.sequences):
        return run
    work = Work.of(controller, requests, server, None)
    run = replace(run, stability_limit=float(work.rates().max()))
    if requests.rate is None:
        return run
    stable = [point.batch for point in work.self_consistent(requests.rate).points if point.is_stable]
    return replace(run, settled_batches=np.array(stable))
