"""How a dynamic policy sees a draft model, and two drafts that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.arrays import SUM_TOLERANCE, check_distribution
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

DraftedPath = tuple[int, ...]
"""Drafted tokens from the root to a node, () for the root."""


class DraftModel(Protocol):
    """What can say which tokens follow a path of drafted tokens, and how probable each is."""

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """The children of each path, from one draft forward.

        Args:
            paths: drafted tokens behind the last committed one, () for the root; P of them, all different.

        Returns:
            tokens (P, C) integers and probabilities (P, C) given the path, each row by falling probability and equal
            ones by token. C is the drafter's choice, at most the vocabulary; policies take no child of probability 0,
            so that shorter rows are filled up with it. A policy of budget n uses the first n columns at most.

        A drafter with an attribute `trusted` that is true is taken at its word, for the sake of time.
        """
        ...


def ask(draft: DraftModel, paths: Sequence[DraftedPath], fanout: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `fanout` columns of what the draft returns, as int64 and float64; a trusted draft's answer unchanged.

    Raises:
        InputError: the answer has other shapes, or rows that rise, are no probabilities or sum to more than 1.
    """
    if getattr(draft, "trusted", False):
        return draft.expand(paths)
    tokens, probabilities = (np.asarray(part) for part in draft.expand(paths))
    if tokens.shape != probabilities.shape or tokens.ndim != 2 or len(tokens) != len(paths):
        raise InputError(
            f"draft.expand must give tokens and probabilities of shape ({len(paths)}, children) for {len(paths)} "
            f"paths, got shapes {tokens.shape} and {probabilities.shape}"
        )
    distribution = probabilities[:, :fanout].astype(np.float64)
    if not (
        (distribution[:, 1:] <= distribution[:, :-1]).all()
        and (distribution[:, -1:] >= 0).all()
        and (distribution.sum(1) <= 1 + SUM_TOLERANCE).all()
    ):
        raise InputError(
            "draft.expand must give each row of probabilities falling, none below 0 or NaN, with a sum of at most 1: "
            "take the softmax of the logits and sort it"
        )
    distribution = np.minimum(distribution, 1)  # above 1 by rounding, a child would be worth more than its parent
    return tokens[:, :fanout].astype(np.int64), distribution


@dataclass(frozen=True, eq=False)
class MarkovDraft:
    """A draft whose next token depends on the last one only; for tests and worlds small enough to write down.

    Attributes:
        q: (V, V) float64; row t is the distribution of the token after token t.
        start: the last committed token.

    >>> MarkovDraft(np.array([[0.2, 0.8], [0.5, 0.5]]), 0).expand([(), (1,)])[0]
    array([[1, 0],
           [0, 1]])
    """

    q: np.ndarray
    start: int = 0

    def __post_init__(self) -> None:
        q = np.array(self.q, np.float64)
        if q.ndim != 2 or q.shape[0] != q.shape[1] or q.size == 0:
            raise InputError(f"q must have shape (V, V), one distribution for each last token, got shape {q.shape}")
        for token, distribution in enumerate(q):
            check_distribution(f"q[{token}]", distribution)
        check_whole("start", self.start, 0, ": a token")
        if self.start >= len(q):
            raise InputError(f"start must be a token between 0 and {len(q) - 1}, got {self.start}")
        q.setflags(write=False)
        object.__setattr__(self, "q", q)

    @cached_property
    def _by_rank(self) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.argsort(-self.q, axis=1, kind="stable")
        return tokens, np.take_along_axis(self.q, tokens, axis=1)

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """See DraftModel.expand; C = V."""
        last = [path[-1] if path else self.start for path in paths]
        tokens, probabilities = self._by_rank
        return tokens[last], probabilities[last]


@dataclass(frozen=True, eq=False)
class RatesDraft:
    """A draft whose tokens are ranks and whose probabilities are planned rates, so that policies run on a plan.

    A child of rank r at depth d + 1 has probability `acceptance.row(d)[r]`, so that `Drafted.expected` is a block
    efficiency. Where the rates rise with rank somewhere, the order by probability is not that of the ranks: a policy
    then picks ranks freely and leaves gaps, which no engine can verify as ranks, and its optimum is that of the table
    with sorted rows, at least that of `best_tree`, which must take every earlier sibling. `Acceptance.smoothed` or
    `best_tree` is what helps there.

    >>> RatesDraft(Acceptance.by_rank([0.6, 0.2])).expand([()])[1]
    array([[0.6, 0.2]])
    """

    acceptance: Acceptance

    def __post_init__(self) -> None:
        if not isinstance(self.acceptance, Acceptance):
            raise InputError(
                f"acceptance must be an Acceptance, got {type(self.acceptance).__name__}: use Acceptance.by_rank"
            )

    @cached_property
    def _by_rank(self) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.argsort(-self.acceptance.table, axis=1, kind="stable")
        return tokens, np.take_along_axis(self.acceptance.table, tokens, axis=1)

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """See DraftModel.expand; C is the number of ranks."""
        row = [min(len(path), self.acceptance.depths - 1) for path in paths]
        tokens, probabilities = self._by_rank
        return tokens[row], probabilities[row]
