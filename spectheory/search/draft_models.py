"""The draft model that a policy calls, two drafts computed from tables, and `Drafted`, the tree that a policy grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from jaxtyping import Float, Float64, Int, Int64

from spectheory.core.acceptance import Acceptance
from spectheory.core.arrays import as_distributions, sum_tolerance
from spectheory.core.checks import check_types, check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree

DraftedPath = tuple[int, ...]
"""Drafted tokens from the root to a node, () for the root."""
Children = tuple[Int[np.ndarray, "paths children"], Float[np.ndarray, "paths children"]]
"""The tokens that may follow each path, and their probabilities."""


class DraftModel(Protocol):
    """A draft model: it returns the tokens that may follow a path of drafted tokens, and their probabilities."""

    def expand(self, paths: Sequence[DraftedPath]) -> Children:
        """The children of each path, from one draft forward.

        Args:
            paths: different paths. Each holds the drafted tokens after the last committed token; () is the root.

        Returns:
            Tokens, and probabilities of these tokens given the path. Each row is sorted by falling probability, and
            tokens of equal probability by number. The draft chooses the number of children, at most the size of the
            vocabulary. If a path has fewer children, fill its row with probability 0: policies never draft such a
            token. A policy of budget n reads at most the first n columns.

        The answers are checked. To save this time, give the draft an attribute `trusted` that is true.
        """
        ...


def ask(draft: DraftModel, paths: Sequence[DraftedPath], fanout: int) -> Children:
    """The first `fanout` columns of what the draft returns, as int64 and float64; a trusted draft's answer unchanged.

    Raises:
        InputError: the shapes of the answer are wrong, or a row rises, is not of probabilities or sums to more than 1.
    """
    if getattr(draft, "trusted", False):
        return draft.expand(paths)
    tokens, probabilities = (np.asarray(part) for part in draft.expand(paths))
    if tokens.shape != probabilities.shape or tokens.ndim != 2 or len(tokens) != len(paths):
        raise InputError(
            f"draft.expand must return tokens and probabilities of shape ({len(paths)}, children) for {len(paths)} "
            f"paths, got shapes {tokens.shape} and {probabilities.shape}"
        )
    distribution = probabilities[:, :fanout].astype(np.float64)
    if not (
        (distribution[:, 1:] <= distribution[:, :-1]).all()
        and (distribution[:, -1:] >= 0).all()
        and (distribution.sum(1) <= 1 + sum_tolerance(1_000_000)).all()
    ):
        raise InputError(
            "draft.expand must return rows of probabilities in descending order, none negative or NaN, with a sum "
            "of at most 1: take the softmax of the logits and sort it"
        )
    distribution = np.minimum(distribution, 1)  # above 1 by rounding, a child would be worth more than its parent
    return tokens[:, :fanout].astype(np.int64), distribution


def sorted_rows(table: Float64[np.ndarray, "rows children"]) -> Children:
    """The columns of each row by falling entry, equal ones in their order, and the sorted entries."""
    order = np.argsort(-table, axis=1, kind="stable")
    return order, np.take_along_axis(table, order, axis=1)


@dataclass(frozen=True, eq=False)
class MarkovDraft:
    """A draft whose next token depends on the last token only, for tests and small examples.

    Attributes:
        q: row t is the distribution of the token after token t.
        start: the last committed token.

    >>> MarkovDraft(np.array([[0.2, 0.8], [0.5, 0.5]]), 0).expand([(), (1,)])[0]
    array([[1, 0],
           [0, 1]])
    """

    q: Float64[np.ndarray, "V V"]
    start: int = 0

    def __post_init__(self) -> None:
        q = np.array(self.q, np.float64)
        if q.ndim != 2 or q.shape[0] != q.shape[1] or q.size == 0:
            raise InputError(f"q must have shape (V, V), one distribution for each last token, got shape {q.shape}")
        q = as_distributions("q", q)
        check_whole("start", self.start, 0, ": start is the number of a token")
        if self.start >= len(q):
            raise InputError(f"start must be a token between 0 and {len(q) - 1}, got {self.start}")
        q.setflags(write=False)
        object.__setattr__(self, "q", q)

    @cached_property
    def _by_rank(self) -> tuple[np.ndarray, np.ndarray]:
        return sorted_rows(self.q)

    def expand(self, paths: Sequence[DraftedPath]) -> Children:
        """See `DraftModel.expand`; the children are all tokens."""
        last = [path[-1] if path else self.start for path in paths]
        tokens, probabilities = self._by_rank
        return tokens[last], probabilities[last]


@dataclass(frozen=True, eq=False)
class RatesDraft:
    """A draft whose tokens are ranks and whose probabilities are acceptance rates, to run a policy without a model.

    The child of rank r of a node at depth d has probability `acceptance.row(d)[r]`, so `Drafted.expected` is a block
    efficiency.

    If a row of rates rises somewhere, the order by probability differs from the order of the ranks. A policy may then
    draft a rank without the ranks before it, and no engine can verify such a tree. Its optimum is the best tree of the
    table with sorted rows, worth at least as much as the result of `best_tree`, which takes every earlier sibling. For
    such rates use `Acceptance.smoothed` first, or `best_tree`.

    >>> RatesDraft(Acceptance.by_rank([0.6, 0.2])).expand([()])[1]
    array([[0.6, 0.2]])
    """

    acceptance: Acceptance

    def __post_init__(self) -> None:
        check_types(RatesDraft, vars(self))

    @cached_property
    def _by_rank(self) -> tuple[np.ndarray, np.ndarray]:
        return sorted_rows(self.acceptance.table)

    def expand(self, paths: Sequence[DraftedPath]) -> Children:
        """See `DraftModel.expand`; the children are all ranks."""
        row = [min(len(path), self.acceptance.depths - 1) for path in paths]
        tokens, probabilities = self._by_rank
        return tokens[row], probabilities[row]


UNKNOWN_TOKEN = -1
"""The entry of the root in `Drafted.tokens`: the root is the last committed token, which a policy does not see."""


@dataclass(frozen=True, eq=False)
class Drafted:
    """A tree of n drafted nodes. The most probable nodes come first, and every prefix is a tree.

    Nodes of equal probability are ordered by smaller depth, then by lower rank, then by the order of their parents.

    Attributes:
        tree: the tree. Siblings are in the order of the draft's probabilities.
        tokens: token of each node; `UNKNOWN_TOKEN` for the root.
        probability: the product of the draft's probabilities on the path; 1 for the root.
        budget: maximum number of drafted nodes that the policy was allowed; n is smaller if the policy stopped earlier.
        draft_calls: number of draft forwards.
        draft_tokens: number of nodes that these forwards expanded, the root included.
    """

    tree: Tree
    tokens: Int64[np.ndarray, " nodes"]
    probability: Float64[np.ndarray, " nodes"]
    budget: int
    draft_calls: int
    draft_tokens: int

    @property
    def expected(self) -> float:
        """1 + the sum of the drafted nodes' probabilities.

        This is the block efficiency if the target accepts each token with the probability that the draft gives it.

        Source: OPT-Tree, Eq. (3). The source leaves out the 1, which is the token that the target adds.
        """
        return float(self.probability.sum())
