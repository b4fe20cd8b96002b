"""Whether the times of runs are possible, and possible together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from spectheory.core.errors import InputError
from spectheory.hardware.run_names import ALIKE, SIXTEEN_BITS
from spectheory.hardware.runs import Run
from spectheory.hardware.timed_setup import TimedSetup

TOLERANCE = 0.8
"""A run that does more than another must take at least this share of its seconds; below it, they contradict."""
ORDER = ("forward", "plain", "speculative")
"""Kinds of runs of which each does what the one before does, and more."""
CONDITIONS = ("kind", "batch", "context", "tokens", "depth", "tau", "prefill_tokens")
"""The fields in which runs that repeat each other agree."""


def require_possible(runs: Sequence[Run], setup: TimedSetup) -> None:
    """Check that the seconds of runs are possible on these GPUs, and that no two runs contradict or repeat each other.

    Raises:
        InputError: a run is faster than the bandwidth or the operations of the GPUs allow, does more than another run
            in less time, or repeats the conditions of another.
    """
    for run in runs:
        _require_slower_than_peak(run, setup)
    for first, second in permutations(runs, 2):
        if all(getattr(first, name) == getattr(second, name) for name in CONDITIONS):
            raise InputError(
                f"{second.where}the run repeats the conditions of {_named(first)}: keep one of them, or replace both "
                "by one run with their mean seconds"
            )
        if _does_more(first, second) and first.seconds < TOLERANCE * second.seconds:
            raise InputError(
                f"{first.where}{_figures(first)} contradicts {_named(second)}, {_figures(second)}: it does more in "
                "less time. A throughput counts the tokens of all sequences together; correct the figures or the batch "
                "size, or leave out one of the runs"
            )


def _require_slower_than_peak(run: Run, setup: TimedSetup) -> None:
    least = setup.least_seconds(run)
    if run.seconds >= (least if setup.target.linear_bytes >= SIXTEEN_BITS else (1 - ALIKE) * least):
        return
    most, target = run.tokens_per_second * run.seconds / least, setup.target
    raise InputError(
        f"{run.where}{run.tokens_per_second:,.5g} tokens per second at batch {run.batch:g} are more than {setup.gpus} "
        f"x {setup.gpu.name} allows: reading the {target.weight_bytes / 1e9:.3g} GB of {target.name} and the caches at "
        f"the peak bandwidth, or computing at the peak rate, takes {1e3 * least:.3g} ms, so at most {most:,.5g} tokens "
        "per second. A throughput counts the tokens of all sequences together; check it, the batch size, the GPU, the "
        "number of GPUs and the format of the weights (quant)"
    )


def _does_more(first: Run, second: Run) -> bool:
    """Whether a run does all that another does."""
    sizes = ("batch", "context", "tokens", "prefill_tokens")
    more = all(getattr(first, name) >= getattr(second, name) for name in sizes)
    return more and ORDER.index(first.kind) >= ORDER.index(second.kind)


def _figures(run: Run) -> str:
    return f"{1e3 * run.seconds:.3g} ms of a {STEPS[run.kind]} at batch {run.batch:g}"


STEPS = {"plain": "plain step", "forward": "forward", "speculative": "cycle"}
"""What the seconds of a run are the time of."""


def _named(run: Run) -> str:
    return run.source or f"the {run.kind} run at batch {run.batch:g}"
