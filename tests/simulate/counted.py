"""Task functions for tests, in a module that every worker can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import simulate


def noisy(block: simulate.Block, *, scale: float = 1.0, seconds: float = 0.0) -> simulate.Statistics:
    """Floats of very different sizes, whose sum depends on the order if it is rounded at each step."""
    time.sleep(seconds)
    rng = block.rng()
    trials = int(rng.integers(1, 50))
    large = float(10.0 ** rng.integers(-8, 9))
    return simulate.Statistics(
        {"sum": scale * large * rng.standard_normal(), "trials": trials, "hits": int(rng.binomial(trials, 0.3))},
        {"lengths": tuple(np_counts(rng.integers(0, 5, trials).tolist()))},
    )


def np_counts(values: list[int]) -> list[int]:
    return [values.count(value) for value in range(5)]


def dies_once(block: simulate.Block, *, at: int, marker: str) -> simulate.Statistics:
    """As `noisy`, but the first worker that gets block `at` is killed."""
    if block.number == at and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return noisy(block)


def dies(block: simulate.Block, *, at: int) -> simulate.Statistics:
    """As `noisy`, but every worker that gets block `at` is killed."""
    if block.number == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return noisy(block)


def raises(block: simulate.Block, *, at: int) -> simulate.Statistics:
    """As `noisy`, but block `at` cannot be counted."""
    if block.number == at:
        raise ZeroDivisionError("no trials")
    return noisy(block)


@dataclass(frozen=True)
class Shifted:
    """A task as a callable dataclass."""

    by: float

    def __call__(self, block: simulate.Block) -> simulate.Statistics:
        return simulate.Statistics({"value": block.rng().normal(self.by)})


def unreadable() -> None:
    raise AttributeError("no such function here")


@dataclass(frozen=True)
class Unreadable:
    """A task that can be sent, but not read by the process that receives it."""

    def __call__(self, block: simulate.Block) -> simulate.Statistics:
        return noisy(block)

    def __reduce__(self) -> tuple:
        return unreadable, ()


TASKS = (
    simulate.Task(noisy, {"scale": 1.0}, figures=(simulate.Figure("hit rate", "hits", "trials", share=True),)),
    simulate.Task(noisy, {"scale": 3.0}, figures=(simulate.Figure("mean", "sum", "trials"),)),
    simulate.Task(Shifted(2.0), figures=(simulate.Figure("value", "value"),)),
)
SLOW = [simulate.Task(noisy, {"scale": scale, "seconds": 0.01}) for scale in (1.0, 2.0)]
