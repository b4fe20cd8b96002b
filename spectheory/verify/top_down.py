"""Top-down verification: a node solver at the root, then at the child it emitted, until it leaves the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectheory.arrays import normalised
from spectheory.draft import Draft
from spectheory.otlp import ArgMax, Solver
from spectheory.verify.outcome import Outcome


def walk(draws: Sequence[Sequence[int]], tokens: Sequence[int], emit: Callable[[int], int]) -> tuple[list[int], int]:
    """Follow emitted tokens down a drafted tree: (accepted nodes below the root, the token that left the tree).

    `emit(node)` draws the token emitted at a node; it is called for the nodes on the way only.
    """
    node, accepted = 0, []
    while True:
        token = emit(node)
        child = next((c for c in draws[node] if tokens[c] == token), None)
        if child is None:
            return accepted, token
        accepted.append(child)
        node = child


@dataclass(frozen=True)
class TopDown:
    """A node solver lifted to trees. Lossless when the solver is lossless for the draft's rule.

    Source: Dynamic Delayed Tree Expansion, Section 3 and Eq. (3).
    """

    solver: Solver

    def outcome(self, draft: Draft, p: Any) -> Outcome:
        """The law of (last accepted node, next token). `p` has shape (n + 1, V), the target's law at each node.

        Raises:
            ValueError: the solver is not lossless for the rule by which the draft was drawn.
        """
        if draft.rule not in self.solver.rules:
            named = ", ".join(rule.name for rule in self.solver.rules)
            raise ValueError(f"draft.rule is {draft.rule.name}, {type(self.solver).__name__} is lossless for {named}")
        one = p[0].sum() * 0 + 1
        reach, stop, next_token = [one] * (draft.tree.budget + 1), [], []
        for node in range(draft.tree.budget + 1):
            law = self.solver.law(p[node], draft.q[node], draft.drafted(node)) * one
            for child in dict.fromkeys(draft.draws[node]):
                token = int(draft.tokens[child])
                reach[child] = reach[node] * law[token]
                law[token] = law[token] * 0
            stop.append(reach[node] * law.sum())
            next_token.append(normalised(law, otherwise=p[node]))
        return Outcome(draft.tree, stop, next_token)


@dataclass(frozen=True)
class Greedy(TopDown):
    """Keep what greedy decoding of the target would emit."""

    solver: Solver = field(default_factory=ArgMax)
