"""Ready tasks: walks of a plan or in a world, serving under load, and certificates of the zoo's steps and verifiers."""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

import numpy as np

from simulate.collecting.statistics import Statistics
from simulate.collecting.task import Block, Figure, Task
from simulate.load import Load, parse
from simulate.serving import Server, serve
from simulate.serving.controllers import Served
from simulate.serving.server import controller_for
from simulate.serving.tiers import Rates
from simulate.walk import run
from simulate.worlds import MarkovWorld, SimulatedWorld
from spectheory import Acceptance, DrawRule, Provenance, Schedule, Verdict, Verifier
from spectheory.core.errors import InputError

TAU = Figure("tau", "emitted", "cycles", "tokens per target call")
SURPLUS = Figure("tau - exact", "surplus", "cycles", "tokens per target call")
LOSSY = Figure("lossy", "lossy", "tests", "share of tests", share=True)
SERVING = (
    Figure("tpot", "tpot_seconds", "timed_answers", "seconds"),
    Figure("ttft", "ttft_seconds", "requests", "seconds"),
    Figure("throughput", "tokens", "seconds", "tokens per second"),
    Figure("goodput", "good_requests", "seconds", "requests per second"),
    Figure("mean batch", "batch_seconds", "decode_seconds", "sequences"),
)
"""The figures of serving."""


def walk_task(plan: Schedule, *, cycles: int = 2_000, world: Acceptance | None = None, seed: int = 0) -> Task:
    """A task that simulates decoding with a plan, see `simulate.run`. Its figure is tau.

    Args:
        plan: plan whose tree is simulated.
        cycles: number of cycles of a block.
        world: true acceptance rates; default: what the plan predicts its tau from.
        seed: seed of the task.
    """
    settings = {"plan": plan, "cycles": cycles, "world": world}
    return Task(_walk, settings, figures=(TAU,), name=f"walk {plan.answer}", seed=seed)


def world_task(
    world: SimulatedWorld,
    shape: Any,
    verifier: Verifier | None = None,
    rule: DrawRule | None = None,
    *,
    requests: int = 2,
    cycles: int = 1_000,
    exact: bool = True,
    stream: str = "",
    seed: int = 0,
) -> Task:
    """A task that draws cycles in a world. Its figures: tau, and tau minus the exact value.

    The exact value is what the world computes: `tau_of_first` in a `MarkovWorld`, elsewhere `block_efficiency`. The
    interval of the difference contains 0 as often as its level says, if what is drawn has the computed distribution.
    The rows of the results have the exact value as `exact`.

    Args:
        world: a world of `simulate.worlds`, but no `RecordedWorld`: a task on a trace is a function that reads
            the trace in the worker.
        shape: what is drafted in every cycle, see `SimulatedWorld`.
        verifier: the verifier; worlds of rates take None.
        rule: how the children of a static tree are drawn, in worlds with tokens.
        requests: number of requests of a block.
        cycles: number of cycles of each request.
        exact: whether to compute the exact value. In a `MarkovWorld`, all drafts are enumerated for it.
        stream: tasks with the same stream and seed get the same random numbers.
        seed: seed of the task.

    Raises:
        InputError: the world does not know the shape or the verifier, cannot compute the exact value, or is a
            `RecordedWorld`.
    """
    value = None
    if exact and isinstance(world, MarkovWorld):
        value = float(world.tau_of_first(cycles, shape, verifier, rule))
    elif exact:
        value = float(world.block_efficiency(shape, verifier, rule))
    settings = {
        "world": world, "shape": shape, "verifier": verifier, "rule": rule, "requests": requests, "cycles": cycles,
        "exact": value,
    }  # fmt: skip
    name = " ".join(str(part) for part in (type(world).__name__, shape, verifier) if part is not None)
    figures = (TAU,) if value is None else (TAU, SURPLUS)
    return Task(_walk_in_world, settings, figures=figures, name=name[:120], seed=seed, stream=stream)


def serving_task(
    schedule: Served,
    load: Load | str,
    *,
    server: Server | None = None,
    rates: Rates | None = None,
    until_seconds: float | None = None,
    slo_ttft_seconds: float | None = None,
    slo_tpot_seconds: float | None = None,
    name: str = "",
    stream: str = "serving",
    seed: int = 0,
) -> Task:
    """A task that serves a load by a schedule. A block is one replication: the requests and the acceptance of its seed.

    Its figures: `tpot` and `ttft`, means over the requests, `throughput`, `goodput` and `mean batch`.

    Tasks with the same stream and seed meet the same requests and the same uniform numbers in blocks of the same
    number. `Collected.difference` compares two of them block by block.

    Args:
        schedule: what the engine runs, see `serve`.
        load: a load, or its text, see `simulate.load.parse`.
        server: times and limits of the engine; None means the times of `schedule`.
        rates: true rates of acceptance; None is those that `schedule` predicts from.
        until_seconds: time at which a replication stops; None runs until every request is complete.
        slo_ttft_seconds: limit on the time to the first token, for the goodput; None means no limit.
        slo_tpot_seconds: limit on the time per output token, for the goodput; None means no limit.
        name: name of the task; default: the names of the controller and of the load.
        stream: tasks with the same stream and seed get the same random numbers.
        seed: seed of the task.

    Raises:
        InputError: the load cannot be read, or the schedule cannot serve it, see `serve`.
    """
    load = parse(load) if isinstance(load, str) else load
    _, controller = controller_for(schedule, load.requests(seed), server, rates)
    settings = {
        "schedule": schedule, "load": load, "server": server, "rates": rates, "until_seconds": until_seconds,
        "slo_ttft_seconds": slo_ttft_seconds, "slo_tpot_seconds": slo_tpot_seconds,
    }  # fmt: skip
    name = name or f"{controller.name}, {load.text}"
    return Task(_serve, settings, figures=SERVING, name=name[:120], seed=seed, stream=stream)


