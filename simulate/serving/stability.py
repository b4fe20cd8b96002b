"""Schedules under one load: compared on the same numbers, and the batch sizes at which a server can settle.

With requests that arrive at a rate, the batch is not an input. Each sequence needs a mean number of cycles, so it stays
for a time that depends on the batch, and by Little's law the mean batch is the rate times this time. A batch size that
gives itself back is a fixed point. If more than one is stable, the server settles at one or the other, by where it
comes from: a schedule that speculates at small batch sizes only, and so keeps the batch small, may never return to them
once a burst has led it beyond them.

*What is assumed for the fixed points.* The batch is constant, at its mean, and each step reads as much of prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from simulate.load import Requests
from simulate.serving.controllers import Controller, Rates, Served, Tier, tiers_of
from simulate.serving.engine_state import Machine
from simulate.serving.server import Server, controller_for, own_server, prepared, serve
from spectheory import Provenance, Schedule
from spectheory.core.errors import InputError
from spectheory.results.serving import ServingComparison, ServingRun


@dataclass(frozen=True)
class FixedPoint:
    """A batch size that gives itself back.

    Attributes:
        batch: the number of sequences that decode, on average.
        tier: name of the tier at this batch size.
        is_stable: whether the batch returns to it after a small change.
    """

    batch: float
    tier: str
    is_stable: bool


@dataclass(frozen=True, eq=False)
class SelfConsistent:
    """The batch sizes at which a server can settle at a rate of requests.

    Attributes:
        rate: requests per second.
        given_back: (B,) rate times residence at the batch sizes 1, 2, ..., B: the mean batch that would follow from
            each. Infinite where steps cannot read the prompts that arrive.
        tiers: name of the tier at each batch size.
    """

    rate: float
    given_back: np.ndarray
    tiers: tuple[str, ...]

    @property
    def points(self) -> tuple[FixedPoint, ...]:
        """All fixed points, in increasing order. Between two stable ones there is one that is not stable.

        If even the largest batch size gives a larger one back, the queue grows from the last unstable point on, or from
        any batch if there is none.
        """
        excess = self.given_back - np.arange(1, len(self.given_back) + 1)
        found = []
        if excess[0] < 0:
            found.append(FixedPoint(float(self.given_back[0]), self.tiers[0], is_stable=True))
        for row, (before, after) in enumerate(pairwise(excess.tolist())):
            if (before >= 0) == (after >= 0):
                continue
            smooth = self.tiers[row] == self.tiers[row + 1] and np.isfinite(after)
            share = before / (before - after) if smooth else 0.5
            tier = self.tiers[row + (share > 0.5)]
            found.append(FixedPoint(row + 1 + share, tier, is_stable=before >= 0))
        return tuple(found)

    def reached_from(self, batch: float) -> FixedPoint | None:
        """The stable point to which a server with `batch` decoding sequences settles; None if the queue grows."""
        upper = [point for point in self.points if point.batch >= batch]
        lower = [point for point in self.points if point.batch < batch]
        if upper and upper[0].is_stable:
            return upper[0]
        return lower[-1] if lower and lower[-1].is_stable else None


def mean_cycles(survival: np.ndarray, output_tokens: np.ndarray) -> Float[np.ndarray, " answers"]:
    """Mean number of cycles that answers of these numbers of tokens take, exactly.

    The first token comes from the prompt. With pmf(a) the probability that a cycle accepts a tokens, m tokens take
    n(m) = 1 + sum_a pmf(a) n(max(0, m - a - 1)) cycles.

    Args:
        survival: (depth + 1,) probability that a cycle accepts at least 0, 1, ... tokens.
        output_tokens: (N,) tokens of each answer.

    >>> mean_cycles(np.array([1.0, 0.5]), np.array([1, 2, 3]))
    array([0. , 1. , 1.5])
    """
    chances = survival - np.append(survival[1:], 0.0)
    depth = len(survival)
    needed = np.zeros(depth + int(output_tokens.max()) - 1)
    for place in range(depth, len(needed)):
        needed[place] = 1 + needed[place - depth : place][::-1] @ chances
    return needed[depth - 2 + output_tokens]


def self_consistent(
    schedule: Served,
    requests: Requests,
    *,
    rate: float | None = None,
    server: Server | None = None,
    rates: Rates | None = None,
) -> SelfConsistent:
    """The batch sizes at which a server can settle under a load.

    Args:
        schedule: see `serve`. What runs must depend on the batch size alone, not on what ran before.
        requests: the load, of which the lengths and the classes count.
        rate: requests per second; None is the mean rate of the load.
        server: see `serve`.
        rates: see `serve`.

    Raises:
        InputError: the load has no rate, the schedule depends on what ran before, or has a gap.
    """
    rate = requests.rate if rate is None else rate
    if rate is None or not 0 < rate < np.inf:
        raise InputError(f"rate must be above 0 and finite, got {rate}: give the requests per second")
    return Work.of(schedule, requests, server, rates).self_consistent(rate)


@dataclass(frozen=True, eq=False)
class Work:
    """The mean work of the requests of a load, for each tier of a schedule.

    Attributes:
        controller: what runs.
        server: the engine.
        machine: its arrays.
        cycles: (T,) mean cycles of a request.
        contexts: (T,) mean tokens in the cache of a sequence over its cycles.
        prompt: mean tokens of a prompt.
        largest: the largest batch size that the KV memory holds, on average.
    """

    controller: Controller
    server: Server
    machine: Machine
    cycles: np.ndarray
    contexts: np.ndarray
    prompt: float
    largest: int

    @classmethod
    def of(cls, schedule: Served, requests: Requests, server: Server | None, rates: Rates | None) -> Work:
        server, controller = controller_for(schedule, requests, server, rates)
        if controller.has_memory:
            raise InputError(f"schedule {controller.name!r} must depend on the batch size alone, but has a memory")
        _, machine, _ = prepared(controller, requests, server, 0, np.inf)
        cycles = np.array([_cycles_of(tier, requests) for tier in controller.tiers])
        middle = requests.prompt_tokens + requests.output_tokens / 2
        contexts = (cycles @ middle) / np.maximum(cycles.sum(1), 1)
        held = (requests.prompt_tokens + requests.output_tokens).mean() + machine.reserve
        largest = min(server.sequences, max(1, int(server.tokens / held)))
        known = machine.table[0, 1 : largest + 1] >= 0
        if not known.all():
            raise InputError(
                f"schedule {controller.name!r} has no entry for batch size {int((~known).argmax()) + 1}: plan every "
                f"batch size, as in `spectheory schedule --batch 1:{largest}`"
            )
        prompt = float(requests.prompt_tokens.mean())
        return cls(controller, server, machine, cycles.mean(1), contexts, prompt, largest)

    def number(self, batch: int) -> int:
        """The index of the tier at a batch size."""
        return int(self.controller.table[0, batch])

    def seconds(self, batch: int) -> Float[np.ndarray, " prompts"]:
        """Seconds of a step at the mean context, with each of the timed numbers of prompt tokens."""
        number = self.number(batch)
        rows = self.machine.seconds[number, batch].T
        return np.array([np.interp(self.contexts[number], self.machine.contexts, row) for row in rows])

    def most_prompt(self, batch: int) -> int:
        """Most tokens of prompts in a step."""
        return self.server.batched_tokens - batch * (self.controller.tiers[self.number(batch)].tree.budget + 1)

    def residence(self, batch: int, rate: float) -> float:
        """Seconds for which a sequence decodes, at a constant batch and this rate of new requests.

        A step reads the prompts that arrive during it. It takes forever if they are more than its budget.
        """
        prompts, seconds = self.machine.prefills, self.seconds(batch)
        missing = rate * self.prompt * seconds - prompts
        enough = np.flatnonzero(missing <= 0)
        if not len(enough):
            return np.inf
        after = enough[0]
        before = max(after - 1, 0)
        share = missing[before] / (missing[before] - missing[after]) if after else 0.0
        if prompts[before] + share * (prompts[after] - prompts[before]) > self.most_prompt(batch):
            return np.inf
        step = seconds[before] + share * (seconds[after] - seconds[before])
        return float(self.cycles[self.number(batch)] * step)

    def self_consistent(self, rate: float) -> SelfConsistent:
        """The batch sizes at which the server can settle at a rate of requests."""
        sizes = range(1, self.largest + 1)
        given_back = np.array([rate * self.residence(batch, rate) for batch in sizes])
        return SelfConsistent(
            rate, given_back, tuple(self.controller.tiers[self.number(batch)].name for batch in sizes)
        )

    def rates(self) -> Float[np.ndarray, " sequences"]:
        """Requests per second with each number of sequences, see `rate`."""
        return np.array([self.rate(sequences) for sequences in range(1, self.largest + 1)])

    def rate(self, sequences: int) -> float:
        """Requests per second that are completed if this number of sequences is always admitted.

        A request takes its mean cycles, and one more step that reads its prompt. So of n sequences n / (cycles + 1) end
        in a step and as many have their prompts read, and the others decode.
        """
        cycles = self.cycles[self.number(sequences)]
        ended = sequences / (cycles + 1)
        batch, prompt = max(1.0, ended * cycles), ended * self.prompt
        below, above = int(batch), min(int(batch) + 1, sequences)
        if prompt > self.most_prompt(above):
            return 0.0
        rows = self.seconds(below) + (batch - below) * (self.seconds(above) - self.seconds(below))
        return float(ended / np.interp(prompt, self.machine.prefills, rows))


def _cycles_of(tier: Tier, requests: Requests) -> Float[np.ndarray, " answers"]:
    """Mean cycles of each request."""
    found = np.zeros(len(requests))
    for kind in np.unique(requests.kinds):
        of_kind = requests.kinds == kind
        found[of_kind] = mean_cycles(tier.survival[kind], requests.output_tokens[of_kind])
    return found


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
