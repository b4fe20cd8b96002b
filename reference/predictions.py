"""The two predictions of tau: by the verifier's law at each cycle, and by rates of other text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.stats import t

from reference import trace
from reference.decode import Cycle
from reference.handed import fetched
from spectheory import Acceptance, Draft, DrawRule, Tree, block_efficiency, block_efficiency_interval
from spectheory.verify import Verifier

LEAST_TRIALS = 30
"""Visits that a depth of a trace needs, to have rates of its own."""

Shape = Callable[[Acceptance], Tree]
"""The tree of ranks that a policy drafts where the rates are these."""


def conditional(verifier: Verifier, cycle: Cycle) -> tuple[float, float]:
    """E[tau] and Var[tau] given the draft and the target's laws, in float64; greedy decoding leaves nothing to chance.

    The laws are those that the cycle was verified with, in float32 as they are there.
    """
    if cycle.p is None:
        return float(len(cycle.emitted)), 0.0
    draft = cycle.draft
    p = [fetched(law).astype(np.float64) for law in cycle.p]
    q = [None if law is None else fetched(law).astype(np.float64) for law in draft.q]
    exact = Draft._unchecked(draft.tree, draft.tokens, q, draft.draws, draft.rule)
    outcome = verifier._outcome(exact, p)
    return float(outcome.block_efficiency), float(outcome.variance)


class Positional:
    """Tau by the rates of a trace, by depth and rank, counted from where cycles with the policy's own tree start.

    Children that are drawn are given the naive solver's rates, the most probable tokens those of sample and match.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen_by = cache(self._count)
        self._texts = cache(lambda top: trace.ranks(folder, top=top))
        self._known: dict[tuple[Shape, DrawRule], tuple[float, float, float]] = {}

    def settled(self, shape: Shape, rule: DrawRule) -> tuple[Tree, Acceptance]:
        """The tree by the rates at every position, then once more by those that this tree sees, and these rates."""
        top = rule is DrawRule.TOP_K
        seen = self._seen_by(shape(self._seen_by(None, top)), top)
        return shape(seen), seen

    def tau(self, shape: Shape, rule: DrawRule) -> tuple[float, float, float]:
        """Predicted tau and its 95% limits, for children that are drawn by `rule`.

        The limits are those of the delete-one jackknife over requests, of this tree: positions of one text are no
        independent trials. Of one request alone they are those of its counts, as if they were.
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
        return trace.acceptance(self.folder, policy=tree, min_trials=LEAST_TRIALS, top=top).smoothed()
