"""Checks by queueing theory: Pollaczek-Khinchine, Little's law, closed loops, and saturation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.serving_validation.check import Check
from benchmarks.serving_validation.engines import constant_server, service_moments
from simulate import Controller, Requests, Server, StepTimes, Tier, serve
from simulate.load import Geometric, Lognormal, bursts, closed, poisson
from spectheory import Acceptance, Deployment, Tree

OFF = Tier.off()
CHAIN = Tier.of(Tree.chain(3), Acceptance.by_rank([0.7]))
TREE = Tier.of(Tree.k_ary(2, 2), Acceptance.by_rank([0.6, 0.2]))
STEP = 0.01
"""Seconds of a step of the engines with constant times."""
ROUNDING = 1e-9
"""Relative rounding error of sums of times."""
WARM = 0.1
"""Share of the requests at the start, and at the end, that is left out where a long run is meant."""
ANSWERS = ((1, 0.25), (8, 0.5), (40, 0.25))
"""Tokens of answers and their probabilities, where the distribution of the service must be known exactly."""
TOKENS, SHARES = (list(column) for column in zip(*ANSWERS, strict=True))


def checks(runs: int = 40, count: int = 20_000) -> Iterator[Check]:
    """All checks by theory, with `runs` independent runs of `count` requests where something is random."""
    yield from waits(runs, count)
    yield from littles_law()
    yield from closed_loops()
    yield from saturation(runs, count)


def waits(runs: int, count: int) -> Iterator[Check]:
    """Poisson arrivals at an engine that serves one request at a time are an M/G/1 queue.

    Pollaczek and Khinchine: the mean wait is rate * E[S^2] / (2 (1 - rate * E[S])) for service times S.
    """
    server = constant_server(STEP, 1)
    for number, (tier, load) in enumerate(((OFF, 0.5), (CHAIN, 0.5), (CHAIN, 0.8), (TREE, 0.7))):
        mean, square = service_moments(tier, STEP, ANSWERS)
        rate = load / mean
        expected = rate * square / (2 * (1 - load))
        figures = []
        for seed in range(number * runs, (number + 1) * runs):
            answers = np.random.default_rng([seed, 77]).choice(TOKENS, count, p=SHARES)
            run = serve(tier, _with_answers(poisson(rate, count, seed=seed), answers), server=server, seed=seed)
            waited = run.ttft_seconds - STEP
            figures.append(float(waited[int(WARM * count) :].mean()))
        yield Check.of_runs(
            "M/G/1 wait (Pollaczek-Khinchine)", f"{tier.name}, utilisation {load}", figures, expected, "s"
        )


def littles_law() -> Iterator[Check]:
    """The mean number of requests in the system is their rate times their mean time in it: exact in every whole run."""
    server = Server(StepTimes.computed(_place(), most_sequences=32), max_sequences=24, batched_tokens=512)
    switching = Controller.up_to(CHAIN, 8, 24)
    loads = {
        "Poisson arrivals": poisson(6.0, 3000, seed=1, prompt=Lognormal(300, 1.0), output=Geometric(80)),
        "bursts": bursts(5.0, 3000, cv=4.0, seed=2, prompt=Lognormal(300, 1.0), output=Geometric(80)),
        "closed loop of 40": closed(40, 2000, seed=3, prompt=200, output=Geometric(60)),
    }
    for name, requests in loads.items():
        for controller in (Controller.always(OFF, 24), switching):
            run = serve(controller, requests, server=server, seed=4)
            expected = len(run) / run.seconds * float(run.end_to_end_seconds.mean())
            yield Check(
                "Little's law",
                f"{name}, {controller.name}",
                run.mean_in_system,
                expected,
                ROUNDING * expected,
                "requests",
            )


def closed_loops() -> Iterator[Check]:
    """A closed loop of b sequences emits tau * b tokens in the seconds of a cycle of b sequences.

    The answers do not end within the run. The slack is `LEVEL` of the mean of independent cycles of known variance.
    """
    from scipy.stats import norm

    times = StepTimes.computed(_place(), most_sequences=64, contexts=[1024])
    batches = dict(zip(times.batches.tolist(), times.latencies, strict=True))
    for batch in (1, 8, 64):
        latency, server = batches[batch][0], Server(times, batch, 2**20, kv_tokens=2**30)
        for tier in (OFF, CHAIN, TREE):
            cycle = latency.cycle(tier.tree, 1024, tier.verifier)
            requests = Requests.closed(batch, np.full(batch, 1024), np.full(batch, 10**6))
            run = serve(tier, requests, server=server, until_seconds=1500 * cycle, seed=batch)
            steps = int(run.tier_steps.sum())
            figure = (run.accepted + steps * batch) / run.decode_seconds
            deviation = _deviation(tier) / (steps * batch) ** 0.5
            slack = batch / cycle * (norm.isf(0.5e-6) * deviation + 1e-9)
            expected = float(tier.tau[0]) * batch / cycle
            yield Check(
                "closed loop: tau x b / cycle", f"b = {batch}, {tier.name}", figure, expected, slack, "tokens/s"
            )


def saturation(runs: int, count: int) -> Iterator[Check]:
    """An engine that is never idle completes b / E[work of a request] requests a second, where b are served at a time.

    All requests wait from the start. The first and last ones, of a batch that fills and empties, are left out. The
    answers have exactly the shares of `ANSWERS`, in random order.
    """
    exact = np.repeat(TOKENS, np.multiply(SHARES, count).astype(int))
    for number, (sequences, tier) in enumerate(((1, CHAIN), (8, OFF), (8, CHAIN), (32, TREE))):
        mean, _ = service_moments(tier, STEP, ANSWERS)
        server, figures = constant_server(STEP, sequences), []
        for seed in range(number * runs, (number + 1) * runs):
            answers = np.random.default_rng([seed, 78]).permutation(exact)
            requests = Requests(np.zeros(len(exact)), np.ones(len(exact), int), answers)
            run = serve(tier, requests, server=server, seed=seed)
            ends = np.sort(run.completion_seconds)
            first, last = int(WARM * len(exact)), int((1 - WARM) * len(exact))
            figures.append((last - first) / float(ends[last] - ends[first]))
        case = f"{sequences} at a time, {tier.name}"
        yield Check.of_runs("saturation: 1 / work of a request", case, figures, sequences / mean, "requests/s")


def _with_answers(requests: Requests, outputs: np.ndarray) -> Requests:
    """The requests with prompts of one token and answers of these lengths."""
    return Requests(requests.arrival_seconds, np.ones(len(requests), int), outputs)


def _deviation(tier: Tier) -> float:
    """Standard deviation of the tokens of a cycle."""
    survival = np.append(tier.survival[0], 0.0)
    emits, lengths = survival[:-1] - survival[1:], np.arange(1, len(survival))
    return float(max(0.0, emits @ lengths**2 - (emits @ lengths) ** 2) ** 0.5)


def _place() -> Deployment:
    return Deployment("h100_sxm", "llama-3.1-8b", "eagle3-llama-3.1-8b")
