"""Which plans an engine can run."""

from __future__ import annotations

from spectheory.engines import ChainRange, Envelope
from spectheory.planning.runnable import checked_ranges
from tests.engines.examples import RANGES
from tests.refusals import refuses


def test_ranges_and_envelopes_check_themselves() -> None:
    assert Envelope(levels=3, branching=2, nodes=10).pool == 2 + 2 * 4
    assert [r.length for r in checked_ranges(RANGES[::-1])] == [5, 3, 0]
    refuses(r"nodes must be at most .* = 10, .* levels=3 and branching=2, got 11", Envelope, 3, 2, 11)
    refuses("levels must be at least 1, got 0", Envelope, 0, 2, 1)
    refuses("nodes must be a whole number, got 1.5", Envelope, 1, 2, 1.5)
    refuses("last_batch must be at least first_batch=5, got 4", ChainRange, 5, 4, 1)
    refuses("length must be at least 0, got -1", ChainRange, 1, 4, -1)
    refuses("ranges must hold at least one ChainRange, got none", checked_ranges, [])
    refuses("must cover every batch size from 1 on once: .* start at 1", checked_ranges, [ChainRange(2, 4, 1)])
    refuses("should start at 5", checked_ranges, [ChainRange(1, 4, 1), ChainRange(6, 8, 0)])
    refuses("should start at 5", checked_ranges, [ChainRange(1, 4, 1), ChainRange(4, 8, 0)])
    refuses("got only length 0: run the engine without", checked_ranges, [ChainRange(1, 4, 0)])
