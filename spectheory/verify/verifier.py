"""`Verifier`, the base class of path and tree verifiers, and `SinglePath`, the base class of verifiers of chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np

from spectheory.core.arrays import Distributions, Vector, as_distribution, check_tokens
from spectheory.core.checks import checked
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.verify.outcome import Outcome


class Verifier(ABC):
    """A distribution of (last accepted node, next token), given a draft and the target's distributions at its nodes.

    `outcome` and `sample` check their arguments, then call `_outcome` and `_sample`.
    """

    takes: ClassVar[Literal["trees", "paths", "chains"]] = "trees"
    """The drafts that can be verified: any trees, independent paths of one length, or chains."""

    @property
    @abstractmethod
    def rules(self) -> tuple[DrawRule, ...]:
        """The draw rules for which the verifier is lossless."""

    @abstractmethod
    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        """`outcome`, unchecked."""

    @final
    def outcome(self, draft: Draft, p: Distributions) -> Outcome:
        """The distribution of (last accepted node, next token).

        `p` has the target's distribution at each of the n + 1 nodes.

        Raises:
            InputError: `p` does not have one row for each node, a row of p or q is not a distribution, a drafted token
                has q = 0, or the verifier is not lossless for the draft's rule.
        """
        return self._outcome(*self._checked(draft, p))

    @final
    def sample(self, draft: Draft, p: Distributions, rng: np.random.Generator) -> tuple[int, int]:
        """Draw (last accepted node, next token). Arguments and errors are the same as for `outcome`."""
        return self._sample(*self._checked(draft, p), rng)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        """`sample`, unchecked."""
        return self._outcome(draft, p).sample(rng)

    def _check(self, draft: Draft) -> None:
        """Refuse a draft of another rule; of another shape too, if the verifier does not take all trees."""
        if draft.rule not in self.rules:
            named = ", ".join(rule.name for rule in self.rules)
            raise InputError(
                f"draft.rule is {draft.rule.name}, {self} is lossless only for {named}: draft by one of these rules"
            )

    @checked
    def _checked(self, draft: Draft, p: Distributions) -> tuple[Draft, list[Any]]:
        """The draft and p after a check, with the distributions that `as_distribution` returns."""
        self._check(draft)
        if len(p) != draft.tree.budget + 1:
            raise InputError(f"p must have a distribution for each of the {draft.tree.budget + 1} nodes, got {len(p)}")
        rows = [as_distribution(f"p[{node}]", p[node]) for node in range(len(p))]
        q: list[Any] = [None] * len(rows)
        for node, drawn in enumerate(draft.draws):
            if drawn:
                q[node] = as_distribution(f"q[{node}]", draft.q[node])
                check_tokens(draft.drafted(node), q[node])
                if len(rows[node]) != len(q[node]):
                    raise InputError(
                        f"p and q must be distributions on one vocabulary, got {len(rows[node])} and {len(q[node])} "
                        f"tokens at node {node}"
                    )
        return Draft._unchecked(draft.tree, draft.tokens, q, draft.draws, draft.rule), rows


class SinglePath(Verifier):
    """A verifier of chains, in which each inner node has one child, a draw from q."""

    takes: ClassVar[Literal["trees", "paths", "chains"]] = "chains"

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """All rules except TOP_K, under which a single child is the most probable token and not a draw from q."""
        return tuple(rule for rule in DrawRule if rule is not DrawRule.TOP_K)

    @abstractmethod
    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        """The outcome on a path of L tokens, given p at its L + 1 nodes and q at the first L of them.

        Returns:
            (L + 1,) probabilities that each node is the last accepted node, and (L + 1, V) distributions of the next
            token after each node.
        """

    @final
    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        return Outcome(draft.tree, *self._path_outcome(path_tokens(draft), p, draft.q))

    def _check(self, draft: Draft) -> None:
        super()._check(draft)
        for node, drawn in enumerate(draft.draws[:-1]):
            if len(drawn) != 1:
                raise InputError(
                    f"{self} verifies chains: draft must have one draw at each inner node, got {len(drawn)} at node "
                    f"{node}; draft with Levels((1, 1, ...)), or verify the tree with Traversal()"
                )


def path_tokens(draft: Draft) -> list[int]:
    """The drafted tokens of a chain, in order."""
    return [int(token) for token in draft.tokens[1:]]
