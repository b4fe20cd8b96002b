"""`Explained`, the record of why tau is what it is on recorded texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.replay.contexts import ContextGroup
from spectheory.replay.misses import MOST_RANKS
from spectheory.replay.other_choices import WhatIf, interval
from spectheory.replay.replays import Replayed
from spectheory.results.tally import Tally


@dataclass(frozen=True, eq=False, repr=False)
class Explained(Record):
    """Where the cycles of one tree and verifier end on R texts, and what other choices give.

    All shares are of the cycles that `Replays.replay` counts: averages over the positions of the texts, with the
    probability that a cycle starts there.

    Attributes:
        tree: the tree.
        verifier: name of the verifier; None if it is the verifier of the record.
        replayed: the cycles of each text.
        reach: share of the cycles that keep each node.
        perfect: tau of a draft that never misses at one depth: there the first child of each node is always the
            next token of the text, and is kept; at other depths the draft is the recorded one. Entry d is for the
            children of nodes at depth d. Empty for records of accepted lengths.
        next_child: share of the cycles that end at a node at depth d with children, although the token of the text
            is the very next candidate after these: one more child of each node there would have kept it. Empty unless
            the texts are greedy.
        missed: share of the cycles that end where the token of the text has rank 0, ..., M - 1 among the
            draft's candidates, most probable first; the last entry is for all other tokens. The first row is for nodes
            with children, the second for leaves. Empty for records of accepted lengths.
        contexts: the cycles by how well the draft did just before.
        what_if: other choices on the same texts.
        measured: tally of a run whose requests are those of the texts, in their order; None if there is none.

    Raises:
        InputError: the shapes disagree, or the tally has another number of requests, tree or verifier.
    """

    kind: ClassVar[str] = "explained"

    tree: Tree
    verifier: str | None
    replayed: Replayed
    reach: Float[np.ndarray, " nodes"]
    perfect: Float[np.ndarray, " depths"]
    next_child: Float[np.ndarray, " depths"]
    missed: Float[np.ndarray, "2 ranks"]
    contexts: tuple[ContextGroup, ...]
    what_if: tuple[WhatIf, ...]
    measured: Tally | None = None

    def __post_init__(self) -> None:
        depths = self.tree.max_depth
        allowed = {
            "reach": ((self.tree.budget + 1,),),
            "perfect": ((depths,), (0,)),
            "next_child": ((depths,), (0,)),
            "missed": ((2, MOST_RANKS + 1), (0,)),
        }
        for name, shapes in allowed.items():
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape not in shapes or not np.isfinite(value).all():
                raise InputError(f"{name} must be finite and have the shape {shapes[0]}, got {value.shape}")
            object.__setattr__(self, name, value)
        if len(self.replayed.accepted) != depths + 1:
            raise InputError(
                f"replayed must count cycles that keep 0 to {depths} tokens, as deep as {self.tree}, got "
                f"{len(self.replayed.accepted)} counts"
            )
        if self.measured is not None:
            _require_same(self.measured, self)

    @property
    def summary(self) -> str:
        """Tree, verifier and tau."""
        by = f", verified by {self.verifier}" if self.verifier else ""
        return f"{drafted(self.tree)}{by}: {self.replayed.summary}"

    @property
    def tau_interval(self) -> tuple[float, float] | None:
        """95% interval of tau on other texts like these; None for one text."""
        return interval(self.replayed)

    @property
    def reached(self) -> Float[np.ndarray, " lengths"]:
        """Share of the cycles that keep at least 0..L tokens."""
        return np.bincount(self.tree.depth, self.reach)

    @property
    def ended_at_leaf(self) -> Float[np.ndarray, " lengths"]:
        """Share of the cycles that end at depth 0..L because nothing was drafted below."""
        leaves = np.bincount(self.tree.parent[1:], minlength=self.tree.budget + 1) == 0
        return np.bincount(self.tree.depth, self.reach * leaves)

    @property
    def ended_by_miss(self) -> Float[np.ndarray, " lengths"]:
        """Share of the cycles that end at depth 0..L because no child was the text's token and was kept."""
        return self.reached - np.append(self.reached[1:], 0) - self.ended_at_leaf

    @property
    def kept_by_rank(self) -> Float[np.ndarray, " ranks"]:
        """Drafted tokens that a cycle keeps through children of rank 0, 1, ..., on average."""
        return np.bincount(self.tree.rank[1:], self.reach[1:])

    @property
    def request_tau(self) -> Float[np.ndarray, " texts"]:
        """Expected tokens over expected cycles of each text; NaN where no cycle fits."""
        return _ratio(self.replayed.emitted, self.replayed.cycles)

    @property
    def request_deviation(self) -> Float[np.ndarray, " texts"]:
        """Standard deviation of a request's tau over drafts and acceptances, given its text, to first order.

        The text itself is another source of differences, so that other texts of the same prompts vary more.
        """
        spread = np.sqrt(np.maximum(self.replayed.variance, 0))
        return self.request_tau * _ratio(spread, self.replayed.cycles)

    @property
    def measured_tau(self) -> Float[np.ndarray, " texts"] | None:
        """Measured tau of each request; None if nothing was measured."""
        return None if self.measured is None else _ratio(self.measured.emitted, self.measured.cycles)


def drafted(tree: Tree) -> str:
    """A tree in words."""
    return f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"


def _require_same(tally: Tally, explained: Explained) -> None:
    """Check that a tally can be laid beside the replayed requests. Raises InputError if not."""
    texts, requests, stamp = len(explained.replayed.cycles), len(tally.cycles), tally.provenance
    if requests != texts:
        raise InputError(
            f"measured must have one request for each of the {texts} texts, got {requests}: decode the prompts of the "
            "trace, with the same --skip and --count"
        )
    if stamp.tree not in (None, explained.tree.identity):
        raise InputError(
            f"measured must be of the explained tree, {explained.tree}, got a tally of another tree: explain the tree "
            "that was decoded"
        )
    if stamp.verifier and explained.verifier and not re.search(rf"\b{explained.verifier}\(", stamp.verifier):
        raise InputError(
            f"measured must be verified by {explained.verifier}, got a tally of {stamp.verifier}: explain the verifier "
            "that decoded"
        )


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """The quotients, NaN where the denominator is 0."""
    known = denominators > 0
    return np.where(known, numerators / np.where(known, denominators, 1), np.nan)
