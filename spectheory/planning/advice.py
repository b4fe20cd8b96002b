"""Beside a schedule: the best draft where it is off, and the measurement that would narrow its prediction most."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import exp

from spectheory.core.acceptance import Acceptance
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import plan
from spectheory.planning.schedule_record import Option, Schedule


def advice(planned: Schedule) -> list[str]:
    """A few sentences: what the chain with a stated tau gives, what to measure first, and the best draft where off."""
    return [*_stated(planned), *_measurement(planned), *_best_drafts(planned)]


def _stated(planned: Schedule) -> Iterator[str]:
    """What the chain with a stated tau gives at the first and the last batch size, if the plan runs another one."""
    chain, last = planned.acceptance.cycles_of, len(planned.batches) - 1
    if chain is None or planned.acceptance.trials is not None or planned.is_replayed:
        return
    found, rows = Option(chain), [row for row in sorted({0, last}) if planned.option(row).tree != chain]
    said = []
    for row in rows:
        speedup, error = found.speedup(planned.rates, planned.latencies[row], planned.context), planned.time_error(row)
        said.append(f"{speedup:.2f}x{_ends(speedup, error)} at batch {planned.batches[row]}")
    if said:
        yield f"The chain of {chain.budget} with this tau gives {' and '.join(said)}."


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
        what = (
            f"the best chain, of {speedups.argmax() + 1}, is {best:.2f}x{_ends(best, error)} as fast as plain decoding"
        )
        pays = "no rate makes a chain pay" if rate is None else f"chains pay from a rate of {rate:.2f} at all positions"
        yield f"Off at batch {planned.batches[row]}: {what}; {pays}."


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
