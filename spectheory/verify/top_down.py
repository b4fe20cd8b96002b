"""`TopDown`, a node solver applied from the root down, until the emitted token is not a drafted child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import normalised, one_of, set_zero
from spectheory.core.draft import Draft, DrawRule
from spectheory.otlp import NSS, ArgMax, Solver
from spectheory.verify.outcome import Outcome
from spectheory.verify.verifier import Verifier


def walk(draws: Sequence[Sequence[int]], tokens: Sequence[int], emit: Callable[[int], int]) -> tuple[list[int], int]:
    """Follow the emitted tokens down a drafted tree. Returns the accepted nodes and the token emitted after them.

    Args:
        draws: for each node, its children.
        tokens: the token of each node.
        emit: function that draws the token emitted at a node. It is called for the accepted nodes and the root only.
    """
    node, accepted = 0, []
    while True:
        token = emit(node)
        for child in draws[node]:
            if tokens[child] == token:
                break
        else:
            return accepted, token
        accepted.append(child)
        node = child


@dataclass(frozen=True)
class TopDown(Verifier):
    """Apply a node solver at the root, then at each accepted child. Lossless if the solver is, for the draft's rule.

    The number of draws at a node must be settled before they are drawn: a tree that is pruned by its tokens is lossy.
    Source: Dynamic Delayed Tree Expansion, Section 3 and Eq. (3).
    """

    solver: Solver

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """The draw rules of the solver."""
        return self.solver.rules

    def _at(self, drafts: Sequence[int]) -> Solver:
        """The solver at a node with these drafts. At a leaf it draws from p, or the argmax if that is the rule."""
        return self.solver if drafts or isinstance(self.solver, ArgMax) else NSS()

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        one = one_of(p[0])
        reach, stop, next_token = [one] * (draft.tree.budget + 1), [], []
        for node in range(draft.tree.budget + 1):
            drafts = draft.drafted(node)
            distribution = self._at(drafts)._distribution(p[node], draft.q[node], drafts)
            for child in dict.fromkeys(draft.draws[node]):
                token = int(draft.tokens[child])
                reach[child] = reach[node] * distribution[token]
                set_zero(distribution, token)
            stop.append(reach[node] * distribution.sum())
            next_token.append(normalised(distribution, otherwise=p[node]))
        return Outcome(draft.tree, stop, next_token)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        """See Verifier.sample; only the root and the accepted nodes are evaluated."""

        def emit(node: int) -> int:
            drafts = draft.drafted(node)
            return self._at(drafts)._sample(p[node], draft.q[node], drafts, rng)

        path, token = walk(draft.draws, draft.tokens, emit)
        return (path or [0])[-1], token
