"""What the predictions of a plan or a schedule assume about the rates and about the times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.by_rates import ByRates
from spectheory.planning.tried_trees import TriedTrees
from spectheory.verify import Greedy, name_of
from spectheory.yields.request_classes import ASSUMED

PRODUCT = "tau is a product of rates: a rate depends on depth and rank alone, whatever the verifier"
"""What a prediction from rates assumes and a replayed one does not."""


def assumptions_of(
    rates: ByRates, trees: Iterable[Tree], latencies: Iterable[Latency], tried: TriedTrees | None
) -> tuple[str, ...]:
    """What the predictions for `trees` assume about the rates and about the times, one sentence each.

    Of the rates, replayed predictions (`tried` is given) assume nothing: they only propose trees.
    """
    latencies, deepest = list(latencies), max(tree.max_depth for tree in trees)
    times = (
        *(sentence for latency in latencies for sentence in latency.provenance.assumptions),
        *_otherwise_sampled(rates.acceptance.provenance, latencies),
    )
    if tried is not None:
        return tuple(dict.fromkeys((*times, *_untimed(tried, latencies))))
    acceptance = rates.acceptance
    product = [PRODUCT if rates.classes is None else ASSUMED] if deepest else []
    below = "use the rates of that depth" if rates.classes is None else "assume that each class keeps its rate"
    deeper = (
        [
            f"rates are known only down to depth {acceptance.depths}: deeper nodes {below}, in trees and chains down "
            f"to depth {deepest}"
        ]
        if deepest > acceptance.depths
        else []
    )
    stamps = acceptance.provenance, latencies[0].provenance
    measured, planned = (one.target and one.draft and f"{one.target} with {one.draft}" for one in stamps)
    other = [f"rates were measured on {measured} and are used for {planned}"] if measured and planned else []
    every = (*acceptance.provenance.assumptions, *other * (measured != planned), *product, *deeper, *times)
    return tuple(dict.fromkeys(every))


def _otherwise_sampled(rates: Provenance, latencies: Iterable[Latency]) -> Iterator[str]:
    """A sentence on overheads that were measured with another sampling than the rates."""
    for timed in dict.fromkeys(latency.provenance.sampling for latency in latencies):
        if rates.sampling and timed and timed != rates.sampling:
            yield f"the overheads were measured at {timed}, and are used for decoding at {rates.sampling}"


def _untimed(tried: TriedTrees, latencies: Iterable[Latency]) -> Iterator[str]:
    """A sentence on the verifiers of sampled text that have no measured overheads of their own."""
    sampled = sorted(set(tried.verifiers) - {name_of(Greedy())})
    names = [name for name in sampled if any(name not in latency.verifier_seconds for latency in latencies)]
    if names:
        yield (
            f"the overheads of {', '.join(names)} were not measured: these verifiers are timed with the overheads of "
            "the latency record, which are the same for all of them"
        )
