"""`Server` and `serve`: a load of requests on one simulated engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulate.load import Requests
from simulate.serving.controllers import GAP, Controller, Rates, Served, Tier
from simulate.serving.engine_state import (
    ACCEPTED,
    AREA,
    ARRIVED,
    COMPLETED,
    COUNTS,
    DRAFTED,
    FULL,
    GAP_BATCH,
    NO_TIER,
    NOW,
    Machine,
    State,
    Steps,
    Work,
)
from simulate.serving.step_times import StepTimes
from spectheory import Latency, Provenance, Schedule
from spectheory.core.checks import check_seconds, check_whole
from spectheory.core.errors import InputError
from spectheory.results.serving import Figures, ServingRun

BUFFER = 1 << 17
"""Steps that the compiled loop runs at a time."""
MOST_STEPS = 50_000_000
"""Most steps of a run, which are kept until it ends: 48 bytes each."""
UNLIMITED = 2**62
WRAPPING = np.errstate(over="ignore")
"""The hashes of the loop wrap around, of which NumPy warns where Numba does not compile them."""
BATCHED_TOKENS = 8192
LEFT_OUT = (
    "one engine: no routing between engines, no disaggregated prefill, no network or host time beyond the latencies",
    "no prefix is shared: every prompt is read in full",
    "a request is admitted with the KV memory of its whole answer, so that none is preempted",
)
"""What the simulation assumes, in sentences."""


@dataclass(frozen=True, eq=False)
class Server:
    """An engine: how long its steps take, and its limits.

    Attributes:
        times: the seconds of its steps.
        max_sequences: maximum number of sequences that run at the same time, including those that read their prompts;
            None means the largest batch size that has times.
        batched_tokens: token budget of a step. Cycles always run; prompts are read with the rest of the budget.
        kv_tokens: tokens that fit into the KV memory; None means the number in `times`, or no limit if it has none.

    Raises:
        InputError: a limit is below 1, or there are no times for `max_sequences` sequences.
    """

    times: StepTimes
    max_sequences: int | None = None
    batched_tokens: int = BATCHED_TOKENS
    kv_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_sequences", "batched_tokens", "kv_tokens"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        if self.sequences > self.times.largest_batch:
            raise InputError(
                f"max_sequences must be at most {self.times.largest_batch}, the largest batch size with times, got "
                f"{self.max_sequences}: time larger batch sizes, or admit fewer sequences"
            )

    @classmethod
    def of(cls, source: Schedule | Latency, **limits: int | None) -> Server:
        """A server with the times in a schedule, a plan or a latency; see `StepTimes.of`."""
        return cls(StepTimes.of(source), **limits)  # pyrefly: ignore[bad-argument-type]

    @property
    def sequences(self) -> int:
        """Maximum number of sequences that run at the same time."""
        return self.times.largest_batch if self.max_sequences is None else self.max_sequences

    @property
    def tokens(self) -> int:
        """Tokens that fit into the KV memory; `UNLIMITED` if there is no limit."""
        known = self.times.kv_tokens if self.kv_tokens is None else self.kv_tokens
        return UNLIMITED if known is None else known


def serve(
    schedule: Served,
    requests: Requests,
    *,
    server: Server | None = None,
    rates: Rates | None = None,
    seed: int = 0,
    until_seconds: float | None = None,
    slo_ttft_seconds: float | None = None,
    slo_tpot_seconds: float | None = None,
    name: str | None = None,
    keep_steps: bool = False,
) -> ServingRun:
    """Serve requests with one engine, step by step, and speculate as `schedule` says.

    Args:
        schedule: a schedule by batch size; a plan, a tree or a tier, which run at every batch size; a controller;
            or None for no speculation.
        requests: the load.
        server: times and limits of the engine; None means the times of `schedule`, see `StepTimes.of`.
        rates: true rates of acceptance, of all requests or of each of their classes; None means the rates
            from which `schedule` predicts. Not for a controller, whose tiers have their own rates.
        seed: seed of the acceptance. Runs with one seed meet the same uniform number at the same place of a text.
        until_seconds: time at which the simulation stops; None runs until every request is complete.
        slo_ttft_seconds: limit on the time to the first token, for the goodput; None means no limit.
        slo_tpot_seconds: limit on the time per output token, for the goodput; None means no limit.
        name: name of the run; None means the name of the controller.
        keep_steps: whether the run keeps the time, batch and tier of every step.

    Raises:
        InputError: a request does not fit into the KV memory, the schedule has no entry for a batch size that it meets,
            there are no times for a batch size, the classes of the requests have no rates, or a limit is not a number.
    """
    server, controller = controller_for(schedule, requests, server, rates)
    check_whole("seed", seed, 0, most=2**63 - 1)
    slo = {"slo_ttft_seconds": slo_ttft_seconds, "slo_tpot_seconds": slo_tpot_seconds}
    for label, limit in (slo | {"until_seconds": until_seconds}).items():
        if limit is not None:
            check_seconds(label, limit, least=0)
    until = np.inf if until_seconds is None else float(until_seconds)
    run = _run_of(controller, requests, *_simulated(controller, requests, server, seed, until), keep_steps=keep_steps)
    stamp = _provenance(controller, requests, server, seed)
    return replace(run, name=name or controller.name, **slo, provenance=stamp)


def controller_for(
    schedule: Served, requests: Requests, server: Server | None, rates: Rates | None
) -> tuple[Server, Controller]:
    """The server and the controller of a run, after a check that they can serve the requests. See `serve`."""
    server = own_server(schedule) if server is None else server
    if schedule is None and rates is None:
        schedule = Tier.off(1 + int(requests.kinds.max()))
    controller = schedule if isinstance(schedule, Controller) else Controller.of(schedule, server.sequences, rates)
    needed = 1 + int(requests.kinds.max())
    if needed > controller.classes:
        raise InputError(
            f"requests are of {needed} classes of acceptance, but there are rates for {controller.classes}: give "
            "rates, one for each class"
        )
    _require_memory(controller, requests, server)
    return server, controller


def own_server(schedule: Served) -> Server:
    """The server with the times in a schedule or a plan."""
    if isinstance(schedule, Schedule):
        return Server.of(schedule)
    raise InputError("server must be given, because no schedule or plan gives its times: make one with Server.of(...)")


def _reserve(controller: Controller) -> int:
    """Tokens of KV memory that each sequence reserves for drafts."""
    return max(tier.tree.budget for tier in controller.tiers)


def _require_memory(controller: Controller, requests: Requests, server: Server) -> None:
    """Check that each request fits into the KV memory on its own."""
    needed = requests.prompt_tokens + requests.output_tokens + _reserve(controller)
    if (most := int(needed.max())) > server.tokens:
        row = int(needed.argmax())
        raise InputError(
            f"kv_tokens must hold each request, but request {row} needs {most:,} tokens (prompt "
            f"{requests.prompt_tokens[row]:,}, answer {requests.output_tokens[row]:,}, draft {_reserve(controller)}), "
            f"got {server.tokens:,}: give more, or leave out longer requests"
        )


@WRAPPING
def _simulated(
    controller: Controller, requests: Requests, server: Server, seed: int, until: float
) -> tuple[State, Steps]:
    """Run the compiled loop; returns its last state and all steps."""
    from simulate.serving.engine_loop import advance

    work, machine, state = prepared(controller, requests, server, seed, until)
    parts = []
    while True:
        buffer = Steps(*(np.empty(BUFFER), np.empty(BUFFER), *(np.empty(BUFFER, np.int64) for _ in range(4))))
        count, ended = advance(work, machine, state, buffer)
        parts.append([column[:count] for column in buffer])
        if len(parts) * BUFFER > MOST_STEPS:
            done = int(state.counts[COMPLETED])
            raise InputError(
                f"requests must be complete after {MOST_STEPS:,} steps, but {done:,} of {len(requests):,} are: give "
                "fewer requests, shorter answers, or the seconds after which to stop"
            )
        if ended == NO_TIER:
            batch = int(state.counts[GAP_BATCH])
            raise InputError(
                f"the schedule {controller.name!r} has no entry for batch size {batch}, which this load reaches: plan "
                f"every batch size, as in `spectheory schedule --batch 1:{batch}`, or admit fewer sequences"
            )
        if ended != FULL:
            return state, Steps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@WRAPPING
def prepared(
    controller: Controller, requests: Requests, server: Server, seed: int, until: float
) -> tuple[Work, Machine, State]:
    """The arrays of the loop: the requests, the engine, and the state in which it starts."""
    from simulate.serving.engine_loop import keys_of

    count, largest = len(requests), server.sequences
    seconds, contexts, prompts = server.times.table(controller.tiers, largest, server.batched_tokens)
    deepest = max(tier.tree.max_depth for tier in controller.tiers)
    survival = np.zeros((len(controller.tiers), controller.classes, deepest + 1))
    for number, tier in enumerate(controller.tiers):
        survival[number, :, : tier.tree.max_depth + 1] = tier.survival
    table = np.full((len(controller.tiers), largest + 1), GAP)
    width = min(largest + 1, controller.table.shape[1])
    table[:, :width] = controller.table[:, :width]
    machine = Machine(
        seconds=seconds,
        contexts=contexts,
        prefills=prompts,
        survival=survival,
        kv_tokens=server.tokens,
        reserve=_reserve(controller),
        max_sequences=largest,
        batched_tokens=server.batched_tokens,
        nodes=np.array([tier.tree.budget for tier in controller.tiers]),
        concurrency=requests.concurrency or 0,
        until=until,
        rule=controller.rule,
        table=table,
        numbers=controller.numbers,
    )
    state = State(
        clock=np.array([requests.arrival_seconds[0], 0.0]),
        counts=np.zeros(COUNTS, np.int64),
        decoding=np.zeros(largest, np.int64),
        emitted=np.zeros(count, np.int64),
        arrival=np.full(count, -1.0),
        first=np.full(count, -1.0),
        last=np.full(count, -1.0),
        memory=controller.memory.copy(),
    )
    work = Work(
        arrivals=requests.arrival_seconds.copy(),
        prompts=requests.prompt_tokens.copy(),
        outputs=requests.output_tokens.copy(),
        kinds=requests.kinds.copy(),
        keys=keys_of(seed, count),
    )
    return work, machine, state


def _run_of(controller: Controller, requests: Requests, state: State, steps: Steps, *, keep_steps: bool) -> ServingRun:
    """The record of a run, without its limits and its provenance."""
    done, decoding = np.flatnonzero(state.last >= 0), steps.batch > 0
    seconds, batch, tier = steps.seconds[decoding], steps.batch[decoding], steps.tier[decoding]
    together = steps.emitted[decoding].sum() - batch.sum()
    return ServingRun(
        name=controller.name,
        request=done,
        arrival_seconds=state.arrival[done],
        first_token_seconds=state.first[done],
        completion_seconds=state.last[done],
        prompt_tokens=requests.prompt_tokens[done],
        output_tokens=requests.output_tokens[done],
        kinds=requests.kinds[done],
        unfinished=int(state.counts[ARRIVED]) - len(done),
        trees=tuple(tier.tree for tier in controller.tiers),
        tier_steps=np.bincount(tier, minlength=len(controller.tiers)),
        prompt_steps=int((~decoding).sum()),
        drafted=int(state.counts[DRAFTED]),
        accepted=int(state.counts[ACCEPTED]),
        inter_token_seconds=Figures.of(np.append(seconds, 0.0), np.append(batch, together)),
        seconds=float(state.clock[NOW] - requests.arrival_seconds[0]),
        busy_seconds=float(steps.seconds.sum()),
        decode_seconds=float(seconds.sum()),
        batch_seconds=float(seconds @ batch),
        request_seconds=float(state.clock[AREA]),
        step_seconds=steps.end if keep_steps else None,
        step_batch=steps.batch if keep_steps else None,
        step_tier=steps.tier if keep_steps else None,
    )


def _provenance(controller: Controller, requests: Requests, server: Server, seed: int) -> Provenance:
    """The load, the limits, and what the simulation leaves out."""
    times = [latency.provenance for row in server.times.latencies for latency in row]
    stamp = Provenance.now(
        "simulate.serve",
        packages=("numba", "numpy"),
        seed=seed,
        requests=len(requests),
        gpu=times[0].gpu,
        target=times[0].target,
        draft=times[0].draft,
        settings={
            "load": "closed loop" if requests.concurrency else "arrivals",
            "concurrency": requests.concurrency,
            "rate": requests.rate,
            "max_sequences": server.sequences,
            "batched_tokens": server.batched_tokens,
            "kv_tokens": None if server.tokens == UNLIMITED else server.tokens,
        },
    )
    contexts = ", ".join(f"{context:,.0f}" for context in server.times.contexts)
    timed = f"steps are timed at contexts of {contexts} tokens, and interpolated linearly between them"
    return stamp.assuming(*LEFT_OUT, *times[0].assumptions, timed)
