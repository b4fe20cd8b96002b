"""What the predictions of a plan or a schedule assume about the rates and about the times."""

from __future__ import annotations

from collections.abc import Iterable

from spectheory.core.acceptance import Acceptance
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency

PRODUCT = "tau is a product of rates: a rate depends on depth and rank alone, whatever the verifier"
"""What a prediction from rates assumes and a replayed one does not."""


def assumptions_of(
    acceptance: Acceptance, trees: Iterable[Tree], latencies: Iterable[Latency], *, replayed: bool
) -> tuple[str, ...]:
    """What the predictions for `trees` assume about the rates and about the times, one sentence each.

    Of the rates, `replayed` predictions assume nothing: they only propose trees.
    """
    latencies, deepest = list(latencies), max(tree.max_depth for tree in trees)
    times = tuple(sentence for latency in latencies for sentence in latency.provenance.assumptions)
    if replayed:
        return tuple(dict.fromkeys(times))
    product = [PRODUCT] if deepest else []
    deeper = (
        [
            f"rates are known only down to depth {acceptance.depths}: deeper nodes use the rates of that depth, "
            f"in trees and chains down to depth {deepest}"
        ]
        if deepest > acceptance.depths
        else []
    )
    measured, planned = (_pair_of(record.provenance) for record in (acceptance, latencies[0]))
    other = [f"rates were measured on {measured} and are used for {planned}"] if measured and planned else []
    every = (*acceptance.provenance.assumptions, *other * (measured != planned), *product, *deeper, *times)
    return tuple(dict.fromkeys(every))


def _pair_of(stamp: Provenance) -> str | None:
    """`target with draft` by the names in a record's provenance; None if it does not name both."""
    return f"{stamp.target} with {stamp.draft}" if stamp.target and stamp.draft else None
