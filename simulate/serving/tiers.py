"""`Tier`: a tree and a verifier that an engine can run in a step, and how many tokens a cycle accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory import Acceptance, RequestClasses, Schedule, Tree, reach
from spectheory.core.checks import check_array
from spectheory.core.errors import InputError

Rates = Acceptance | RequestClasses | Sequence[Acceptance | Sequence[float] | np.ndarray]
"""Rates of acceptance: of all requests, or of each class of requests."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Tier:
    """A tree with its verifier. The root alone means no speculation.

    Attributes:
        tree: the tree that every sequence drafts in a cycle.
        survival: (classes, depth + 1) probability that a cycle accepts at least 0, 1, ... drafted tokens, for each
            class of requests. The first column is 1, and rows never rise.
        verifier: the verifier whose own overheads count; None for the usual ones.
        drafted: the tree that is drafted if only `tree`, a part of it, is verified; None is `tree`.

    Raises:
        InputError: the shape is wrong, an entry is not a probability (NaN too), or a row rises.
    """

    tree: Tree
    survival: np.ndarray
    verifier: str | None = None
    drafted: Tree = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        survival = check_array("survival", self.survival)
        if survival.ndim != 2 or not len(survival) or survival.shape[1] != self.tree.max_depth + 1:
            raise InputError(
                f"survival must have a row of {self.tree.max_depth + 1} probabilities for each class, for a tree "
                f"{self.tree.max_depth} deep, got shape {survival.shape}"
            )
        survival = survival.astype(np.float64)
        if not ((survival >= -ROUNDING) & (survival <= 1 + ROUNDING)).all():  # NaN as well
            raise InputError(f"survival must be probabilities, got {survival.tolist()!s:.80}: check the rates")
        if (survival[:, 0] < 1 - ROUNDING).any() or (np.diff(survival) > ROUNDING).any():
            raise InputError(f"survival must start at 1 and never rise, got {survival.tolist()!s:.80}: check the rates")
        if self.drafted is None:
            object.__setattr__(self, "drafted", self.tree)
        object.__setattr__(self, "survival", np.minimum.accumulate(survival.clip(0, 1), axis=1))

    @classmethod
    def off(cls, classes: int = 1) -> Tier:
        """No speculation."""
        return cls(Tree.chain(0), np.ones((classes, 1)))

    @classmethod
    def of(cls, tree: Tree, rates: Rates, verifier: str | None = None) -> Tier:
        """A tree under rates of acceptance, of all requests or of each class of requests.

        Args:
            tree: the tree.
            rates: an `Acceptance` for all requests; `RequestClasses`, whose classes are those of the requests; or for
                each class an `Acceptance`, or for chains the probabilities (D + 1,) that exactly 0, 1, ... D tokens of
                a chain of D are accepted.
            verifier: the verifier whose own overheads count.
        """
        return cls(tree, np.array([_by_depth(tree, row) for row in _node_rows(tree, rates)]), verifier)

    @property
    def name(self) -> str:
        """Its name in tables, such as `off`, `chain 3` or `tree 12`."""
        if not self.tree.budget:
            return "off"
        return f"{'chain' if self.tree.is_chain else 'tree'} {self.tree.budget}"

    @property
    def classes(self) -> int:
        """Number of classes of requests."""
        return len(self.survival)

    @property
    def tau(self) -> Float[np.ndarray, " classes"]:
        """Tokens of a cycle, on average, far from the end of an answer."""
        return self.survival.sum(1)


def _node_rows(tree: Tree, rates: Rates) -> list[Float[np.ndarray, " nodes"]]:
    """Probability that each node is accepted, for each class."""
    if isinstance(rates, Acceptance):
        return [reach(tree, rates)]
    if isinstance(rates, RequestClasses):
        return list(rates.reach_by_class(tree))
    if not isinstance(rates, Sequence) or not len(rates):
        raise InputError(
            f"rates must be an Acceptance, RequestClasses, or a list with one of each class, got {rates!r:.60}"
        )
    return [
        reach(tree, one) if isinstance(one, Acceptance) else _reach_of_chain(tree, one, f"rates[{row}]")
        for row, one in enumerate(rates)
    ]


def _reach_of_chain(tree: Tree, given: Sequence[float] | np.ndarray, name: str) -> Float[np.ndarray, " nodes"]:
    """Reach of a chain, from the probabilities of each number of accepted tokens of a longer one."""
    probabilities = check_array(name, given)
    if probabilities.ndim != 1 or probabilities.dtype.kind not in "iuf" or not (probabilities >= 0).all():
        raise InputError(f"{name} must be probabilities of 0, 1, ... accepted tokens, got {probabilities!r:.80}")
    if abs(probabilities.sum() - 1) > 1e-6:
        raise InputError(f"{name} must sum to 1, got {probabilities.sum():.6g}: give all numbers of accepted tokens")
    if not tree.is_chain or len(probabilities) <= tree.budget:
        raise InputError(
            f"{name} describes chains of up to {len(probabilities) - 1} tokens, not {tree}: give an Acceptance"
        )
    return probabilities[::-1].cumsum()[::-1][: tree.budget + 1] / probabilities.sum()


def _by_depth(tree: Tree, values: np.ndarray) -> Float[np.ndarray, " lengths"]:
    """Sum of the reach of the nodes of each depth, which is the survival of the tree."""
    survival = np.bincount(tree.depth, values, minlength=tree.max_depth + 1)
    survival[0] = 1.0
    return np.minimum.accumulate(survival.clip(0, 1))


def tiers_of(source: Schedule, rates: Rates | None = None) -> tuple[Tier, ...]:
    """The options of a schedule. What they accept is replayed if it was, otherwise by the rates.

    Args:
        source: the schedule.
        rates: true rates, in place of those that `source` predicts from.
    """
    if rates is not None:
        return tuple(Tier.of(option.tree, rates, option.verifier) for option in source.options)
    return tuple(
        Tier(option.tree, _by_depth(option.tree, option.reach(source.rates))[None], option.verifier)
        for option in source.options
    )