def step_task(name: str, *, alpha: float = 1e-3, tv: float = 0.1, max_samples: int = 20_000, seed: int = 0) -> Task:
    """A task that tests a step of the zoo by `certify_step`, once a block, each time with other random numbers.

    A step with a state of its own starts anew in every block.

    Its figures: `lossy`, the share of tests with the verdict LOSSY, and `samples`, the mean number of runs of the step
    until the verdict.

    Args:
        name: name of one of `spectheory.certify.zoo.STEPS`.
        alpha: see `certify_step`.
        tv: see `certify_step`.
        max_samples: see `certify_step`.
        seed: seed of the task.
    """
    _require_name(name, _steps())
    settings = {"name": name, "alpha": alpha, "tv": tv, "max_samples": max_samples}
    figures = (LOSSY, Figure("samples", "samples", "tests", "runs of the step"))
    return Task(_test_step, settings, figures=figures, name=f"step {name}", seed=seed)


def verifier_task(name: str, *, cases: int = 60, seed: int = 0) -> Task:
    """A task that certifies a verifier of the zoo by `certify_verifier`, once a block, each time in other worlds.

    Its figure is `lossy`, the share of certificates with the verdict LOSSY.

    Args:
        name: name of one of `spectheory.certify.zoo.SPECIMENS`.
        cases: number of worlds of a certificate.
        seed: seed of the task.
    """
    _require_name(name, _specimens())
    return Task(_certify, {"name": name, "cases": cases}, figures=(LOSSY,), name=f"verifier {name}", seed=seed)


def _walk(block: Block, *, plan: Schedule, cycles: int, world: Acceptance | None) -> Statistics:
    return Statistics.of_tally(run(plan, cycles=cycles, requests=2, seed=block.seed, world=world))


def _walk_in_world(
    block: Block,
    *,
    world: SimulatedWorld,
    shape: Any,
    verifier: Verifier | None,
    rule: DrawRule | None,
    requests: int,
    cycles: int,
    exact: float | None,
) -> Statistics:
    walks = world.walks(shape, verifier, rule, requests=requests, cycles=cycles, rng=block.rng())
    counted = Statistics.of_tally(walks.tally(Provenance("simulate.world_task")))
    if exact is None:
        return counted
    surplus = counted.totals["emitted"] - exact * counted.totals["cycles"]
    return Statistics({**counted.totals, "surplus": surplus}, counted.tallies)


def _serve(block: Block, *, schedule: Any, load: Load, **options: Any) -> Statistics:
    """The totals of a run. Sums are correctly rounded, so that they are the same on every machine."""
    found = serve(schedule, load.requests(block.seed), seed=block.seed, **options)
    timed = found.tpot_seconds[~np.isnan(found.tpot_seconds)]
    return Statistics(
        {
            "requests": len(found),
            "unfinished": found.unfinished,
            "timed_answers": len(timed),
            "good_requests": int(found.meets_slo.sum()),
            "tokens": int(found.output_tokens.sum()),
            "drafted": found.drafted,
            "accepted": found.accepted,
            "ttft_seconds": math.fsum(found.ttft_seconds),
            "tpot_seconds": math.fsum(timed),
            "seconds": found.seconds,
            "decode_seconds": found.decode_seconds,
            "batch_seconds": found.batch_seconds,
        }
    )


def _test_step(block: Block, *, name: str, alpha: float, tv: float, max_samples: int) -> Statistics:
    from spectheory.certify import certify_step

    step = _steps()[name]
    fresh = step.step if isinstance(step.step, FunctionType) else type(step.step)()
    found = certify_step(
        fresh, step.target, contexts=((), (1,)), length=2, vocab_size=step.vocab_size, alpha=alpha, tv=tv,
        max_samples=max_samples, seed=block.seed,
    )  # fmt: skip
    return Statistics({**_verdict(found.verdict), "samples": found.samples})


def _certify(block: Block, *, name: str, cases: int) -> Statistics:
    from spectheory.certify import certify_verifier

    specimen = _specimens()[name]
    found = certify_verifier(
        specimen.given, policies=specimen.policies, cases=cases, seed=block.seed, zero_coins=specimen.zero_coins
    )
    return Statistics(_verdict(found.verdict))


def _verdict(verdict: Verdict) -> dict[str, int]:
    """One test with this verdict, as totals."""
    lossy, undecided = verdict is Verdict.LOSSY, verdict is Verdict.UNDECIDED
    return {"tests": 1, "lossy": int(lossy), "undecided": int(undecided), "passed": int(not lossy and not undecided)}


def _steps() -> dict:
    from spectheory.certify.zoo import STEPS

    return {step.name: step for step in STEPS}


def _specimens() -> dict:
    from spectheory.certify.zoo import SPECIMENS

    return {specimen.name: specimen for specimen in SPECIMENS}


def _require_name(name: str, known: dict) -> None:
    if name not in known:
        raise InputError(f"name must be one of {', '.join(known)}, got {name!r}")
