"""Several schedules under one load, on the same random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from simulate.load import Requests
from simulate.serving.controllers import Rates, Served, Tier, tiers_of
from simulate.serving.server import Server, controller_for, own_server, serve
from simulate.serving.stability import Work
from spectheory import Provenance, Schedule
from spectheory.results.serving_comparison import ServingComparison
from spectheory.results.serving_run import ServingRun


def compare_schedules(
    schedules: Mapping[str, Served],
    requests: Requests,
    *,
    server: Server | None = None,
    rates: Rates | None = None,
    **options: Any,
) -> ServingComparison:
    """Serve the same requests with each of several schedules, on the same uniform numbers.

    The runs have their stability limits and the batch sizes at which they can settle too, except those of schedules
    that depend on what ran before or have gaps.

    Args:
        schedules: each schedule by its name, as for `serve`. The others are compared with the first one.
        requests: the load.
        server: times and limits of the engine; None means the times of the first schedule or plan.
        rates: true rates of acceptance.
        options: further arguments of `serve`.

    Raises:
        InputError: see `serve`, or there is no schedule.
    """
    if server is None:
        server = own_server(next((one for one in schedules.values() if isinstance(one, Schedule)), None))
    given = {"server": server, "rates": rates}
    runs = [
        _with_limits(serve(schedule, requests, name=name, **given, **options), schedule, requests, **given)
        for name, schedule in schedules.items()
    ]
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
