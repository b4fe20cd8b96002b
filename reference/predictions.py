"""Two predictions of tau: exact, from the verifier's distribution in each cycle; positional, from a trace's rates."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.stats import t

from reference import tracing
from reference.decode import Cycle
from reference.drafters.kind import TreeFromRates
from reference.host_arrays import to_host
from spectheory import Acceptance, Draft, DrawRule, Tree, block_efficiency, block_efficiency_interval
from spectheory.verify import Verifier

LEAST_TRIALS = 30
"""Minimum number of visits of a depth in a trace; depths with fewer visits have no rates of their own."""


def conditional(verifier: Verifier, cycle: Cycle) -> tuple[float, float]:
    """E[tau] and Var[tau] of a cycle, given its draft and the target's distributions, in float64.

    The distributions are the float32 numbers that the cycle was verified with. At temperature 0 the variance is 0.
    """
    if cycle.p is None:
        return float(len(cycle.emitted)), 0.0
    draft = cycle.draft
    p = [to_host(row).astype(np.float64) for row in cycle.p]
    q = [None if row is None else to_host(row).astype(np.float64) for row in draft.q]
    exact = Draft._unchecked(draft.tree, draft.tokens, q, draft.draws, draft.rule)
    outcome = verifier._outcome(exact, p)
    return float(outcome.block_efficiency), float(outcome.variance)


class Positional:
    """Predicts tau from a trace: from rates by depth and rank at the positions where cycles with the same tree start.

    Drawn children have the naive solver's rates, most probable tokens the rates of sample and match.

    Args:
        folder: folder that holds the trace.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen_by = cache(self._count)
        self._texts = cache(lambda top: tracing.ranks(folder, top=top))
        self._known: dict[tuple[TreeFromRates, DrawRule], tuple[float, float, float]] = {}

    def settled(self, shape: TreeFromRates, rule: DrawRule) -> tuple[Tree, Acceptance]:
        """The tree and its rates where cycles start; cycles of a first tree, from the rates of all positions."""
        top = rule is DrawRule.TOP_K
        seen = self._seen_by(shape(self._seen_by(None, top)), top)
        return shape(seen), seen

    def tau(self, shape: TreeFromRates, rule: DrawRule) -> tuple[float, float, float]:
        """Predicted tau and its 95% limits, for children that are drawn by `rule`.

        The limits come from a delete-one jackknife over requests with a fixed tree, because positions of one text are
        not independent. For a single request, positions are treated as independent.
        """
        if (shape, rule) not in self._known:
            tree, rates = self.settled(shape, rule)
            tau = block_efficiency(tree, rates)
            self._known[shape, rule] = tau, *(self._jackknife(tau, tree, rates, rule is DrawRule.TOP_K))
        return self._known[shape, rule]

    def _jackknife(self, tau: float, tree: Tree, rates: Acceptance, top: bool) -> tuple[float, float]:
        texts = self._texts(top)
        if len(texts) == 1:
            return block_efficiency_interval(tree, rates)
        count = partial(Acceptance.from_ranks, ranks=rates.ranks, policy=tree, max_depth=rates.depths, min_trials=1)
        others = [
            block_efficiency(tree, count(texts[:request] + texts[request + 1 :]).smoothed())
            for request in range(len(texts))
        ]
        half = float(t.ppf(0.975, len(texts) - 1)) * (len(texts) - 1) ** 0.5 * float(np.std(others))
        return max(1.0, tau - half), tau + half

    def _count(self, tree: Tree | None, top: bool) -> Acceptance:
        return tracing.acceptance(self.folder, policy=tree, min_trials=LEAST_TRIALS, top=top).smoothed()
