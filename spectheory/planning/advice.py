"""Beside a schedule: the best draft where it is off, and the measurement that would narrow its prediction most."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import exp

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.planning.confidence import spans
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import plan
from spectheory.planning.schedule_record import Option, Schedule


def advice(planned: Schedule) -> list[str]:
    """A few sentences: a stated chain, where drafts may not pay, what to measure, and the best draft where off."""
    return [*_stated(planned), *_break_even(planned), *_measurement(planned), *_best_drafts(planned)]


def _stated(planned: Schedule) -> Iterator[str]:
    """What the chain with a stated tau gives at the first batch size at which the plan runs another one."""
    chain = None if planned.is_replayed or planned.acceptance.trials is not None else planned.acceptance.cycles_of
    row = next((row for row in range(len(planned.batches)) if planned.option(row).tree != chain), None)
    if chain is not None and row is not None:
        speedup = Option(chain).speedup(planned.rates, planned.latencies[row], planned.context)
        ends = _ends(speedup, planned.time_error(row))
        yield f"The chain of {chain.budget} with this tau gives {speedup:.2f}x{ends} at batch {planned.batches[row]}."


def _break_even(planned: Schedule) -> Iterator[str]:
    """Where the best draft may be faster or slower than plain decoding, by the errors of computed times."""
    chains = Fitting(planned).chain_speedups[:, 1:].max(axis=1)
    best = np.where(planned.speedups > 1, planned.speedups, chains)
    unsure = np.abs(np.log(best)) < [planned.time_error(row) or 0.0 for row in range(len(best))]
    if unsure.any():
        yield f"At batch {spans(planned.batches, unsure)}, drafts may be faster or slower than plain decoding."


def _ends(speedup: float, error: float | None) -> str:
    return f" ({speedup * exp(-error):.2f}x to {speedup * exp(error):.2f}x)" if error else ""


def paying_rate(planned: Schedule, row: int) -> float | None:
    """The smallest rate, in hundredths and the same at every depth, at which a chain pays at batches[row]; or None."""
    limits = {"max_budget": planned.limits.max_budget, "max_depth": planned.limits.max_depth, "max_fanout": 1}

    def pays(hundredths: int) -> bool:
        rates = Acceptance.by_rank([hundredths / 100])
        return plan(rates, planned.latencies[row], context=planned.context, **limits).answer != "off"

    found = bisect_left(range(101), True, key=pays)
    return found / 100 if found <= 100 else None


def _best_drafts(planned: Schedule) -> Iterator[str]:
    """On the first batch size at which nothing is drafted."""
    off = [row for row in range(len(planned.batches)) if planned.option(row).answer == "off"]
    for row in off[:1]:
        speedups = Fitting(planned).chain_speedups[row, 1:]
        best, error, rate = float(speedups.max()), planned.time_error(row), paying_rate(planned, row)
        it = f"the best chain, of {speedups.argmax() + 1}, is {best:.2f}x{_ends(best, error)} as fast as plain decoding"
        pays = "no rate makes a chain pay" if rate is None else f"chains pay from a rate of {rate:.2f} at all positions"
        yield f"Off at batch {planned.batches[row]}: {it}; {pays}."


def _measurement(planned: Schedule) -> Iterator[str]:
    """Rates without counts are measured first, then times of a batch size that may not pay or was not judged."""
    if not planned.is_replayed and planned.acceptance.trials is None:
        yield "Measure first: acceptance on your own texts (`spectheory import`)."
        return
    rows = [row for row in range(len(planned.batches)) if planned.latencies[row].computed]
    intervals = {row: planned.speedup_interval(row) for row in rows}
    doubtful = [row for row, ends in intervals.items() if ends is None or ends[0] < 1 < ends[1]]
    found = doubtful[:1] or [row for row in rows if not planned.judged(row)][-1:]
    for row in found:
        sizes = f"at batch {planned.batches[row]}, with and without speculation"
        yield f"Measure first: tokens/s {sizes} (`spectheory calibrate`)."
