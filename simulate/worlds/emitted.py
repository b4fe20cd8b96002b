"""`EmittedTokens`, the distribution of the number of tokens that a cycle emits, by class of request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from spectheory import InputError, Tree

ROUNDING = 1e-9
"""How far a sum of floating-point probabilities may be from 1."""


@dataclass(frozen=True, eq=False)
class EmittedTokens:
    """How many tokens a cycle emits, for each class of request; what a simulation of serving draws from.

    Attributes:
        shares: (C,) share of the tokens that the requests of each class emit.
        probabilities: (C, L + 1) probability that a cycle of each class emits 1, 2, ..., L + 1 tokens.

    Raises:
        InputError: the shapes disagree, a number is negative, or the shares or a row do not sum to 1.
    """

    shares: Any
    probabilities: Any

    def __post_init__(self) -> None:
        rows = np.asarray(self.probabilities)
        shares = np.asarray(self.shares)
        if rows.ndim != 2 or shares.shape != rows.shape[:1]:
            raise InputError(
                f"shares and probabilities must have shapes (C,) and (C, L + 1), got {shares.shape} and {rows.shape}"
            )
        for name, values in (("shares", shares[None]), ("probabilities", rows)):
            low, off = values.min(), abs(values.sum(1) - 1).max()
            if not (low >= 0 and off <= ROUNDING):
                raise InputError(
                    f"{name} must be at least 0 and sum to 1, got a lowest value of {low}, and a sum off by {off}"
                )
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "probabilities", rows)

    @classmethod
    def of_reach(
        cls,
        tree: Tree,
        reach: Float[np.ndarray, "*classes nodes"],
        shares: Float[np.ndarray, " classes"] | None = None,
    ) -> Self:
        """From the probability that a cycle of each class accepts each node of a tree."""
        reach = np.atleast_2d(reach)
        stop = reach * 1
        for node in range(tree.budget, 0, -1):
            stop[:, tree.parent[node]] -= reach[:, node]
        by_depth = np.stack([stop[:, tree.depth == depth].sum(1) for depth in range(tree.max_depth + 1)], 1)
        by_depth = np.maximum(by_depth, 0)  # below 0 by rounding only
        return cls(np.ones(1) if shares is None else shares, by_depth / by_depth.sum(1, keepdims=True))

    @property
    def block_efficiency_by_class(self) -> Any:
        """(C,) expected tokens per cycle in each class."""
        return self.probabilities @ np.arange(1, self.probabilities.shape[1] + 1)

    @property
    def block_efficiency(self) -> Any:
        """Expected tokens per cycle over all classes: the harmonic mean weighted by tokens."""
        return 1 / (self.shares / self.block_efficiency_by_class).sum()

    @property
    def survival(self) -> Any:
        """(C, L + 1) probability that a cycle accepts at least 0, 1, ... drafted tokens, as for `simulate.Tier`."""
        return self.probabilities[:, ::-1].cumsum(1)[:, ::-1]

    @property
    def cycle_shares(self) -> Any:
        """(C,) share of the cycles of each class."""
        cycles = self.shares / self.block_efficiency_by_class
        return cycles / cycles.sum()
