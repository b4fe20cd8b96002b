"""`SinglePath`, the base class of verifiers of chains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, final

from spectheory.core.arrays import Vector
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.verify.outcome import Outcome
from spectheory.verify.verifier import Verifier


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
