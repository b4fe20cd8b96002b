"""`OptimalTransport`, the solver of highest acceptance, for small vocabularies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from spectheory.core.arrays import Vector, copy_of, zeros_like
from spectheory.core.draft import DrawRule
from spectheory.otlp.flow import max_flow
from spectheory.otlp.optimal_acceptance import _optimal_acceptance, draft_sets
from spectheory.otlp.solver import Solver

APART = {DrawRule.IID: DrawRule.IID_APART, DrawRule.IID_APART: DrawRule.IID}


@dataclass(frozen=True)
class OptimalTransport(Solver):
    """Couple the set of drafts with the emitted token, so that the token is in the set as often as possible.

    Let P(X) be the probability that X is the set of drafts. A maximum flow sends mass F(X, t) from sets X to tokens t
    in X, at most P(X) from each set and at most p(t) to each token. The rest of P is matched independently with the
    rest of p. Given drafts with the set X, token t is emitted with probability C(X, t) / P(X), where C is the flow plus
    the independent part.

    Lossless, because the sum of C(X, t) over X is p(t). If the flow leaves a rest of P(X), it has used up p(t) for all
    t in X, so the independent part adds no accepted token, and the acceptance is the value of the flow.

    All sets of drafts are listed; more than `MOST_SETS` sets are refused with an InputError. The acceptance has no such
    limit.

    Attributes:
        drawn: how the drafts are drawn. Given drafts that cannot be drawn like this, the emitted token is drawn from p.

    Acceptance: the optimum over all solvers, the minimum of p(H) + 1 - P(sets within H) over all sets H of tokens.
    Cost: a maximum flow between all sets of drafts, at least C(V, k) of them, and V tokens; cached for p, q and k.
    Source: arXiv 2310.15141 (SpecTr), the linear program of optimal transport; as a flow arXiv 2511.15898.
    """

    drawn: DrawRule = DrawRule.IID

    small_vocabulary_only: ClassVar[str] = (
        "lists all sets of drafts, and a real vocabulary has too many; for HUB and TOP_K_THEN_ONE, SpecHub and "
        "GreedyTopK have the same acceptance without a list"
    )

    def variants(self) -> tuple[Solver, ...]:
        return tuple(OptimalTransport(rule) for rule in DrawRule if rule not in self.rules)

    @property
    def rules(self) -> tuple[DrawRule, ...]:  # pyrefly: ignore[bad-override]
        """`drawn`, and the rule under which the set of drafts has the same distribution."""
        return (self.drawn, APART[self.drawn]) if self.drawn in APART else (self.drawn,)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        if self.drawn is DrawRule.TOP_K:  # one set of drafts, whose distribution can only be p
            return copy_of(p)
        exact = p.dtype == object
        coupled = _coupling(tuple(p.tolist()), tuple(q.tolist()), len(drafts), self.drawn, exact)
        row = coupled.get(frozenset(drafts))
        if row is None:
            return copy_of(p)
        distribution = zeros_like(p)
        for token, mass in row.items():
            distribution[token] += mass
        return distribution

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        return _optimal_acceptance(p, q, k, self.drawn)


@lru_cache(maxsize=64)
def _coupling(
    p: tuple[Any, ...], q: tuple[Any, ...], k: int, drawn: DrawRule, exact: bool
) -> Mapping[frozenset[int], Mapping[int, Any]]:
    """Distribution of the emitted token given each set of k drafts.

    `exact` is part of the key of the cache, because 1/2 and 0.5 are equal as keys.
    """
    chances = draft_sets(np.array(q, dtype=object if exact else np.float64), k, drawn)
    source, sink = len(p) + len(chances), len(p) + len(chances) + 1
    edges = [(token, sink, mass) for token, mass in enumerate(p)]
    for node, (drafts, chance) in enumerate(chances.items(), start=len(p)):
        edges += [(source, node, chance), *((node, token, chance) for token in sorted(drafts))]
    flow = iter(max_flow(edges, source, sink))
    left = {token: max(mass - next(flow), 0) for token, mass in enumerate(p)}
    total = sum(left.values())
    free = {token: mass / total for token, mass in left.items() if mass > 0}
    coupled = {}
    for drafts, chance in chances.items():
        unmatched = max(chance - next(flow), 0) / chance
        distribution = {token: mass * unmatched for token, mass in free.items()}
        for token in sorted(drafts):
            distribution[token] = distribution.get(token, 0) + next(flow) / chance
        coupled[drafts] = distribution
    return coupled
