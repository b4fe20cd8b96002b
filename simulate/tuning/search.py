"""`tune`: the schedule of highest goodput under a load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulate.load import Load, Requests, parse
from simulate.serving import Server, serve
from simulate.serving.stability import Work
from simulate.serving.tiers import Rates
from simulate.tuning.options import Choice, Options, changed, neighbours, segments
from spectheory import Provenance, Schedule
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.planning.candidates import Progress, ignore_progress
from spectheory.results.tuned import OFF, PLANNED, TUNED, Tuned

STEPS = 1000
"""Goodput, and then the time per output token, are compared in steps of this share of the planned schedule's figure, so
that a simpler schedule is taken where both are about equal."""
RUNNERS_UP = 3
"""Number of schedules with the next highest goodput that are judged beside the tuned one."""
TUNED_CHAINS, PLANNED_CHAINS = "tuned chains", "planned chains"


def tune(
    schedule: Schedule,
    load: Load | str,
    *,
    slo_ttft_seconds: float | None = None,
    slo_tpot_seconds: float | None = None,
    server: Server | None = None,
    rates: Rates | None = None,
    replications: int = 8,
    tries: int = 200,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Tuned:
    """Find the schedule of highest goodput: which tree, chain or nothing to verify at each batch size.

    The search starts from these schedules: the given one, its chains, no speculation, every tree at all batch sizes,
    and trees up to a batch size. It then moves thresholds and changes trees as long as the goodput rises. Every
    schedule meets the same requests and the same uniform numbers. The schedule is chosen on the first half of the
    replications. The other half judges it and the schedules that came next. It is the best schedule that was found,
    not a proven optimum.

    Args:
        schedule: the planned schedule, with the trees to choose from.
        load: the load, or its text, see `simulate.load.parse`. Each replication draws its own requests.
        slo_ttft_seconds: limit on the time to the first token of a request; None means no limit.
        slo_tpot_seconds: limit on the mean time per output token of a request; None means no limit.
        server: times and limits of the engine; None means the times of `schedule`.
        rates: true rates of acceptance, of all requests or of each class; None means the rates of the schedule.
        replications: number of replications, half of them to choose and half to judge; at least 4, an even number.
        tries: maximum number of schedules that are tried.
        seed: seed of the first replication; the others have the seeds after it.
        progress: called with the number of schedules tried so far, and `tries`.

    Raises:
        InputError: the numbers are out of range, or the load cannot be served, see `simulate.serve`.
    """
    check_whole("replications", replications, 4)
    check_whole("tries", tries, 1)
    check_whole("seed", seed, 0)
    if replications % 2:
        raise InputError(f"replications must be even, half of them to choose and half to judge, got {replications}")
    load = parse(load) if isinstance(load, str) else load
    options = Options.of(schedule, Server.of(schedule) if server is None else server, rates)
    limits = {"slo_ttft_seconds": slo_ttft_seconds, "slo_tpot_seconds": slo_tpot_seconds}
    if not load.has_end:
        _require_sustained(schedule, options, load.requests(seed))
    seeds = list(range(seed, seed + replications))
    half = replications // 2
    trials = Trials(options, _drawn(load, seeds[:half]), limits, tries, progress)
    best, best_chains = trials.search()
    judged = _judged(schedule, options, trials, best, best_chains)
    figures = [trials.run(choice, _drawn(load, seeds[half:])) for choice in judged.values()]
    goodput, ttft, tpot = np.array(figures).transpose(1, 0, 2)
    return Tuned(
        schedule=options.schedule_of(best, best_chains, load.text),
        names=tuple(judged),
        goodput=goodput,
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        seeds=np.array(seeds[half:]),
        searched=half,
        tried=len(trials.known),
        load_text=load.text,
        provenance=_provenance(schedule, options.server, load, seed),
        **limits,
    )


def _require_sustained(schedule: Schedule, options: Options, requests: Requests) -> None:
    """Check that the planned schedule or no speculation sustains the rate of a load that has no end."""
    choices = options.nothing, tuple(schedule.choice.tolist())
    controllers = [options.controller(choice, "tuned") for choice in choices]
    limit = max(float(Work.of(one, requests, options.server, None).rates().max()) for one in controllers)
    if requests.rate is not None and requests.rate > limit:
        raise InputError(
            f"load must be at most {limit:.3g} requests a second, the most that the planned schedule or no speculation "
            f"sustains, got {requests.rate:.3g}: the queue would grow for as long as requests arrive. Lower the rate, "
            "or give the number of requests, such as count=2000"
        )


def _drawn(load: Load, seeds: Sequence[int]) -> list[tuple[int, Requests]]:
    """The requests of each seed."""
    return [(seed, load.requests(seed)) for seed in seeds]


@dataclass
class Trials:
    """The schedules that were tried on some replications, each once.

    Attributes:
        options: what may be run.
        replications: seed and requests of each replication.
        limits: the limits of the goodput.
        tries: largest number of schedules.
        progress: called after each one.
        known: (goodput, time per token) of each choice, means over the replications.
        steps: the differences of both that count, see `STEPS`; 0 before the search.
    """

    options: Options
    replications: list[tuple[int, Requests]]
    limits: dict[str, float | None]
    tries: int
    progress: Progress
    known: dict[Choice, tuple[float, float]] = field(default_factory=dict)
    steps: tuple[float, float] = (0.0, 0.0)

    def run(self, choice: Choice, replications: list[tuple[int, Requests]]) -> np.ndarray:
        """(3, R) goodput, mean time to the first token and mean time per output token of a choice."""
        controller = self.options.controller(choice, "tuned")
        runs = [
            serve(controller, requests, server=self.options.server, seed=seed, **self.limits)  # pyrefly: ignore[bad-argument-type]
            for seed, requests in replications
        ]
        rows = [(run.goodput, run.ttft.mean if run.ttft else 0.0, run.tpot.mean if run.tpot else 0.0) for run in runs]
        return np.array(rows).T

    @property
    def is_over(self) -> bool:
        """Whether all tries are used."""
        return len(self.known) >= self.tries

    def measured(self, choice: Choice) -> tuple[float, float]:
        """Goodput and time per output token of a choice, means over the replications."""
        if choice not in self.known:
            goodput, _, tpot = self.run(choice, self.replications).mean(1)
            self.known[choice] = float(goodput), float(tpot)
            self.progress(len(self.known), self.tries)
        return self.known[choice]

    def score(self, choice: Choice) -> tuple[float, float, int]:
        """Goodput and time per output token in whole steps, then the number of segments; the highest is the best."""
        goodput, tpot = (
            round(value / step) if step else value
            for value, step in zip(self.measured(choice), self.steps, strict=True)
        )
        return goodput, -tpot, -len(segments(choice))

    def search(self) -> tuple[Choice, Choice]:
        """The best choice that was found, and the best one of chains only."""
        options = self.options
        planned, chains = (tuple(row.tolist()) for row in (options.schedule.choice, options.schedule.chain_choice))
        goodput, tpot = self.measured(planned)
        self.steps = goodput / STEPS, tpot / STEPS
        start = self._best_of([options.nothing, chains, *self._simple(options.chains)])
        best_chains = self._climb(start, options.chains, self.tries // 2)
        if set(options.ordered) == set(options.chains):
            return best_chains, best_chains
        start = self._best_of([best_chains, planned, *self._simple(options.ordered)])
        best = self._climb(start, options.ordered, self.tries)
        return best, best_chains

    def _simple(self, among: Sequence[int]) -> Iterable[Choice]:
        """Each tree at all batch sizes, then the best two of them up to each power of two."""
        size, nothing = self.options.size, self.options.nothing
        fixed = [(tree,) * size for tree in among]
        yield from fixed
        ranked = sorted((choice for choice in fixed if choice in self.known and choice != nothing), key=self.score)
        for choice in ranked[-2:]:
            yield from (
                changed(nothing, 0, 2**power, choice[0]) for power in range(size.bit_length()) if 2**power < size
            )

    def _best_of(self, choices: Iterable[Choice]) -> Choice:
        """The best of these, as far as there are tries left."""
        found: list[Choice] = []
        for choice in choices:
            if choice in self.known or not self.is_over:
                self.score(choice)
                found.append(choice)
        return max(found, key=self.score)

    def _climb(self, best: Choice, among: Sequence[int], tries: int) -> Choice:
        """Take better neighbours, with smaller and smaller steps, until there is none or `tries` are used."""
        step = max(1, self.options.size // 4)
        while True:
            better = self._better(best, among, step, tries)
            if better is not None:
                best = better
            elif step == 1 or len(self.known) >= tries:
                return best
            else:
                step //= 2

    def _better(self, best: Choice, among: Sequence[int], step: int, tries: int) -> Choice | None:
        """The first neighbour with a higher score; None if there is none, or if `tries` are used."""
        for choice in neighbours(best, among, step):
            if choice not in self.known and len(self.known) >= tries:
                continue
            if self.score(choice) > self.score(best):
                return choice
        return None


def _judged(
    schedule: Schedule, options: Options, trials: Trials, best: Choice, best_chains: Choice
) -> dict[str, Choice]:
    """The choices that are judged, by name."""
    planned, chains = (tuple(row.tolist()) for row in (schedule.choice, schedule.chain_choice))
    named = {TUNED: best} | ({TUNED_CHAINS: best_chains} if best_chains != best else {})
    named |= {PLANNED: planned} | ({PLANNED_CHAINS: chains} if chains != planned else {}) | {OFF: options.nothing}
    ranked = sorted((choice for choice in trials.known if choice not in named.values()), key=trials.score, reverse=True)
    return named | {f"runner-up {i}": choice for i, choice in enumerate(ranked[:RUNNERS_UP], 1)}


def _provenance(schedule: Schedule, server: Server, load: Load, seed: int) -> Provenance:
    stamp = schedule.provenance
    settings = {
        "load": load.identity,
        "max_sequences": server.sequences,
        "batched_tokens": server.batched_tokens,
        "kv_tokens": server.kv_tokens,
    }
    return Provenance.now(
        "simulate.tune",
        packages=("numba", "numpy"),
        seed=seed,
        gpu=stamp.gpu,
        target=stamp.target,
        draft=stamp.draft,
        settings=settings,
    ).assuming(*stamp.assumptions)
